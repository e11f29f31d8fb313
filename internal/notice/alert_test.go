package notice

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"usher.sh/usher/api/v1alpha1"
)

const spotRule = `
rules:
- name: spot
  alert: {matchers: ['alertname="SpotTerminationNotice"'], nodeLabel: instance}
  kind: SpotInterruption
  effectiveAfter: 2m
- name: other
  alert: {matchers: ['alertname=~"Spot.*|Disk"']}
`

// webhookBody is what Alertmanager 0.28 sends.
const webhookBody = `{"receiver":"usher","status":"firing","alerts":[
 {"status":"firing","labels":{"alertname":"SpotTerminationNotice","instance":"n1:9189"},"annotations":{"summary":"it goes"},
  "startsAt":"2026-11-29T12:00:00Z","endsAt":"0001-01-01T00:00:00Z","generatorURL":"http://p/graph","fingerprint":"c0ffee"},
 {"status":"resolved","labels":{"alertname":"Disk","node":"n2"},"annotations":{},"startsAt":"2026-11-29T11:00:00Z","endsAt":"2026-11-29T11:30:00Z","fingerprint":"decaf"}],
 "groupLabels":{},"commonLabels":{},"commonAnnotations":{},"externalURL":"http://a","version":"4","groupKey":"{}:{}","truncatedAlerts":3}`

// arrayBody is what Prometheus sends to its Alertmanagers, and Hollowtrees took.
const arrayBody = `[{"labels":{"alertname":"SpotTerminationNotice","instance":"n1"},"annotations":{},"startsAt":"2026-11-29T11:59:00Z","endsAt":"2026-11-29T12:03:00Z","generatorURL":"http://p"},
 {"labels":{"alertname":"Disk"},"startsAt":"2026-11-29T11:00:00Z","endsAt":"2026-11-29T11:30:00Z"}]`

func TestParseAlerts(t *testing.T) {
	sent, err := ParseAlerts([]byte(webhookBody))
	if err != nil {
		t.Fatal(err)
	}
	if sent.Truncated != 3 || len(sent.All) != 2 || sent.All[0].Resolved(noon) || !sent.All[1].Resolved(noon) || sent.All[0].Annotations["summary"] != "it goes" {
		t.Errorf("%+v", sent)
	}
	plain, err := ParseAlerts([]byte(" " + arrayBody))
	if err != nil {
		t.Fatal(err)
	}
	if len(plain.All) != 2 || plain.All[0].Resolved(noon) || !plain.All[1].Resolved(noon) || !plain.All[0].Resolved(noon.Add(3*time.Minute)) {
		t.Errorf("%+v", plain)
	}
}

