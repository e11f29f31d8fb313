package act

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/drain/runner"
	"usher.sh/usher/internal/snapshot"
)

var _ runner.Writer = (*Recorder)(nil)

const eventsPath = "/apis/events.k8s.io/v1/namespaces/default/events"

// marking is a mark of node a, which is in the state before.
func marking(before, state, note string) drain.Action {
	was, is, n := *record, *record, *node
	was.State, is.State, n.Drain = before, state, &was
	return drain.Action{Kind: drain.Mark, Node: &n, Record: &is, Note: note}
}

func eventsIn(t *testing.T, received []request) []*eventsv1.Event {
	t.Helper()
	var all []*eventsv1.Event
	for _, r := range received {
		if r.URL != eventsPath {
			continue
		}
		event := &eventsv1.Event{}
		if err := json.Unmarshal([]byte(r.Body), event); err != nil || r.Method != http.MethodPost {
			t.Fatalf("%s %s: %v", r.Method, r.Body, err)
		}
		all = append(all, event)
	}
	return all
}

func TestEventsOfADrain(t *testing.T) {
	why := *record
	why.Why = "disk swap"
	cases := map[string]struct {
		action drain.Action
		want   string // type, reason and note; "" for no event
	}{
		"cordon":               {drain.Action{Kind: drain.Cordon, Node: node, Record: record}, "Normal Draining: pods are moved off the node for me@here"},
		"cordon with a reason": {drain.Action{Kind: drain.Cordon, Node: node, Record: &why}, "Normal Draining: pods are moved off the node for me@here (disk swap)"},
		"a sign of life":       {marking("draining", "draining", ""), ""},
		"drained":              {marking("draining", "drained", ""), "Normal Drained: all pods that were to leave have left; it stays cordoned"},
		"blocked":              {marking("draining", "blocked", "1 pod left: shop/web-1 (BudgetNeverAllows)"), "Warning DrainBlocked: nothing more can leave; 1 pod left: shop/web-1 (BudgetNeverAllows)"},
		"blocked as before":    {marking("blocked", "blocked", "1 pod left"), ""},
		"going on":             {marking("blocked", "draining", ""), ""},
		"interrupted":          {marking("draining", "interrupted", "2 pods left"), "Warning DrainInterrupted: the drain was interrupted; 2 pods left"},
		"timed out":            {marking("draining", "timeout", ""), "Warning DrainTimedOut: the drain timed out"},
		"late":                 {marking("draining", "deadline", ""), "Warning DrainDeadlinePassed: the drain was not done by its deadline"},
		"uncordon":             {drain.Action{Kind: drain.Uncordon, Node: node}, "Normal Uncordoned: usher has taken its cordon away"},
		"the record alone":     {drain.Action{Kind: drain.Unmark, Node: node}, ""},
		"a pod":                {drain.Action{Kind: drain.Evict, Pod: pod}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			client, received := server(t, ok())
			r := &Recorder{Writer: &Writer{Client: client}, Now: func() time.Time { return noon }, By: "me@here"}
			r.Do(t.Context(), c.action)
			r.Wait()
			got := ""
			for _, e := range eventsIn(t, *received) {
				got += e.Type + " " + e.Reason + ": " + e.Note
				if e.Regarding.Kind != "Node" || e.Regarding.Name != "a" || e.Regarding.UID != "node-uid" || !e.EventTime.Time.Equal(noon) || e.ReportingInstance != "me@here" || e.Action == "" || !strings.HasPrefix(e.Name, "a.") {
					t.Errorf("event %+v", e)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A write that is repeated, because its effect was not seen in time, makes one event.
func TestEventsAreMadeOnce(t *testing.T) {
	client, received := server(t, ok())
	r := &Recorder{Writer: &Writer{Client: client}, Now: time.Now}
	for _, a := range []drain.Action{
		{Kind: drain.Cordon, Node: node, Record: record},
		{Kind: drain.Cordon, Node: node, Record: record},
		marking("draining", "interrupted", ""), marking("draining", "interrupted", ""),
		{Kind: drain.Uncordon, Node: node},
	} {
		r.Do(t.Context(), a)
		r.Wait()
	}
	var reasons []string
	for _, e := range eventsIn(t, *received) {
		reasons = append(reasons, e.Reason)
	}
	if diff := cmp.Diff([]string{"Draining", "DrainInterrupted", "Uncordoned"}, reasons); diff != "" {
		t.Error(diff)
	}
}

// What was not carried out makes no event, and where the right to make them is missing only the first is tried.
func TestEventsThatAreNotMade(t *testing.T) {
	forbidden := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: http.StatusForbidden,
		Message: `events.events.k8s.io is forbidden: User "eva" cannot create resource "events"`,
	}
	cordon := drain.Action{Kind: drain.Cordon, Node: node, Record: record}
	t.Run("a cordon that was refused", func(t *testing.T) {
		client, received := server(t, forbidden)
		r := &Recorder{Writer: &Writer{Client: client}, Now: time.Now}
		if got := r.Do(t.Context(), cordon); got.Code != answers.Forbidden {
			t.Errorf("got %+v", got)
		}
		r.Wait()
		if n := len(eventsIn(t, *received)); n != 0 {
			t.Errorf("%d events", n)
		}
	})
	t.Run("a dry run", func(t *testing.T) {
		client, received := server(t, ok())
		r := &Recorder{Writer: &Writer{Client: client, DryRun: true}, Now: time.Now}
		r.Do(t.Context(), cordon)
		r.Wait()
		if n := len(eventsIn(t, *received)); n != 0 {
			t.Errorf("%d events", n)
		}
	})
	t.Run("no right to make events", func(t *testing.T) {
		client, received := serverOf(t, func(path string) metav1.Status {
			if path == eventsPath {
				return forbidden
			}
			return ok()
		})
		r := &Recorder{Writer: &Writer{Client: client}, Now: time.Now}
		for _, a := range []drain.Action{cordon, marking("draining", "drained", ""), {Kind: drain.Uncordon, Node: &snapshot.Node{Name: "b", UID: "b", ResourceVersion: "1"}}} {
			if got := r.Do(t.Context(), a); got.Code != answers.Accepted {
				t.Errorf("%s: %+v", a.Kind, got)
			}
			r.Wait()
		}
		if n := len(eventsIn(t, *received)); n != 1 || len(*received) != 4 {
			t.Errorf("%d events of %d requests", n, len(*received))
		}
	})
}

// A pod that is deleted past its budgets has an event of its own, which says whom they have held for how long; other deletions have none.
func TestEventOfAHoldThatEnds(t *testing.T) {
	client, received := server(t, ok())
	r := &Recorder{Writer: &Writer{Client: client}, Now: func() time.Time { return noon }, By: "me@here"}
	r.Do(t.Context(), drain.Action{Kind: drain.Delete, Pod: pod})
	words := "NodeMaintenance kernel was held for longer than maxHold 1h0m0s of ClusterEvictionPolicy tenants"
	r.Do(t.Context(), drain.Action{Kind: drain.Delete, Pod: pod, HoldExpired: words})
	r.Wait()
	var got []string
	for _, sent := range *received {
		if !strings.HasPrefix(sent.URL, "/apis/events.k8s.io/v1/namespaces/"+pod.Namespace+"/events") {
			continue
		}
		event := &eventsv1.Event{}
		if err := json.Unmarshal([]byte(sent.Body), event); err != nil {
			t.Fatal(err)
		}
		about := event.Regarding
		got = append(got, event.Type+" "+event.Reason+" of "+about.Kind+" "+about.Namespace+"/"+about.Name+" "+string(about.UID)+": "+event.Note)
	}
	want := []string{"Warning HoldExpired of Pod " + pod.Namespace + "/" + pod.Name + " " + string(pod.UID) + ": deleted past its PodDisruptionBudgets: " + words}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Each warning of a drain is an event about its pod, until events may not be made.
func TestEventsOfWarnings(t *testing.T) {
	db := drain.Warning{Reason: drain.WillBeLost, Pod: pod.Key(), UID: pod.UID, Node: "a", Message: "it will be lost with the node"}
	for name, c := range map[string]struct {
		answer metav1.Status
		want   int
	}{
		"made":    {ok(), 2},
		"refused": {metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			client, received := server(t, c.answer)
			r := &Recorder{Writer: &Writer{Client: client}, Now: func() time.Time { return noon }, By: "me@here"}
			r.Warn(t.Context(), []drain.Warning{db, db})
			r.Wait()
			if len(*received) != c.want {
				t.Fatalf("%d events, want %d", len(*received), c.want)
			}
			event := &eventsv1.Event{}
			if err := json.Unmarshal([]byte((*received)[0].Body), event); err != nil {
				t.Fatal(err)
			}
			about := event.Regarding
			got := event.Type + " " + event.Reason + " of " + about.Kind + " " + about.Namespace + "/" + about.Name + " " + string(about.UID) + ": " + event.Note
			if want := "Warning WillBeLost of Pod " + pod.Namespace + "/" + pod.Name + " " + string(pod.UID) + ": it will be lost with the node"; got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
}
