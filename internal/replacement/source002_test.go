package replacement

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// The sentences of source 002 about which members are unhealthy, and when they are replaced for that. Those before 28 are in package memberset.
var source002 = []struct {
	number string
	says   string
	holds  func(t *testing.T)
}{
	{"28", "The operator has an option to automatically replace pods that are in a bad state. This behavior is disabled by default, but you can enable it by setting the field automationOptions.replacements.enabled in the cluster spec.", func(t *testing.T) {
		t.Helper()
		in := bySource(func(in *RepairInput) { in.Policy.Spec.Repair.Mode = "" })
		after(t, &in, 100*time.Hour, nil, pending(1))
	}},
	{"29", "The process group has a condition that is eligible for replacement, and has been in that condition for 7200 seconds. This time window is configurable through automationOptions.replacements.failureDetectionTimeSeconds.", func(t *testing.T) {
		t.Helper()
		in := bySource()
		after(t, &in, 7199*time.Second, nil, pending(1))
		after(t, &in, time.Second, []string{"db-1"})
		in = bySource(func(in *RepairInput) { in.Policy.Spec.Repair.UnhealthyAfter = &metav1.Duration{Duration: time.Minute} })
		after(t, &in, time.Minute, []string{"db-1"}, pending(1))
	}},
	{"30", "The number of process groups that are marked for removal and not fully excluded, counting the process group that is being evaluated for replacement, is less than or equal to 1. This limit is configurable through automationOptions.replacements.maxConcurrentReplacements.", func(t *testing.T) {
		t.Helper()
		in := bySource()
		after(t, &in, 3*time.Hour, []string{"db-0"}, pending(0), pending(1))
		in = bySource(func(in *RepairInput) {
			in.Policy.Spec.Repair.MaxInFlight = &v1alpha1.MaxInFlight{Members: new(int32(2))}
		})
		after(t, &in, 3*time.Hour, []string{"db-0", "db-1"}, pending(0), pending(1))
		for emptied, want := range map[Tristate][]string{Unknown: nil, No: nil, Yes: {"db-1"}} {
			in = bySource(func(in *RepairInput) {
				in.Requests = []v1alpha1.ReplacementRequest{{Spec: v1alpha1.ReplacementRequestSpec{Member: v1alpha1.ReplacementMember{Role: "replica", ID: "db-2"}}}}
				in.Members[2].Excluded, in.Members[2].Emptied = Yes, emptied
			})
			after(t, &in, 3*time.Hour, want, pending(1))
		}
	}},
	{"30a", "The following conditions are currently eligible for replacement", func(t *testing.T) {
		t.Helper()
		eight := []ConditionType{NotReporting, PodFailing, PodMissing, ClaimMissing, ServiceMissing, PodPending, NodeTainted, ExcludedUnmarked}
		terms := TermsOf(&v1alpha1.Repair{Mode: v1alpha1.RepairAutomatic})
		for _, kind := range allConditions {
			if !slices.Contains(eight, kind) || !terms.counts(kind) {
				t.Errorf("%s counts: %t", kind, terms.counts(kind))
			}
		}
		if len(allConditions) != len(eight) {
			t.Errorf("there are %v", allConditions)
		}
	}},
	{"31", "MissingProcesses: This indicates that a process is not reporting to the database.", eligible(NotReporting, func(f *Facts) { f.Reported = No })},
	{"32", "PodFailing: This indicates that one of the containers is not ready.", eligible(PodFailing, func(f *Facts) { f.Pod.Healthy = false })},
	{"33", "MissingPod: This indicates a process group that doesn't have a Pod assigned.", eligible(PodMissing, func(f *Facts) { f.HasPod, f.Pod = No, Pod{} })},
	{"34", "MissingPVC: This indicates that a process group that doesn't have a PVC assigned.", eligible(ClaimMissing, func(f *Facts) { f.Claims = No })},
	{"35", "MissingService: This indicates that a process group that doesn't have a Service assigned.", eligible(ServiceMissing, func(f *Facts) { f.Service = No })},
	{"36", "PodPending: This indicates that a process group where the Pod is in a pending state.", eligible(PodPending, func(f *Facts) { f.Pod = Pod{Pending: true} })},
	{"37", "NodeTaintReplacing: This indicates a process group where the Pod has been running on a tainted Node for at least the configured duration. If a ProcessGroup has the NodeTaintReplacing condition, the replacement cannot be stopped, even after the Node taint was removed.", func(t *testing.T) {
		t.Helper()
		in := bySource(watches("example.com/maintenance", time.Hour))
		after(t, &in, time.Hour, nil, tainted(1, "example.com/maintenance"))
		after(t, &in, time.Minute, nil, tainted(1))
		after(t, &in, 1800*time.Second, []string{"db-1"})
	}},
	{"38", "ProcessIsMarkedAsExcluded: This indicates a process group where at least one process is excluded. If the process group is not marked for removal, the operator will replace this process group to make sure the cluster runs at the right capacity.", eligible(ExcludedUnmarked, func(f *Facts) { f.Excluded = Yes })},
	{"39", "Process groups that are set into the crash loop state with the Buggify setting won't be replaced by the operator.", func(t *testing.T) {
		t.Helper()
		in := bySource()
		after(t, &in, 100*time.Hour, nil, pending(1), func(in *RepairInput) {
			in.Members[1].Pod.Annotations = map[string]string{v1alpha1.CrashLoopPrefix + "db": "set"}
		})
	}},
	{"39a", "If the cluster.Spec.Buggify.EmptyMonitorConf setting is active the operator won't replace any process groups.", func(t *testing.T) {
		t.Helper()
		in := bySource()
		after(t, &in, 100*time.Hour, nil, pending(1), func(in *RepairInput) {
			in.Members[1].Pod.Annotations = map[string]string{v1alpha1.EmptyConfigurationAnnotation: "set"}
		})
	}},
	{"40", "The operator has an option to automatically replace ProcessGroups where the associated Pod is running on a tainted Node. This feature is disabled by default, but can be enabled by setting automationOptions.replacements.taintReplacementOptions.", func(t *testing.T) {
		t.Helper()
		in := bySource()
		after(t, &in, 100*time.Hour, nil, tainted(1, "example.com/maintenance"))
	}},
	{"41", "The following YAML setup lets the operator detect Pods running on Nodes with taint key example.com/maintenance, set the ProcessGroup' condition to NodeTaintReplacing, if their Nodes have been tainted for 3600 seconds, and replace the Pods after 1800 seconds.", func(t *testing.T) {
		t.Helper()
		in := bySource(watches("example.com/maintenance", 3600*time.Second))
		after(t, &in, 3600*time.Second, nil, tainted(1, "example.com/maintenance"))
		after(t, &in, 1799*time.Second, nil)
		after(t, &in, time.Second, []string{"db-1"})
	}},
	{"42", "If there are multiple Pods on tainted Nodes, the operator will simultaneously replace at most automationOptions.replacements.maxConcurrentReplacements Pods.", func(t *testing.T) {
		t.Helper()
		in := bySource(watches("example.com/maintenance", time.Hour))
		after(t, &in, time.Hour, nil, tainted(0, "example.com/maintenance"), tainted(1, "example.com/maintenance"))
		after(t, &in, time.Hour, []string{"db-0"})
	}},
	{"43", "We can enable the taint feature on all taint keys except one taint key with the following configuration: key \"*\" 3600, key example.com/taint-key-to-ignore 9223372036854775807.", func(t *testing.T) {
		t.Helper()
		in := bySource(watches("*", time.Hour), ignores("example.com/taint-key-to-ignore"))
		after(t, &in, time.Hour, nil, tainted(1, "example.com/taint-key-to-ignore"))
		after(t, &in, 100*time.Hour, nil)
	}},
	{"43a", "The operator will detect and mark all Pods on tainted Nodes with NodeTaintDetected condition. But the operator will ignore the taint key example.com/taint-key-to-ignore when it adds NodeTaintReplacing condition to Pods, because the key's DurationInSeconds is set to max of int64.", func(t *testing.T) {
		t.Helper()
		in := bySource(watches("*", time.Hour), ignores("example.com/taint-key-to-ignore"))
		after(t, &in, 59*time.Minute, nil, tainted(0, "example.com/any"), tainted(1, "example.com/taint-key-to-ignore"), tainted(2, "example.com/any", "example.com/taint-key-to-ignore"))
		detects(t, &in, "db-0: example.com/any", "db-2: example.com/any") // what is ignored is not noted either, where the peer marks it
	}},
	{"43b", "For example, if a Node has only the taint key example.com/taint-key-to-ignore, its Pods will only be marked with NodeTaintDetected condition.", func(t *testing.T) {
		t.Helper()
		in := bySource(watches("*", time.Hour), ignores("example.com/taint-key-to-ignore"))
		after(t, &in, 100*time.Hour, nil, tainted(1, "example.com/taint-key-to-ignore"))
		detects(t, &in)
	}},
	{"44", "When the Node has another taint key, say example.com/any-other-key, its Pods will be added NodeTaintReplacing condition when the other taint key has been on the Node for 3600 seconds.", func(t *testing.T) {
		t.Helper()
		in := bySource(watches("*", time.Hour), ignores("example.com/taint-key-to-ignore"))
		after(t, &in, 100*time.Hour, nil, tainted(1, "example.com/taint-key-to-ignore"))
		after(t, &in, 3599*time.Second, nil, tainted(1, "example.com/taint-key-to-ignore", "example.com/any-other-key"))
		if is := slices.ContainsFunc(in.Policy.Status.Unhealthy, func(u v1alpha1.UnhealthyMember) bool { return len(u.Conditions) > 0 }); is { // the peer has one clock for all taints
			t.Errorf("too early: %+v", in.Policy.Status.Unhealthy)
		}
		after(t, &in, time.Second, nil)
		after(t, &in, 1800*time.Second, []string{"db-1"})
	}},
	{"45", "We can disable the taint feature by resetting automationOptions.replacements.taintReplacementOptions = {}.", func(t *testing.T) {
		t.Helper()
		in := bySource(watches("*", time.Hour))
		after(t, &in, 30*time.Minute, nil, tainted(1, "example.com/any"))
		after(t, &in, 100*time.Hour, nil, func(in *RepairInput) { in.Policy.Spec.Repair.Taints = nil })
	}},
}

