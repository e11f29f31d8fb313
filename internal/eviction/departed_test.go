package eviction

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

const aliceRequester = "requester.usher.sh/alice"

func wasRefused(uid types.UID, requesters ...string) []AdmissionRequest {
	var all []AdmissionRequest
	for _, requester := range requesters {
		all = append(all, AdmissionRequest{Pod: snapshot.Key{Namespace: "shop", Name: "s0"}, UID: uid, Requester: requester, Asked: noon})
	}
	return all
}

// retried is alice's retry by the name of s0. The pod for which alice was refused has left node-a; the one that has the name
// runs on node-b.
func retried(t testing.TB) AdmissionInput {
	t.Helper()
	in := wish(t)
	in.ByName, in.Requester = true, aliceRequester
	in.Pod.UID, in.Pod.Node = "uid-next", "node-b"
	in.Node = &snapshot.Node{Name: "node-b", Ready: true}
	in.Policies[0].Status.Departed = []v1alpha1.Departed{{
		PodUID: "uid-s0", PodName: "s0", Node: "node-a", Refused: []string{aliceRequester}, GoneTime: metav1.NewTime(noon.Add(-5 * time.Second)),
	}}
	return in
}

// A client that retries by name must not move the pod that has the name by now.
func TestARetryByNameDoesNotTakeTheSuccessor(t *testing.T) {
	first := func(in *AdmissionInput) *v1alpha1.Departed { return &in.Policies[0].Status.Departed[0] }
	taint := func(effect corev1.TaintEffect) func(*AdmissionInput) {
		return func(in *AdmissionInput) {
			in.Node.Taints = []corev1.Taint{{Key: "karpenter.sh/disrupted", Effect: effect}}
		}
	}
	for name, c := range map[string]struct {
		given func(*AdmissionInput)
		want  NoteKind
	}{
		"another node":                       {func(*AdmissionInput) {}, GoneMeanwhile},
		"no node yet":                        {func(in *AdmissionInput) { in.Pod.Node, in.Node = "", nil }, GoneMeanwhile},
		"the verdict would refuse it":        {undrained, GoneMeanwhile},
		"a dry run":                          {func(in *AdmissionInput) { in.DryRun = true }, GoneMeanwhile},
		"a node that prefers no pods":        {taint(corev1.TaintEffectPreferNoSchedule), GoneMeanwhile},
		"the permit still stands":            {stillLeaving, GoneMeanwhile},
		"the same node":                      {func(in *AdmissionInput) { in.Pod.Node = "node-a" }, LetThrough},
		"a node that is cordoned":            {func(in *AdmissionInput) { in.Node.Unschedulable = true }, LetThrough},
		"a node that is tainted for its end": {taint(corev1.TaintEffectNoSchedule), LetThrough},
		"a node that is reserved for some pods": {
			func(in *AdmissionInput) {
				in.Node.Taints = []corev1.Taint{{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoSchedule}}
			}, GoneMeanwhile,
		},
		"a node of which nothing is known":    {func(in *AdmissionInput) { in.Node = nil }, LetThrough},
		"it left from a node that is unknown": {func(in *AdmissionInput) { first(in).Node = "" }, LetThrough},
		"with a UID":                          {func(in *AdmissionInput) { in.ByName = false }, LetThrough},
		"another caller":                      {func(in *AdmissionInput) { in.Requester = "requester.usher.sh/bob" }, LetThrough},
		"another pod":                         {func(in *AdmissionInput) { first(in).PodName = "s1" }, LetThrough},
		"the pod that was meant":              {func(in *AdmissionInput) { first(in).PodUID = in.Pod.UID }, LetThrough},
		"a DELETE":                            {func(in *AdmissionInput) { in.Verb = VerbDelete }, LetThrough},
		"long ago":                            {func(in *AdmissionInput) { first(in).GoneTime = metav1.NewTime(noon.Add(-departedLife)) }, LetThrough},
		"in the future":                       {func(in *AdmissionInput) { first(in).GoneTime = metav1.NewTime(noon.Add(time.Hour)) }, LetThrough},
		"the glass is broken, and it may go":  {breaks, LetThrough},
		"a break-glass that gives no reason": {
			func(in *AdmissionInput) {
				in.Pod.Annotations = map[string]string{v1alpha1.BreakGlassAnnotation: " \t"}
			}, GoneMeanwhile,
		},
		"a policy of another namespace":        {elsewhere, LetThrough},
		"nothing is remembered of a departure": {func(in *AdmissionInput) { in.Policies[0].Status.Departed = nil }, LetThrough},
	} {
		t.Run(name, func(t *testing.T) {
			in := retried(t)
			c.given(&in)
			got := Admit(in)
			if got.Note.Kind != c.want || got.Allow != (c.want == LetThrough) {
				t.Fatalf("%s: %s", got.Note.Kind, got.Message)
			}
			if c.want == GoneMeanwhile && (got.Code != 404 || len(got.Actions) > 0) {
				t.Errorf("code %d, actions %v", got.Code, kinds(got.Actions))
			}
		})
	}
}

func breaks(in *AdmissionInput) {
	in.Pod.Annotations = map[string]string{v1alpha1.BreakGlassAnnotation: "fire"}
}

func elsewhere(in *AdmissionInput) {
	other := in.Policies[0]
	other.Key.Namespace = "else"
	other.Status = &v1alpha1.EvictionPolicyStatus{Departed: in.Policies[0].Status.Departed}
	in.Policies[0].Status = &v1alpha1.EvictionPolicyStatus{Epoch: 4}
	in.Policies = append(in.Policies, other)
}

