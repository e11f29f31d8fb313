package replacement

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// repaired is a policy of three members, each on a node and in a zone of its own, whose pods are Ready.
func repaired(changes ...func(*RepairInput)) RepairInput {
	in := RepairInput{
		Now:    noon,
		Policy: &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}},
		Nodes:  map[string]*snapshot.Node{},
	}
	in.Policy.Spec.Repair = &v1alpha1.Repair{Mode: v1alpha1.RepairAutomatic, UnhealthyAfter: &metav1.Duration{Duration: time.Hour}}
	for _, n := range []string{"0", "1", "2"} {
		in.Nodes["n"+n] = &snapshot.Node{Name: "n" + n, UID: types.UID("n" + n), Zone: "z" + n, Ready: true}
		in.Members = append(in.Members, Seen{
			MemberRef: v1alpha1.MemberRef{Role: "replica", ID: "db-" + n, PodName: "db-" + n}, Judged: true,
			Pod: &snapshot.Pod{Namespace: "shop", Name: "db-" + n, Node: "n" + n, Phase: corev1.PodRunning, Ready: true},
		})
	}
	for _, change := range changes {
		change(&in)
	}
	return in
}

// then looks again after a time, by what was written down.
func then(in *RepairInput, after time.Duration, changes ...func(*RepairInput)) RepairResult {
	in.Now = in.Now.Add(after)
	for _, change := range changes {
		change(in)
	}
	result := Repair(*in)
	in.Policy.Status.Unhealthy = result.Unhealthy
	for _, q := range result.Requests {
		q.Status.Step, q.CreationTimestamp = v1alpha1.ReplacementWaiting, metav1.NewTime(in.Now)
		in.Requests = append(in.Requests, q)
	}
	return result
}

func pending(i int) func(*RepairInput) {
	return func(in *RepairInput) {
		pod := *in.Members[i].Pod
		pod.Node, pod.Phase, pod.Ready = "", corev1.PodPending, false
		in.Members[i].Pod = &pod
	}
}

func unready(i int) func(*RepairInput) {
	return func(in *RepairInput) {
		pod := *in.Members[i].Pod
		pod.Ready = false
		in.Members[i].Pod = &pod
		in.Nodes[pod.Node].Ready = false
	}
}

func well(i int) func(*RepairInput) {
	return func(in *RepairInput) {
		pod := *in.Members[i].Pod
		pod.Node, pod.Phase, pod.Ready = "n0", corev1.PodRunning, true
		in.Members[i].Pod = &pod
	}
}

func withdrawn(in *RepairInput) { in.Requests = nil }

// bySet has members be replaced that run.
func bySet(in *RepairInput) {
	for i := range in.Members {
		in.Members[i].Operated = true
	}
}

// excludes has the system of members, all of which do their work, be asked to keep nothing on one.
func excludes(i int) func(*RepairInput) {
	return func(in *RepairInput) {
		bySet(in)
		in.Asked, in.Answered, in.Reported = true, true, map[string]Tristate{"db-0": Yes, "db-1": Yes, "db-2": Yes}
		in.Members[i].Excluded, in.Members[i].Emptied = Yes, No
	}
}

func prepares(id string, state v1alpha1.PreparationState) func(*RepairInput) {
	return func(in *RepairInput) {
		in.Policy.Status.Preparations = []v1alpha1.PreparationStatus{{MemberRef: v1alpha1.MemberRef{Role: "replica", ID: id}, Name: "Exclude", State: state}}
	}
}

// stands has a person's request stand for a member.
func stands(id string) func(*RepairInput) {
	return func(in *RepairInput) {
		in.Requests = []v1alpha1.ReplacementRequest{{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: v1alpha1.ReplacementRequestSpec{
			Requester: "person.usher.sh/anna", Source: v1alpha1.ReplacementSource{Name: "db"}, Member: v1alpha1.ReplacementMember{Role: "replica", ID: id},
		}}}
	}
}

