package observe

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"usher.sh/usher/internal/snapshot"
)

const listEnd = "kind: List\nmetadata:\n  resourceVersion: \"\"\n"

// asList writes objects as kubectl does: a list in block style, its kind after its items.
func asList(t testing.TB, objects ...any) string {
	t.Helper()
	var text strings.Builder
	text.WriteString("apiVersion: v1\nitems:\n")
	for _, object := range objects {
		body, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		dash := "- "
		for line := range strings.Lines(string(body)) {
			text.WriteString(dash + line)
			dash = "  "
		}
	}
	return text.String() + listEnd
}

func asJSON(t testing.TB, text string) string {
	t.Helper()
	body, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func dumpedPod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": "web"},
			Annotations:       map[string]string{"script": "#!/bin/sh\n- not: an item\n---\nitems:\n"},
			CreationTimestamp: metav1.NewTime(at("2026-11-20T09:00:00Z")),
			OwnerReferences:   []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "rs", Controller: new(true)}},
		},
		Spec:   corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at("2026-11-20T09:00:10Z"))}}},
	}
}

func dumpedNode(name string) *corev1.Node {
	return &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(at("2026-11-20T12:00:00Z")),
		}}},
	}
}

func dumpedBudget() *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "pdb", Generation: 3},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		Status:     policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 3, DisruptionsAllowed: 1, CurrentHealthy: 2, DesiredHealthy: 1, ExpectedPods: 2},
	}
}