func stillLeaving(in *AdmissionInput) {
	entry := leaves("s0", "store", noon.Add(-time.Hour))
	entry.Node, entry.Refused = "node-a", []string{aliceRequester}
	in.Policies[0].Status.Departed, in.Policies[0].Status.Leaving = nil, []v1alpha1.Leaving{entry}
}

// TestAPermitNamesWhoWasRefused: the permit of Usher's own eviction names the requesters that it was faster than.
func TestAPermitNamesWhoWasRefused(t *testing.T) {
	in := wanted(t)
	in.Requests = wasRefused("uid-s0", aliceRequester)
	entry := Step(in).Actions[0].Status.Leaving[0]
	if diff := cmp.Diff([]string{aliceRequester}, entry.Refused); diff != "" || entry.Node != "node-a" {
		t.Errorf("it leaves %q; refused: %s", entry.Node, diff)
	}
}

// What is remembered passes from the permit to the list of pods that are gone, and ends.
func TestDeparturesAreRemembered(t *testing.T) {
	permit := leaves("s0", "store", noon.Add(-time.Minute))
	permit.Node, permit.Requester = "node-a", "bob"
	tidy := func(in StatusInput) *v1alpha1.EvictionPolicyStatus {
		t.Helper()
		result := ReconcileStatus(in)
		if len(result.Actions) == 0 {
			t.Fatal("nothing is written")
		}
		return result.Actions[0].Status
	}
	in := untidy(t)
	in.Policy.Status.Leaving = []v1alpha1.Leaving{permit}
	in.Requests = wasRefused("uid-s0", aliceRequester, "requester.usher.sh/bob")
	in.Requesters = map[string]string{"bob": "requester.usher.sh/bob"}
	noted := tidy(in)
	if diff := cmp.Diff([]string{aliceRequester}, noted.Leaving[0].Refused); diff != "" {
		t.Fatalf("the permit names as refused: %s", diff)
	}
	if noted.Epoch != 4 {
		t.Errorf("epoch %d, want the former one: no member has left", noted.Epoch)
	}
	in.Policy.Status = noted
	if again := ReconcileStatus(in); len(again.Actions) > 0 {
		t.Errorf("it is written twice: %s", again.Actions[0].Why)
	}
	in.Requests, in.Presences = nil, map[types.UID]PodPresence{"uid-s0": SeenGone}
	in.Policy.Status = tidy(in)
	want := []v1alpha1.Departed{{PodUID: "uid-s0", PodName: "s0", Node: "node-a", Refused: []string{aliceRequester}, GoneTime: metav1.NewTime(noon)}}
	if diff := cmp.Diff(want, in.Policy.Status.Departed); diff != "" {
		t.Error(diff)
	}
	if result := ReconcileStatus(in); len(result.Actions) > 0 || !result.NextLook.Equal(noon.Add(departedLife)) {
		t.Errorf("%v, looks again at %s", kinds(result.Actions), result.NextLook)
	}
	in.Now = noon.Add(departedLife)
	if left := tidy(in).Departed; left != nil {
		t.Errorf("still remembered: %+v", left)
	}
}

// What is remembered has a size.
func TestDeparturesAreBounded(t *testing.T) {
	in := untidy(t)
	in.Presences = map[types.UID]PodPresence{}
	for i := range mostDeparted + 3 {
		name := string(rune('a' + i))
		entry := leaves(name, "store", noon)
		entry.Node, entry.Refused = "node-a", []string{aliceRequester}
		in.Policy.Status.Leaving = append(in.Policy.Status.Leaving, entry)
		in.Presences[entry.PodUID] = SeenGone
	}
	departed := ReconcileStatus(in).Actions[0].Status.Departed
	if len(departed) != mostDeparted || departed[0].PodName != "d" {
		t.Errorf("%d are remembered, the oldest %s", len(departed), departed[0].PodName)
	}
	var many []string
	for i := range mostRefused + 3 {
		many = append(many, "requester.usher.sh/"+string(rune('a'+i)))
	}
	permit := leaves("s0", "store", noon)
	if got := refusedFor(&permit, wasRefused("uid-s0", many...), ""); len(got) != mostRefused {
		t.Errorf("%d requesters are remembered", len(got))
	}
}

// The request of a caller that was refused goes with the pod: who was refused is written as soon as the pod is seen gone.
func TestRefusedCallersAreWrittenAtOnce(t *testing.T) {
	in := untidy(t)
	in.Policy.Policy, in.Pods = settling(t, nil), nil
	entry := leaves("s1", "store", noon.Add(-time.Second))
	entry.Node = "n1"
	in.Policy.Status.Leaving = []v1alpha1.Leaving{entry}
	in.Presences, in.Gone = map[types.UID]PodPresence{"uid-s1": SeenGone}, map[types.UID]time.Time{"uid-s1": noon}
	if got := ReconcileStatus(in); len(got.Actions) > 0 {
		t.Errorf("written at once where none was refused: %s", got.Actions[0].Why)
	}
	in.Requests = []AdmissionRequest{{UID: "uid-s1", Requester: "alice", Asked: noon}}
	got := ReconcileStatus(in)
	if len(got.Actions) == 0 || len(got.Actions[0].Status.Departed) != 1 || !slices.Equal(got.Actions[0].Status.Departed[0].Refused, []string{"alice"}) {
		t.Errorf("alice was refused: %+v", got.Actions)
	}
}