// A member that is Pending for as long as the policy says gets a request, once; one that a person deletes is made again only after as long.
func TestRepair(t *testing.T) {
	in := repaired()
	if got := then(&in, 0); len(got.Unhealthy) > 0 || len(got.Requests) > 0 {
		t.Fatalf("all is well: %+v", got)
	}
	got := then(&in, time.Minute, pending(1))
	if len(got.Unhealthy) != 1 || got.Unhealthy[0].Conditions[0].Type != "PodPending" || len(got.Requests) > 0 || !got.NextLook.Equal(in.Now.Add(time.Hour)) {
		t.Fatalf("it is Pending: %+v", got)
	}
	if got := then(&in, 59*time.Minute); len(got.Requests) > 0 {
		t.Fatalf("too early: %+v", got.Requests)
	}
	got = then(&in, time.Minute)
	want := v1alpha1.ReplacementRequestSpec{
		Requester: RepairRequester, Source: v1alpha1.ReplacementSource{Kind: v1alpha1.SourceEvictionPolicy, Name: "db"},
		Member: v1alpha1.ReplacementMember{Role: "replica", ID: "db-1"},
	}
	if len(got.Requests) != 1 || got.Requests[0].Spec != want || got.Unhealthy[0].Request != got.Requests[0].Name {
		t.Fatalf("it is due: %+v", got)
	}
	if got := then(&in, time.Minute); len(got.Requests) > 0 || got.Unhealthy[0].Request == "" {
		t.Fatalf("its request stands: %+v", got)
	}
	if got := then(&in, time.Minute, withdrawn); len(got.Requests) > 0 || got.Unhealthy[0].RequestEndTime == nil || got.Unhealthy[0].Request != "" {
		t.Fatalf("its request was withdrawn: %+v", got)
	}
	if got := then(&in, 59*time.Minute); len(got.Requests) > 0 {
		t.Fatalf("again, too early: %+v", got.Requests)
	}
	if got := then(&in, time.Minute); len(got.Requests) != 1 {
		t.Fatalf("again, it is due: %+v", got)
	}
	in.Requests[0].Status.Step = v1alpha1.ReplacementComplete
	if got := then(&in, time.Minute, well(1)); len(got.Unhealthy) > 0 || len(got.Requests) > 0 {
		t.Fatalf("it is replaced: %+v", got)
	}
}