// TestSource002 is source 002, sentence by sentence.
func TestSource002(t *testing.T) {
	t.Parallel()
	for _, s := range source002 {
		t.Run(s.number, func(t *testing.T) {
			t.Log(s.says)
			s.holds(t)
		})
	}
}

// bySource is a policy of three members that repairs as the source says where it is enabled, and does not stop for a share of zones.
func bySource(changes ...func(*RepairInput)) RepairInput {
	in := repaired(func(in *RepairInput) {
		in.Policy.Spec.Repair = &v1alpha1.Repair{Mode: v1alpha1.RepairAutomatic, StopAbove: &v1alpha1.RepairStop{}}
		in.Policy.Spec.Repair.StopAbove.Zones.IntVal = 3
		for i := range in.Members { // a MemberSet replaces a member that runs as well
			in.Members[i].Operated = true
		}
	})
	for _, change := range changes {
		change(&in)
	}
	return in
}

func watches(key string, after time.Duration) func(*RepairInput) {
	return func(in *RepairInput) {
		in.Policy.Spec.Repair.Taints = append(in.Policy.Spec.Repair.Taints, v1alpha1.RepairTaint{Key: key, After: &metav1.Duration{Duration: after}})
	}
}

func ignores(key string) func(*RepairInput) {
	return func(in *RepairInput) {
		in.Policy.Spec.Repair.Taints = append(in.Policy.Spec.Repair.Taints, v1alpha1.RepairTaint{Key: key, Action: v1alpha1.TaintIgnore})
	}
}

