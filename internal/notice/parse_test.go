package notice

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
)

func parsed(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestParseDefaults(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "{}", "rules: []"} {
		if diff := cmp.Diff(Default(), parsed(t, text)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
	want := map[Kind]Action{
		SpotInterruption: Drain, Reboot: Drain, Redeploy: Drain, Termination: Drain, Shutdown: Drain, ScaleDown: Drain,
		Rebalance: Report, Maintenance: Report, Problem: Report,
	}
	if diff := cmp.Diff(want, Default().Kinds); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
}

func TestParse(t *testing.T) {
	c := parsed(t, `
drain: {unmanagedPods: Block, surge: Never}
atDeadline: DeletePods
concurrency: {nodes: 3}
margin: 10s
beginBefore: 2h
kinds: {Rebalance: Drain, Reboot: Report}
rules:
- name: spot
  alert: {matchers: ['alertname="SpotTerminationNotice"', 'pool=~"a|b"', team!=infra], nodeLabel: instance_id}
  kind: SpotInterruption
  action: Drain
  effectiveAfter: 2m
  hook: https://hook.example/spot
- name: kernel
  condition: {type: KernelDeadlock, status: "True", for: 5m}
  action: Drain
- name: shutdown
  condition: {type: Ready, status: "False", message: shutting down}
  kind: Shutdown
- name: autoscaler
  taint: {key: ToBeDeletedByClusterAutoscaler, effect: NoSchedule}
  kind: ScaleDown
- name: any
  alert: {matchers: []}
  matchAll: Allow
`)
	type rule struct {
		Kind   Kind
		Action Action
		After  time.Duration
		Hook   string
	}
	got := map[string]rule{}
	for i := range c.Rules {
		r := &c.Rules[i]
		got[r.Name] = rule{r.Kind, c.action(&Reported{Notice{Kind: r.Kind}, r}), r.EffectiveAfter, r.Hook}
	}
	if diff := cmp.Diff(map[string]rule{
		"spot": {SpotInterruption, Drain, 2 * time.Minute, "https://hook.example/spot"}, "kernel": {Problem, Drain, 0, ""}, "shutdown": {Shutdown, Drain, 0, ""},
		"autoscaler": {ScaleDown, Drain, 0, ""}, "any": {Problem, Report, 0, ""},
	}, got); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	if c.action(&Reported{Notice: Notice{Kind: Rebalance}}) != Drain || c.action(&Reported{Notice: Notice{Kind: Reboot}}) != Report {
		t.Errorf("kinds %v", c.Kinds)
	}
	if c.Margin != 10*time.Second || c.BeginBefore != 2*time.Hour || c.AtDeadline != v1alpha1.DeadlineDeletePods || c.Concurrency.Nodes != 3 || c.Concurrency.Zones != 1 ||
		c.Drain.UnmanagedPods != v1alpha1.PodsBlock || c.Drain.EmptyDirPods != v1alpha1.PodsEvict || c.Drain.Surge != v1alpha1.SurgeNever {
		t.Errorf("%+v", c)
	}
	if r := c.Rules[0].Alert; r.NodeLabel != "instance_id" || len(r.Matchers) != 3 || c.Rules[4].Alert.NodeLabel != "node" {
		t.Errorf("%+v", r)
	}
}

// Each mistake is a sentence that begins with its field, and none hides another.
// A rule sets no taint by which Kubernetes, an autoscaler or Usher itself acts; NoExecute has to be written.
func TestParseTaints(t *testing.T) {
	for _, key := range []string{
		"node.kubernetes.io/out-of-service", "kubernetes.io/a", "node.cluster.x-k8s.io/a", "k8s.io/a", "usher.sh/memory-pressure", "notice.usher.sh/a", "karpenter.sh/disrupted",
		"ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler",
	} {
		_, err := Parse("rules: [{name: a, taint: {key: b}, action: Taint, setTaint: {key: " + key + "}}]")
		if err == nil || !strings.Contains(err.Error(), "is another client's") {
			t.Errorf("%s: %v", key, err)
		}
	}
	for written, want := range map[string]v1alpha1.MaintenanceTaint{
		"{key: mykubernetes.io/a}":                        {Key: "mykubernetes.io/a", Effect: v1alpha1.TaintNoSchedule},
		"{key: a.b/c, value: d, effect: NoExecute}":       {Key: "a.b/c", Value: "d", Effect: v1alpha1.TaintNoExecute},
		"{key: A, value: \"\", effect: PreferNoSchedule}": {Key: "A", Effect: v1alpha1.TaintPreferNoSchedule},
	} {
		c := parsed(t, "rules: [{name: a, taint: {key: b}, action: Taint, setTaint: "+written+"}]")
		if diff := cmp.Diff(&want, c.Rules[0].Sets); diff != "" {
			t.Errorf("%s (-want +got):\n%s", written, diff)
		}
	}
	c := parsed(t, "{kinds: {Rebalance: Cordon}, rules: [{name: a, taint: {key: b}, action: Hook, hook: 'http://h'}, {name: c, taint: {key: b}, action: Cordon, hook: 'http://h'}]}")
	if c.Kinds[Rebalance] != Cordon || c.Rules[0].Action != CallHook || c.Rules[0].Hook != "http://h" || c.Rules[1].Hook == "" {
		t.Errorf("%+v", c)
	}
}

func TestParseMistakes(t *testing.T) {
	rule := func(rest string) string { return "rules:\n- {name: a, " + rest + "}\n" }
	alert := func(matcher string) string { return rule("alert: {matchers: ['" + matcher + "']}") }
	for text, want := range map[string]string{
		"- a":                              "it is not an object with the fields of this configuration",
		"kinds: {Reboot: [1]}":             "kinds: it is of the type array, and has to be a string",
		"a: [":                             "it is not YAML",
		"margin: 1s\nmargin: 2s":           "it is not YAML: yaml: unmarshal errors: line 2",
		"rules: {}":                        "rules: it is of the type object, and has to be a list",
		"concurrency: {nodes: many}":       "concurrency.nodes: it is of the type string, and has to be a number",
		"Margin: 1s":                       `unknown field "Margin": there is no such field`,
		rule("alrt: {}"):                   `unknown field "rules[0].alrt": there is no such field`,
		"drain: {unmanagedPods: Evicted}":  `drain.unmanagedPods: "Evicted" is none of Block, Evict`,
		"drain: {surge: true}":             "drain.surge: it is of the type bool, and has to be a string",
		"atDeadline: Delete":               `atDeadline: "Delete" is none of Stop, DeletePods`,
		"margin: 5":                        "margin: it is of the type number, and has to be a string",
		"margin: 5sec":                     `margin: "5sec" is no duration: write 90s, 5m or 1h30m`,
		"margin: -5s":                      "margin: -5s is below 0",
		"margin: 11m":                      "margin: 11m0s is more than 10m0s",
		"concurrency: {zones: -1}":         "concurrency.zones: -1 is below 1",
		"kinds: {Spot: Drain}":             `kinds: "Spot" is none of SpotInterruption`,
		"kinds: {Reboot: Taint}":           `kinds.Reboot: "Taint" is none of Drain, Cordon, Report`,
		"rules: [{}]":                      "rules[0].name: it is missing",
		"rules: [{name: A_b}]":             `rules[0].name: "A_b" is none`,
		rule("kind: Problem"):              "rules[0]: it has 0 of alert, condition and taint, and needs exactly one",
		rule("alert: {}, taint: {key: a}"): "rules[0]: it has 2 of alert, condition and taint, and needs exactly one",
		rule("alert: {}"):                  "rules[0]: it matches alerts without any label, and so may match every alert",
		alert(`a=~".*"`):                   "may match every alert",
		alert(`a!="x"`):                    "may match every alert",
		alert(`a!~"x.+"`):                  "may match every alert",
		alert(`a=""`):                      "may match every alert",
		alert(`a`):                         `rules[0].alert.matchers[0]: "a" is no matcher`,
		alert(`a-b="c"`):                   `rules[0].alert.matchers[0]: "a-b" is not the name of a label`,
		alert(`a="c`):                      "does not end with its quote",
		alert(`a={b}`):                     "has to stand in double quotes",
		alert(`a=~"("`):                    "it is no regular expression (RE2)",
		alert(`a=~"b)|(c"`):                "it is no regular expression (RE2)",
		rule(`alert: {matchers: [a=b], nodeLabel: "a b"}`):                        `rules[0].alert.nodeLabel: "a b" is not the name of a label`,
		rule(`condition: {type: Ready, status: "True"}`):                          "rules[0]: Ready is True on every node that is well; where that is meant, set matchAll: Allow",
		rule(`condition: {type: DiskPressure, status: "False"}`):                  "DiskPressure is False on every node that is well",
		rule(`condition: {status: "True"}`):                                       "rules[0].condition.type: it is missing",
		rule(`condition: {type: A}`):                                              "rules[0].condition.status: it is missing",
		rule(`condition: {type: A, status: "Yes"}`):                               `rules[0].condition.status: "Yes" is none of True, False, Unknown`,
		rule(`condition: {type: A, status: "True", message: b}`):                  "rules[0].condition.message: it goes with type: Ready",
		rule(`condition: {type: Ready, status: "False", message: "("}`):           "rules[0].condition.message: it is no regular expression",
		rule(`taint: {effect: NoExecute}`):                                        "rules[0]: without a key it matches every taint; where that is meant, set matchAll: Allow",
		rule(`taint: {key: a, effect: Never}`):                                    `rules[0].taint.effect: "Never" is none of NoSchedule, PreferNoSchedule, NoExecute`,
		rule(`taint: {key: a}, matchAll: Yes`):                                    "it is of the type bool, and has to be a string",
		rule(`taint: {key: a}, matchAll: Allowed`):                                `rules[0].matchAll: "Allowed" is not Allow`,
		rule(`taint: {key: a}, action: Drain, hook: "ftp://x"`):                   "rules[0].hook: it is no URL of http or https",
		rule(`taint: {key: a}, hook: "http://x"`):                                 "rules[0].hook: it is called once the action is done, so it goes with action: Drain, Cordon, Taint, Hook",
		rule(`taint: {key: a}, action: Hook`):                                     "rules[0].hook: it is missing: action: Hook calls it",
		rule(`taint: {key: a}, action: Taint`):                                    "rules[0].setTaint: it is missing: action: Taint sets it",
		rule(`taint: {key: a}, action: Drain, setTaint: {key: a}`):                "rules[0].setTaint: it goes with action: Taint",
		rule(`taint: {key: a}, action: Taint, setTaint: {key: "a/b/c"}`):          `rules[0].setTaint.key: "a/b/c" is not the key of a taint: write it as example.com/disk-fails`,
		rule(`taint: {key: a}, action: Taint, setTaint: {key: a, value: "!"}`):    `rules[0].setTaint.value: "!" is not the value of a taint: letters, digits, dashes, dots and underscores, 63 at most`,
		rule(`taint: {key: a}, action: Taint, setTaint: {key: a, effect: Never}`): `rules[0].setTaint.effect: "Never" is none of NoSchedule, PreferNoSchedule, NoExecute`,
		rule(`taint: {key: a}`) + "- {name: a, taint: {key: b}}":                  `rules[1].name: "a" is the name of an earlier rule`,
		"rules: [" + strings.Repeat("{name: a, taint: {key: a}}, ", 101) + "]":    "rules: there are 101, and 100 may be",
	} {
		_, err := Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n got: %v\nwant: %s", text, err, want)
		}
	}
	if _, err := Parse("margin: x\natDeadline: later\nz: 1"); err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("not all mistakes: %v", err)
	}
}

func TestMatchers(t *testing.T) {
	for written, want := range map[string]struct{ yes, no []string }{
		`a="b"`:          {[]string{"b"}, []string{"", "B", "bb"}},
		` a = b `:        {[]string{"b"}, []string{"", "c"}},
		`a!="b"`:         {[]string{"", "c"}, []string{"b"}},
		`a=~"b|c.*"`:     {[]string{"b", "c", "cd\ne"}, []string{"", "bb", "xc"}},
		`a!~"b|c.*"`:     {[]string{"", "bb"}, []string{"b", "cd"}},
		`a="\"quoted\""`: {[]string{`"quoted"`}, []string{"quoted"}},
		`a==b`:           {[]string{"=b"}, []string{"b"}},
		`a=`:             {[]string{""}, []string{"b"}},
	} {
		m, err := parseMatcher(written)
		if err != nil {
			t.Errorf("%s: %v", written, err)
			continue
		}
		for _, value := range want.yes {
			if !m.matches(value) {
				t.Errorf("%s does not match %q", written, value)
			}
		}
		for _, value := range want.no {
			if m.matches(value) {
				t.Errorf("%s matches %q", written, value)
			}
		}
	}
}