func TestRepairWaits(t *testing.T) {
	taint := corev1.Taint{Key: "example.com/broken", Effect: corev1.TaintEffectNoSchedule}
	disabled := func(in *RepairInput) { in.Policy.Spec.Repair.Mode = v1alpha1.RepairDisabled }
	for name, test := range map[string]struct {
		given    []func(*RepairInput)
		blockers []string // of db-1; nil: it gets a request
		none     bool     // it is not unhealthy
	}{
		"nothing":   {given: []func(*RepairInput){pending(1)}},
		"disabled":  {given: []func(*RepairInput){pending(1), disabled}, blockers: []string{"RepairDisabled"}},
		"suspended": {given: []func(*RepairInput){pending(1), func(in *RepairInput) { in.Policy.Spec.Suspend = true }}, blockers: []string{"PolicySuspended"}},
		"two zones": {given: []func(*RepairInput){pending(1), pending(2)}, blockers: []string{"TooManyZonesAffected"}},
		"not counted": {given: []func(*RepairInput){pending(1), func(in *RepairInput) {
			in.Policy.Spec.Repair.UnhealthyConditions = []v1alpha1.MemberConditionType{"PodFailing"}
		}}, none: true},
		"another is in flight": {given: []func(*RepairInput){pending(1), func(in *RepairInput) {
			in.Requests = []v1alpha1.ReplacementRequest{{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: v1alpha1.ReplacementRequestSpec{
				Requester: "person.usher.sh/anna", Source: v1alpha1.ReplacementSource{Name: "db"}, Member: v1alpha1.ReplacementMember{Role: "replica", ID: "db-0"},
			}}}
		}}, blockers: []string{"TooManyInFlight"}},
		"another is in flight, and excluded": {given: []func(*RepairInput){pending(1), stands("db-0"), func(in *RepairInput) {
			in.Members[0].Excluded, in.Members[0].Emptied = Yes, No
		}}, blockers: []string{"TooManyInFlight"}},
		"another is in flight, and empty": {given: []func(*RepairInput){pending(1), stands("db-0"), func(in *RepairInput) {
			in.Members[0].Excluded, in.Members[0].Emptied = Yes, Yes
		}}},
		"another is in flight, empty and gone": {given: []func(*RepairInput){pending(1), stands("db-0"), func(in *RepairInput) {
			in.Members[0].Pod, in.Members[0].Emptied = nil, Yes
		}}},
		"it is excluded by hand":        {given: []func(*RepairInput){excludes(1)}},
		"it is excluded for a drain":    {given: []func(*RepairInput){excludes(1), prepares("db-1", v1alpha1.PreparationBegun)}, none: true},
		"it is to be included again":    {given: []func(*RepairInput){excludes(1), prepares("db-1", v1alpha1.PreparationUndoing)}, none: true},
		"another is excluded for one":   {given: []func(*RepairInput){excludes(1), prepares("db-0", v1alpha1.PreparationBegun)}},
		"its set has it excluded":       {given: []func(*RepairInput){excludes(1), func(in *RepairInput) { in.Members[1].ExclusionWanted = true }}, none: true},
		"it lacks a claim":              {given: []func(*RepairInput){bySet, func(in *RepairInput) { in.Members[1].Claims = No }}},
		"it lacks a claim, and its pod": {given: []func(*RepairInput){bySet, func(in *RepairInput) { in.Members[1].Claims, in.Members[1].Pod = No, nil }}},
		"it lacks its Service":          {given: []func(*RepairInput){bySet, func(in *RepairInput) { in.Members[1].Service = No }}},
		"two may be in flight": {given: []func(*RepairInput){pending(1), func(in *RepairInput) {
			in.Policy.Spec.Repair.MaxInFlight = &v1alpha1.MaxInFlight{Members: new(int32(2))}
			in.Requests = []v1alpha1.ReplacementRequest{{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: v1alpha1.ReplacementRequestSpec{
				Requester: "person.usher.sh/anna", Source: v1alpha1.ReplacementSource{Name: "db"}, Member: v1alpha1.ReplacementMember{Role: "replica", ID: "db-0"},
			}}}
		}}},
		"its node is cordoned": {given: []func(*RepairInput){
			func(in *RepairInput) {
				in.Members[1].Pod = &snapshot.Pod{Name: "db-1", Node: "n1", Phase: corev1.PodRunning}
			},
			func(in *RepairInput) { in.Nodes["n1"].Unschedulable = true },
		}, none: true},
		"a container of it is to crash": {given: []func(*RepairInput){func(in *RepairInput) {
			in.Members[1].Pod = &snapshot.Pod{Name: "db-1", Node: "n1", Phase: corev1.PodRunning, Annotations: map[string]string{v1alpha1.CrashLoopPrefix + "db": ""}}
		}}, none: true},
		"its zone is under maintenance for it": {given: []func(*RepairInput){func(in *RepairInput) {
			in.Members[1].Pod, in.Members[1].Maintained = nil, "n1"
		}}, none: true},
		"its node is out of service": {given: []func(*RepairInput){
			func(in *RepairInput) {
				in.Members[1].Pod = &snapshot.Pod{Name: "db-1", Node: "n1", Phase: corev1.PodRunning}
			},
			func(in *RepairInput) {
				in.Nodes["n1"].Unschedulable, in.Nodes["n1"].Ready, in.Nodes["n1"].Taints = true, false, []corev1.Taint{{Key: corev1.TaintNodeOutOfService}}
			},
		}},
		"it has no pod":              {given: []func(*RepairInput){func(in *RepairInput) { in.Members[1].Pod = nil }}},
		"its system does not answer": {given: []func(*RepairInput){pending(1), func(in *RepairInput) { in.Asked = true }}, blockers: []string{"SystemUnavailable"}},
		"its system has lost it": {given: []func(*RepairInput){func(in *RepairInput) {
			in.Asked, in.Answered, in.Reported = true, true, map[string]Tristate{"db-0": Yes, "db-2": Yes}
		}}, blockers: []string{"PredecessorRuns"}},
		"its system knows none of its role": {given: []func(*RepairInput){func(in *RepairInput) {
			in.Asked, in.Answered, in.Reported, in.Members[1].Judged = true, true, map[string]Tristate{"db-0": Yes, "db-2": Yes}, false
		}}, none: true},
		"no successor comes about": {given: []func(*RepairInput){pending(1), func(in *RepairInput) {
			in.Members[1].Unfit = &Blocker{Reason: ProviderMissing, Message: "x", Remedy: "y"}
		}}, blockers: []string{"ProviderMissing"}},
		"it was drained from a cordoned node": {given: []func(*RepairInput){
			func(in *RepairInput) { in.Nodes["n1"].Unschedulable = true; then(in, 0) }, pending(1),
		}, none: true},
		"another waits for what may never come": {given: []func(*RepairInput){pending(1), func(in *RepairInput) {
			in.Requests = []v1alpha1.ReplacementRequest{{
				ObjectMeta: metav1.ObjectMeta{Name: "x", CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour))},
				Spec: v1alpha1.ReplacementRequestSpec{
					Requester: "person.usher.sh/anna", Source: v1alpha1.ReplacementSource{Name: "db"}, Member: v1alpha1.ReplacementMember{Role: "replica", ID: "db-0"},
				},
				Status: v1alpha1.ReplacementRequestStatus{Step: v1alpha1.ReplacementWaiting},
			}}
		}}},
		"it does not do its work": {given: []func(*RepairInput){func(in *RepairInput) {
			in.Asked, in.Answered, in.Reported = true, true, map[string]Tristate{"db-0": Yes, "db-1": No, "db-2": Yes}
		}}, blockers: []string{"PredecessorRuns"}},
		"its node is tainted": {given: []func(*RepairInput){func(in *RepairInput) {
			in.Policy.Spec.Repair.Taints = []v1alpha1.RepairTaint{{Key: "*", After: &metav1.Duration{}}}
			in.Policy.Spec.Repair.TaintedAfter = &metav1.Duration{Duration: time.Minute}
			in.Nodes["n1"].Taints = []corev1.Taint{taint}
		}}, blockers: []string{"PredecessorRuns"}},
		"its taint is ignored": {given: []func(*RepairInput){func(in *RepairInput) {
			in.Policy.Spec.Repair.Taints = []v1alpha1.RepairTaint{{Key: "*", After: &metav1.Duration{}}, {Key: taint.Key, Action: v1alpha1.TaintIgnore}}
			in.Nodes["n1"].Taints = []corev1.Taint{taint}
		}}, none: true},
		"two zones of three may be": {given: []func(*RepairInput){unready(1), unready(2), func(in *RepairInput) {
			in.Policy.Spec.Repair.StopAbove = &v1alpha1.RepairStop{Zones: intstr.FromString("70%")}
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			in := repaired()
			then(&in, 0, test.given...)
			got := then(&in, time.Hour)
			at := -1
			for i := range got.Unhealthy {
				if got.Unhealthy[i].ID == "db-1" {
					at = i
				}
			}
			if test.none {
				if len(got.Requests) > 0 || at >= 0 && len(got.Unhealthy[at].Conditions) > 0 && test.blockers != nil {
					t.Fatalf("%+v", got)
				}
				return
			}
			if at < 0 {
				t.Fatalf("it is not unhealthy: %+v", got)
			}
			var reasons []string
			for _, b := range got.Unhealthy[at].Blockers {
				reasons = append(reasons, b.Reason)
				if b.Message == "" || b.Remedy == "" {
					t.Errorf("%s has no message or no remedy", b.Reason)
				}
			}
			if diff := cmp.Diff(test.blockers, reasons); diff != "" {
				t.Error(diff)
			}
			made := false
			for _, q := range got.Requests {
				made = made || q.Spec.Member.ID == "db-1"
			}
			if made != (test.blockers == nil) {
				t.Errorf("the requests: %+v", got.Requests)
			}
		})
	}
}