func TestFromDumpReadsWhatKubectlWrites(t *testing.T) {
	other := map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s"}}
	list := asList(t, dumpedNode("a"), dumpedPod("web-1", "a"), dumpedPod("web-2", "a"), dumpedBudget(), other, other)
	documents := "# by hand\n---\n" + mustYAML(t, dumpedNode("a")) + "---\n" + mustYAML(t, dumpedPod("web-1", "a")) + "...\n---\n" + asList(t, dumpedPod("web-2", "a"), dumpedBudget()) + "---\n" + asList(t, other, other)
	indented := strings.NewReplacer("\n- ", "\n  - ", "\n  ", "\n    ").Replace(strings.Replace(list, "items:\n", "items:\n\n# by hand\n", 1))
	podList := `{"kind":"PodList","apiVersion":"v1","items":[` + untyped(t, dumpedPod("web-1", "a")) + `,` + untyped(t, dumpedPod("web-2", "a")) + `]}`
	rest := asJSON(t, asList(t, dumpedNode("a"), dumpedBudget(), other, other))
	for name, text := range map[string]string{
		"a list":                     list,
		"a list as JSON":             asJSON(t, list),
		"documents":                  documents,
		"indented items":             indented,
		"lines end as on Windows":    strings.ReplaceAll(list, "\n", "\r\n"),
		"lists of kinds, after each": podList + "\n" + rest,
	} {
		t.Run(name, func(t *testing.T) {
			d, err := FromDump(strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if got := len(d.Cluster.PodsOn("a")); got != 2 {
				t.Errorf("%d pods on the node, want 2", got)
			}
			budget := d.Cluster.Budget(snapshot.Key{Namespace: "shop", Name: "web"})
			if budget == nil || !budget.Observed || budget.Allowed != 1 || budget.Current != 2 || budget.Desired != 1 || budget.Expected != 2 {
				t.Errorf("the status of the budget is lost: %+v", budget)
			}
			if want := at("2026-11-20T12:00:00Z"); !d.Now.Equal(want) {
				t.Errorf("now is %s, want the last heartbeat, %s", d.Now, want)
			}
			if diff := cmp.Diff(map[string]int{"Secret": 2}, d.Skipped); diff != "" {
				t.Error(diff)
			}
			wantMissing := []string{"deployments.apps", "replicasets.apps"}
			if diff := cmp.Diff(wantMissing, d.Missing); diff != "" {
				t.Error(diff)
			}
			if _, gap := d.Cluster.Gap("replicasets"); !gap {
				t.Error("a resource that the dump does not have is no gap")
			}
		})
	}
}

func TestFromDumpKnowsAnEmptyListFromNone(t *testing.T) {
	text := `{"kind":"PodDisruptionBudgetList","apiVersion":"policy/v1","items":[]}` + asJSON(t, asList(t, dumpedNode("a"), dumpedPod("web-1", "a")))
	d, err := FromDump(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, missing := range d.Missing {
		if strings.HasPrefix(missing, "poddisruptionbudgets") {
			t.Error("budgets are missing although there was an empty list of them")
		}
	}
}

func TestFromDumpTakesWhatAMergedListLacksToBeNone(t *testing.T) {
	claiming := dumpedPod("db-0", "a")
	claiming.OwnerReferences[0].Kind, claiming.OwnerReferences[0].UID = "StatefulSet", "sts"
	claiming.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	named := []string{"deployments.apps", "persistentvolumeclaims", "replicasets.apps", "statefulsets.apps"} // by pods: they are there
	tests := []struct {
		name             string
		text             string
		assumed, missing []string
	}{
		{"a merged list", asList(t, dumpedNode("a"), dumpedPod("web-1", "a"), claiming), []string{
			"no HorizontalPodAutoscaler is in the dump: taken to be none", "no PodDisruptionBudget is in the dump: taken to be none", "no VolumeAttachment is in the dump: taken to be none",
		}, named},
		{"as JSON, with a budget", asJSON(t, asList(t, dumpedNode("a"), dumpedPod("web-1", "a"), dumpedBudget())), []string{
			"no HorizontalPodAutoscaler is in the dump: taken to be none",
		}, []string{"deployments.apps", "replicasets.apps"}},
		{"what no pod needs", asList(t, dumpedNode("a"), dumpedBudget()), nil, []string{"pods"}},
		{"objects one by one", mustYAML(t, dumpedNode("a")) + "---\n" + mustYAML(t, dumpedPod("web-1", "a")), nil, []string{
			"deployments.apps", "horizontalpodautoscalers.autoscaling", "poddisruptionbudgets.policy", "replicasets.apps",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, err := FromDump(strings.NewReader(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([][]string{tt.assumed, tt.missing}, [][]string{d.Assumed, d.Missing}); diff != "" {
				t.Error(diff)
			}
			if got := len(d.Cluster.Gaps()); got != len(tt.missing) {
				t.Errorf("%d gaps, want %d", got, len(tt.missing))
			}
		})
	}
}

func TestFromDumpKeepsTheOrder(t *testing.T) {
	var objects []any
	for i := range 3 * batchSize {
		pod := dumpedPod("web-1", "a")
		pod.ResourceVersion = fmt.Sprint(i)
		objects = append(objects, pod)
	}
	d, err := FromDump(strings.NewReader(asList(t, objects...)))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := d.Cluster.PodsOn("a")[0].ResourceVersion, fmt.Sprint(3*batchSize-1); got != want {
		t.Errorf("state %s of the pod won, want the last, %s", got, want)
	}
}

func TestFromDumpRefuses(t *testing.T) {
	list := asList(t, dumpedNode("a"), dumpedPod("web-1", "a"))
	noUID := dumpedPod("web-1", "a")
	noUID.UID = ""
	junk := bytes.Repeat([]byte{0x00, 0xff, 0x17, 'x', '\n'}, 2<<20)
	cases := map[string]struct {
		text string
		want []string
	}{
		"nothing":                {"", []string{"empty"}},
		"blanks":                 {" \n\n ", []string{"empty"}},
		"only comments":          {"# nothing\n---\n", []string{"no objects"}},
		"prose":                  {"Error from server (Forbidden): pods is forbidden\n", []string{"line 1"}},
		"10 MB of garbage":       {string(junk), []string{"line 1", "not YAML"}},
		"10 MB on one line":      {strings.Repeat("x", 10<<20), []string{"line 1", "not a Kubernetes object"}},
		"an object too large":    {strings.Repeat("x", maxItem+2<<20), []string{"line 1", "larger than 16 MiB"}},
		"a string too large":     {`{"a":"` + strings.Repeat("x", maxItem+2<<20) + `"}`, []string{"object 1", "larger than 16 MiB"}},
		"YAML cut off":           {list[:len(list)-len(listEnd)-40], []string{"cut off"}},
		"JSON cut off":           {asJSON(t, list)[:300], []string{"object 1", "cut off"}},
		"JSON with a comma less": {`{"items":[{"kind":"A"} {"kind":"B"}]}`, []string{"object 2", "not JSON"}},
		"JSON of another kind":   {`{"items":{}}`, []string{"items is {"}},
		"YAML of another kind":   {"apiVersion: v1\nitems:\n  a: b\n" + listEnd, []string{"line 3", "not a list"}},
		"a kind of numbers":      {`{"kind":5,"items":[]}`, []string{"object 1", "kind"}},
		"a wrong type":           {asList(t, dumpedNode("a")) + "---\napiVersion: v1\nkind: Pod\nmetadata: {name: x, uid: u}\nspec:\n  containers: five\n", []string{"line ", "Pod", "containers"}},
		"a wrong indentation":    {"apiVersion: v1\nitems:\n- kind: Pod\n   apiVersion: v1\n" + listEnd, []string{"line 3", "not YAML"}},
		"no uid":                 {asList(t, noUID), []string{"line 3", "web-1", "metadata.uid"}},
		"no kind":                {"metadata:\n  name: x\n", []string{"line 1", "no kind"}},
		"nothing of use":         {"apiVersion: v1\nkind: Secret\nmetadata: {name: x}\n", []string{"Secret", "kubectl get"}},
		"a bomb":                 {bomb(), []string{"line 1", "not YAML"}},
		"deeper than any object": {strings.Repeat("[", 200000), []string{"line 1"}},
		"deep JSON":              {`{"a":` + strings.Repeat("[", 200000), []string{"object 1"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := FromDump(strings.NewReader(c.text))
			if err == nil {
				t.Fatal("no error")
			}
			if len(err.Error()) > 500 || strings.Contains(err.Error(), "\n") {
				t.Errorf("not a sentence: %.600q", err)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
}

func TestFromDumpThatCannotBeRead(t *testing.T) {
	broken := io.MultiReader(strings.NewReader(asList(t, dumpedNode("a"))), failing{})
	if _, err := FromDump(broken); err == nil || !strings.Contains(err.Error(), "disk on fire") {
		t.Errorf("got %v", err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, fmt.Errorf("disk on fire") }

// bomb is a small text that aliases make huge.
func bomb() string {
	text := "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < 12; i++ {
		text += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), ","))
	}
	return text
}

func FuzzFromDump(f *testing.F) {
	list := asList(f, dumpedNode("a"), dumpedPod("web-1", "a"), dumpedBudget())
	f.Add([]byte(list))
	f.Add([]byte(asJSON(f, list)))
	f.Add([]byte("---\nitems:\n  - a\n"))
	f.Add([]byte(bomb()))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := FromDump(bytes.NewReader(text))
		if (d == nil) == (err == nil) {
			t.Fatalf("dump %v, error %v", d, err)
		}
	})
}

func at(text string) time.Time {
	when, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return when
}

func mustYAML(t testing.TB, object any) string {
	t.Helper()
	body, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// untyped is how an object stands in a typed list.
func untyped(t testing.TB, pod *corev1.Pod) string {
	t.Helper()
	pod.TypeMeta = metav1.TypeMeta{}
	return asJSON(t, mustYAML(t, pod))
}

func benchmarkDump(b *testing.B, text string) {
	b.Helper()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := FromDump(strings.NewReader(text)); err != nil {
			b.Fatal(err)
		}
	}
}

func largeDump(b *testing.B) string {
	b.Helper()
	var objects []any
	for i := range 5000 {
		objects = append(objects, dumpedPod(fmt.Sprintf("web-%d", i), "a"))
	}
	return asList(b, objects...)
}

func BenchmarkFromDumpYAML(b *testing.B) { benchmarkDump(b, largeDump(b)) }

func BenchmarkFromDumpJSON(b *testing.B) { benchmarkDump(b, asJSON(b, largeDump(b))) }