// tainted has the node of a member have these taints.
func tainted(i int, keys ...string) func(*RepairInput) {
	return func(in *RepairInput) {
		node := *in.Nodes[in.Members[i].Pod.Node]
		node.Taints = nil
		for _, key := range keys {
			node.Taints = append(node.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
		}
		in.Nodes[node.Name] = &node
	}
}

// after has changes come, and then time pass, and fails unless these members get requests in that time.
func after(t *testing.T, in *RepairInput, passes time.Duration, want []string, changes ...func(*RepairInput)) {
	t.Helper()
	for i := range in.Members {
		if pod := in.Members[i].Pod; pod != nil {
			in.Members[i].Pod = copyOf(pod)
		}
	}
	var got []string
	for _, result := range []RepairResult{then(in, 0, changes...), then(in, passes)} {
		for i := range result.Requests {
			got = append(got, result.Requests[i].Spec.Member.ID)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("requests for %v, not %v: %+v", got, want, in.Policy.Status.Unhealthy)
	}
}

func copyOf(pod *snapshot.Pod) *snapshot.Pod {
	same := *pod
	return &same
}

// detects fails unless the status notes these taints of members, and no condition.
func detects(t *testing.T, in *RepairInput, want ...string) {
	t.Helper()
	var got []string
	for i := range in.Policy.Status.Unhealthy {
		u := &in.Policy.Status.Unhealthy[i]
		for _, taint := range u.Taints {
			got = append(got, u.ID+": "+taint.Key)
		}
		if len(u.Conditions) > 0 {
			t.Errorf("%s has conditions: %+v", u.ID, u.Conditions)
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("noted are %v, not %v", got, want)
	}
}

// eligible is a test that a member with such facts has the condition, and is marked for it after the source's window and not before.
func eligible(kind ConditionType, is func(*Facts)) func(t *testing.T) {
	return func(t *testing.T) {
		t.Helper()
		facts := Facts{Reported: Yes, Excluded: No, Emptied: No, HasPod: Yes, Pod: Pod{Healthy: true}, Claims: Yes, Service: Yes, NodeKnown: true, NodeUID: "n"}
		is(&facts)
		member := Member{MemberRef: v1alpha1.MemberRef{Role: "storage", ID: "storage-1"}, Zone: "z", Facts: facts}
		for _, test := range []struct {
			at   time.Time
			want int
		}{{noon, 0}, {noon.Add(7199 * time.Second), 0}, {noon.Add(7200 * time.Second), 1}} {
			out := Decide(Input{Now: test.at, Terms: TermsOf(&v1alpha1.Repair{Mode: v1alpha1.RepairAutomatic}), Namespace: "db", Policy: "fdb", Members: []Member{member}, Available: Yes})
			if len(out.Mark) != test.want {
				t.Errorf("at %s: %+v", test.at, out)
			}
			member.Record = out.Records[0]
		}
		if len(member.Record.Conditions) != 1 || member.Record.Conditions[0].Type != kind {
			t.Errorf("its conditions are %+v", member.Record.Conditions)
		}
	}
}