func TestParseAlertsMistakes(t *testing.T) {
	for body, want := range map[string]string{
		"":                     "the body is empty",
		"[]":                   "the body has no alerts",
		`{"version":"4"}`:      "the body has no alerts",
		`{"version":"3"}`:      `version is "3", and this knows 4`,
		`{"alerts":[{}]}`:      `version is "", and this knows 4`,
		"nodes":                "the body is neither the object of Alertmanager's webhook nor an array of alerts",
		`[{"labels":{"a":1}}]`: "the body is neither the object of Alertmanager's webhook nor an array of alerts",
		`[{"startsAt":"now"}]`: "the body is neither the object of Alertmanager's webhook nor an array of alerts",
		`[{}] [{}]`:            "the body is neither the object of Alertmanager's webhook nor an array of alerts",
		"[" + strings.Repeat("{},", 1000) + "{}]": "the body has 1001 alerts, and may have 1000",
	} {
		if _, err := ParseAlerts([]byte(body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %s", body, err, want)
		}
	}
}

func TestEventOfAnAlert(t *testing.T) {
	alert := func(start string, labels ...string) *Alert {
		a := &Alert{Labels: map[string]string{}}
		for i := 0; i < len(labels); i += 2 {
			a.Labels[labels[i]] = labels[i+1]
		}
		if start != "" {
			a.StartsAt, _ = time.Parse(time.RFC3339, start)
		}
		return a
	}
	one := alert("2026-11-29T12:00:00Z", "alertname", "A", "node", "n1")
	if !strings.HasPrefix(one.Event(), "A/") || !strings.HasSuffix(one.Event(), "@2026-11-29T12:00:00Z") {
		t.Errorf("event %s", one.Event())
	}
	if same := alert("2026-11-29T13:00:00+01:00", "node", "n1", "alertname", "A"); same.Event() != one.Event() {
		t.Errorf("the same alert is %s and %s", same.Event(), one.Event())
	}
	for name, other := range map[string]*Alert{
		"labels":              alert("2026-11-29T12:00:00Z", "alertname", "A", "node", "n2"),
		"start":               alert("2026-11-29T12:00:01Z", "alertname", "A", "node", "n1"),
		"no start":            alert("", "alertname", "A", "node", "n1"),
		"labels run together": alert("2026-11-29T12:00:00Z", "alertname", "A", "noden", "1"),
	} {
		if other.Event() == one.Event() {
			t.Errorf("%s: the same event", name)
		}
	}
}

func TestByAlert(t *testing.T) {
	c := parsed(t, spotRule)
	nodes := []Node{{Name: "n1", Hostname: "host-1", ProviderID: "aws:///a/i-1"}, {Name: "n2", Hostname: "host-2", ProviderID: "aws:///a/i-2"}, {Name: "n3", Hostname: "host-2"}}
	start, end := noon.Add(-time.Minute), noon.Add(3*time.Minute)
	notice := func(kind Kind, node string, effective, end time.Time) *Notice {
		return &Notice{Source: Alertmanager, Kind: kind, Node: node, EffectiveTime: effective, EndTime: end, Message: "m"}
	}
	for name, test := range map[string]struct {
		labels map[string]string
		status string
		rule   string
		want   *Notice
		fails  string
	}{
		"by name, the first rule that matches": {
			labels: map[string]string{"alertname": "SpotTerminationNotice", "instance": "n1"}, status: "firing", rule: "spot",
			want: notice(SpotInterruption, "n1", start.Add(2*time.Minute), time.Time{}),
		},
		"Prometheus says until when it stands": {
			labels: map[string]string{"alertname": "SpotTerminationNotice", "instance": "n1"}, rule: "spot",
			want: notice(SpotInterruption, "n1", start.Add(2*time.Minute), end),
		},
		"with a port":    {labels: map[string]string{"alertname": "SpotTerminationNotice", "instance": "n1:9189"}, status: "firing", rule: "spot", want: notice(SpotInterruption, "n1", start.Add(2*time.Minute), time.Time{})},
		"by host name":   {labels: map[string]string{"alertname": "SpotTerminationNotice", "instance": "host-1:9100"}, status: "firing", rule: "spot", want: notice(SpotInterruption, "n1", start.Add(2*time.Minute), time.Time{})},
		"by provider id": {labels: map[string]string{"alertname": "SpotTerminationNotice", "instance": "i-2"}, status: "firing", rule: "spot", want: notice(SpotInterruption, "n2", start.Add(2*time.Minute), time.Time{})},
		"a later rule":   {labels: map[string]string{"alertname": "Disk", "node": "n1"}, status: "firing", rule: "other", want: notice(Problem, "n1", time.Time{}, time.Time{})},
		"no rule":        {labels: map[string]string{"alertname": "Watchdog", "node": "n1"}},
		"an unknown node": {
			labels: map[string]string{"alertname": "Disk", "node": "n9"}, fails: "alert Disk is about node=n9, and no node has that name, host name or provider id",
		},
		"no node":              {labels: map[string]string{"alertname": "Disk"}, fails: "alert Disk has no label node, by which rule other finds its node"},
		"two nodes":            {labels: map[string]string{"alertname": "Disk", "node": "host-2"}, fails: "alert Disk is about node=host-2, which 2 nodes are called, n2 and n3 among them"},
		"part of a providerID": {labels: map[string]string{"alertname": "Disk", "node": "2"}, fails: "no node has that name"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &Alert{Labels: test.labels, Annotations: map[string]string{"summary": "m"}, StartsAt: start, EndsAt: end, Status: test.status}
			got, err := c.ByAlert(a, nodes)
			if test.fails != "" {
				if err == nil || !strings.Contains(err.Error(), test.fails) {
					t.Errorf("%v, want %s", err, test.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if test.want == nil {
				if got != nil {
					t.Errorf("%+v", got)
				}
				return
			}
			if diff := cmp.Diff(*test.want, got.Notice, cmpopts.IgnoreFields(Notice{}, "Event")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got.Rule.Name != test.rule || got.Event != a.Event() {
				t.Errorf("rule %s, event %s", got.Rule.Name, got.Event)
			}
		})
	}
}

// What an alert has led to is withdrawn when it is resolved, also where no rule matches it any more, and nothing else is.
func TestByResolved(t *testing.T) {
	c := parsed(t, spotRule)
	nodes := []Node{{Name: "n1", UID: "uid-n1"}}
	alert := &Alert{Labels: map[string]string{"alertname": "Disk", "node": "n1"}, StartsAt: noon, Status: "firing"}
	later := &Alert{Labels: alert.Labels, StartsAt: noon.Add(time.Hour), Status: "firing"}
	var all []*v1alpha1.NodeMaintenance
	for _, a := range []*Alert{alert, later} {
		r, err := c.ByAlert(a, nodes)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c.maintenance(r, &nodes[0], noon))
	}
	forged := all[0].DeepCopy()
	forged.Name = "mine"
	got := ByResolved(&Alert{Labels: alert.Labels, StartsAt: noon, EndsAt: noon.Add(time.Minute), Status: "resolved"}, append(all, forged))
	if len(got) != 1 || !got[0].Withdrawn || got[0].Name() != all[0].Name {
		t.Errorf("%+v", got)
	}
}

func TestNames(t *testing.T) {
	n := Notice{Source: EC2, Event: "e", Node: "n1.example"}
	if got := n.Name(); !strings.HasPrefix(got, "notice-n1.example-") {
		t.Error(got)
	}
	long := Notice{Node: strings.Repeat("a", 199) + "." + strings.Repeat("b", 50)}
	if got := long.Name(); len(got) > 253 || strings.Contains(got, ".-") {
		t.Error(got)
	}
	names := map[string]bool{}
	for i, other := range []Notice{n, {Source: GCE, Event: "e", Node: "n1.example"}, {Source: EC2, Event: "f", Node: "n1.example"}, {Source: EC2, Event: "e", Node: "n2"}, {Source: "ec", Event: "2e", Node: "n1.example"}} {
		if names[other.Name()] = true; len(names) != i+1 {
			t.Errorf("%s has the name of another", fmt.Sprint(other))
		}
	}
}