// TestPropertyRepair has members, nodes and requests change at random between looks, at which the process is killed before or after the request
// is made: a member has at most one request that stands, never more are in flight than may be, and nothing is begun that is not unhealthy for
// as long as the policy says.
func TestPropertyRepair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := repaired()
		in.Policy.Spec.Repair.StopAbove = &v1alpha1.RepairStop{Zones: intstr.FromString("100%")}
		most := rapid.IntRange(0, 2).Draw(t, "in flight")
		in.Policy.Spec.Repair.MaxInFlight = &v1alpha1.MaxInFlight{Members: new(int32(most))}
		since := map[string]time.Time{} // that it is not well
		for range rapid.IntRange(1, 40).Draw(t, "looks") {
			in.Now = in.Now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "minutes")) * time.Minute)
			i := rapid.IntRange(0, 2).Draw(t, "member")
			id := in.Members[i].ID
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0, 1:
				pending(i)(&in)
				if since[id].IsZero() {
					since[id] = in.Now
				}
			case 2:
				well(i)(&in)
			case 3:
				if n := len(in.Requests); n > 0 {
					in.Requests = in.Requests[:n-1]
				}
			case 4:
				for n := range in.Requests {
					in.Requests[n].Status.Step = v1alpha1.ReplacementComplete
				}
			}
			result := Repair(in)
			standing := 0
			for _, q := range in.Requests {
				if !q.Status.Over() {
					standing++
				}
			}
			for _, q := range result.Requests {
				start := since[q.Spec.Member.ID]
				if start.IsZero() || in.Now.Sub(start) < time.Hour {
					t.Fatalf("%s is replaced after %s", q.Spec.Member.ID, in.Now.Sub(start))
				}
				for _, other := range in.Requests {
					if !other.Status.Over() && other.Spec.Member == q.Spec.Member {
						t.Fatalf("%s has a request already", q.Spec.Member.ID)
					}
				}
				standing++
			}
			if len(result.Requests) > 0 && standing > most {
				t.Fatalf("%d are in flight, and %d may be", standing, most)
			}
			if killed := rapid.IntRange(0, 3).Draw(t, "killed"); killed == 0 {
				continue
			} else if killed == 1 {
				in.Requests = append(in.Requests, result.Requests...)
				continue
			}
			in.Requests = append(in.Requests, result.Requests...)
			in.Policy.Status.Unhealthy = result.Unhealthy
			for _, m := range in.Members { // what a look that was not written down has seen is not known
				if m.Pod.Ready {
					delete(since, m.ID)
				}
			}
		}
	})
}
