package eviction

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"

	"usher.sh/usher/internal/expression"
)

// wish is an eviction of s0 by a user, which the verdict allows.
func wish(t testing.TB) AdmissionInput {
	t.Helper()
	return AdmissionInput{Input: world(t), Verb: VerbEvict, User: "alice", Self: []string{"usher"}}
}

func ownersFree(in *AdmissionInput) { in.Policies[0].Policy.entries[0].ownerFree = true }

func undrained(in *AdmissionInput) { in.Evidence.Members["m-s0"]["drained"] = false }

func TestAdmit(t *testing.T) {
	zero, short := int64(0), int64(1)
	by := func(user string) func(*AdmissionInput) {
		return func(in *AdmissionInput) { in.Verb, in.User = VerbDelete, user; undrained(in) }
	}
	also := func(steps ...func(*AdmissionInput)) func(*AdmissionInput) {
		return func(in *AdmissionInput) {
			for _, step := range steps {
				step(in)
			}
		}
	}
	owner := func(version, kind string) func(*AdmissionInput) {
		return func(in *AdmissionInput) { in.Pod.Owner.APIVersion, in.Pod.Owner.Kind = version, kind }
	}
	leaving := func(in *AdmissionInput) { in.Pod = terminating(in.Pod) }
	ending := func(in *AdmissionInput) { in.NamespaceEnding = true }
	// The policy's newest version asks something of the role, or its former version did.
	mislabelled := func(in *AdmissionInput) { in.Pod.Labels["role"] = "router" }
	single := func(in *AdmissionInput) {
		in.Pod = toyPod("x0", "single")
		in.Evidence.Members["m-x0"] = expression.Facts{}
	}
	ended := func(in *AdmissionInput) { in.Pod.Phase = corev1.PodFailed }
	suspended := func(in *AdmissionInput) { in.Policies[0].Policy.suspended = true }
	twice := func(in *AdmissionInput) { in.Policies = append(in.Policies, in.Policies[0]) }
	glass := func(in *AdmissionInput) {
		in.Pod.Annotations = map[string]string{v1alpha1.BreakGlassAnnotation: "fire"}
	}
	kubelet := func(in *AdmissionInput) { in.Groups = []string{"system:nodes", "system:authenticated"} }
	const sa = "system:serviceaccount:kube-system:"

	permit, request := []ActionKind{Permit}, []ActionKind{Request}
	for name, c := range map[string]struct {
		given func(*AdmissionInput)
		allow bool
		note  NoteKind
		acts  []ActionKind
	}{
		"allowed":                      {given: func(*AdmissionInput) {}, allow: true, note: LetThrough, acts: permit},
		"allowed, dry run":             {given: func(in *AdmissionInput) { in.DryRun = true }, allow: true, note: LetThrough},
		"refused":                      {given: undrained, note: Refused, acts: request},
		"refused, dry run":             {given: also(undrained, func(in *AdmissionInput) { in.DryRun = true }), note: Refused},
		"refused, with an own request": {given: also(undrained, func(in *AdmissionInput) { in.OwnRequest = true }), note: Refused},
		"refused to Usher":             {given: also(undrained, func(in *AdmissionInput) { in.User = "usher" }), note: Refused},
		"delete, refused":              {given: by("alice"), note: Refused, acts: request},
		"delete, allowed":              {given: func(in *AdmissionInput) { in.Verb = VerbDelete }, allow: true, note: LetThrough, acts: permit},
		"delete of a router":           {given: also(by("alice"), func(in *AdmissionInput) { in.Pod = toyPod("r1", "router") }), allow: true, note: LetThrough},
		"never":                        {given: func(in *AdmissionInput) { in.Pod = toyPod("x0", "single") }, note: Refused},
		"claimed twice":                {given: twice, note: Refused},
		"suspended":                    {given: suspended, note: Refused},
		"the policy is being deleted":  {given: also(undrained, func(in *AdmissionInput) { in.Policies[0].Deleted = true }), note: Refused},
		"not governed":                 {given: func(in *AdmissionInput) { in.Pod.Labels = nil }, allow: true, note: NotGoverned},
		"a policy is missing":          {given: func(in *AdmissionInput) { in.Policies = nil }, note: Refused},
		"its StatefulSet":              {given: by(sa + "statefulset-controller"), note: Refused, acts: request},
		"its StatefulSet, and it may go": {
			given: func(in *AdmissionInput) { in.Verb, in.User = VerbDelete, sa+"statefulset-controller" }, allow: true, note: LetThrough, acts: permit,
		},
		"its StatefulSet, of a pod that has ended": {
			given: also(by(sa+"statefulset-controller"), func(in *AdmissionInput) { in.Pod.Phase = corev1.PodFailed }), allow: true, note: LetThrough,
		},
		"its StatefulSet, of a pod that is leaving": {given: also(by(sa+"statefulset-controller"), leaving), allow: true, note: AlreadyLeaving},
		"its StatefulSet, which is free":            {given: also(by(sa+"statefulset-controller"), ownersFree), allow: true, note: ByOwner, acts: permit},
		"its StatefulSet, of a member that never goes": {
			given: also(by(sa+"statefulset-controller"), single), allow: true, note: ByOwner, acts: permit,
		},
		"its StatefulSet, of a member that never goes, by force": {
			given: also(by(sa+"statefulset-controller"), single, func(in *AdmissionInput) { in.Pod.Grace = 0 }), note: Refused,
		},
		"its StatefulSet, of a member that never goes, while the system does not know it": {
			given: also(by(sa+"statefulset-controller"), func(in *AdmissionInput) { in.Pod = toyPod("x0", "single") }), note: Refused,
		},
		"its StatefulSet, of a pod that has ended, suspended":         {given: also(by(sa+"statefulset-controller"), ended, suspended), allow: true, note: ByOwner},
		"its StatefulSet, of a pod that has ended, claimed twice":     {given: also(by(sa+"statefulset-controller"), ended, twice), allow: true, note: ByOwner},
		"its StatefulSet, of a pod that has ended, which is labelled": {given: also(by(sa+"statefulset-controller"), mislabelled, ended), allow: true, note: ByOwner},
		"another one, of a pod that has ended, suspended":             {given: also(by("alice"), ended, suspended), note: Refused},
		"its DaemonSet, which is not free":                            {given: also(by(sa+"daemon-set-controller"), owner("apps/v1", "DaemonSet")), note: Refused},
		"its StatefulSet, where DELETE is free": {
			given: also(by(sa+"statefulset-controller"), func(in *AdmissionInput) { in.Policies[0].Policy.entries[0].deletes = v1alpha1.DeleteAllow }),
			note:  Refused, acts: request,
		},
		"another one, where owners are": {given: also(by("alice"), ownersFree), note: Refused, acts: request},
		"another kind's controller":     {given: by(sa + "replicaset-controller"), note: Refused, acts: request},
		"its ReplicaSet":                {given: also(by(sa+"replicaset-controller"), owner("apps/v1", "ReplicaSet"), ownersFree), allow: true, note: ByOwner, acts: permit},
		"its DaemonSet":                 {given: also(by(sa+"daemon-set-controller"), owner("apps/v1", "DaemonSet"), ownersFree), allow: true, note: ByOwner, acts: permit},
		"its Job":                       {given: also(by(sa+"job-controller"), owner("batch/v1", "Job"), ownersFree), allow: true, note: ByOwner, acts: permit},
		"its RC":                        {given: also(by(sa+"replication-controller"), owner("v1", "ReplicationController"), ownersFree), allow: true, note: ByOwner, acts: permit},
		"another group's StatefulSet":   {given: also(by(sa+"statefulset-controller"), owner("apps.kruise.io/v1beta1", "StatefulSet")), note: Refused, acts: request},
		"another group's DaemonSet":     {given: owner("apps.kruise.io/v1alpha1", "DaemonSet"), allow: true, note: LetThrough, acts: permit},
		"its StatefulSet evicts":        {given: also(by(sa+"statefulset-controller"), func(in *AdmissionInput) { in.Verb = VerbEvict }), note: Refused, acts: request},
		"an operator": {
			given: also(by("operator"), func(in *AdmissionInput) { in.Policies[0].Policy.entries[0].controllers = []string{"operator"} }),
			allow: true, note: ByOwner, acts: permit,
		},
		"garbage collection":              {given: by(sa + "generic-garbage-collector"), allow: true, note: ByGarbage, acts: permit},
		"pod garbage collection":          {given: also(by(sa+"pod-garbage-collector"), func(in *AdmissionInput) { in.Grace = &zero }), allow: true, note: ByGarbage, acts: permit},
		"the namespace ends":              {given: also(by(sa+"namespace-controller"), ending), allow: true, note: ByNamespace, acts: permit},
		"the namespace does not":          {given: by(sa + "namespace-controller"), note: Refused, acts: request},
		"a person in an ending namespace": {given: also(by("alice"), ending), note: Refused, acts: request},
		"its kubelet":                     {given: also(by("system:node:node-a"), kubelet, leaving, func(in *AdmissionInput) { in.Grace = &zero }), allow: true, note: ByKubelet},
		"another kubelet":                 {given: also(by("system:node:node-b"), kubelet), note: Refused, acts: request},
		"no kubelet":                      {given: by("system:node:node-a"), note: Refused, acts: request},
		"a taint":                         {given: by(sa + "taint-eviction-controller"), note: Refused, acts: request},
		"a taint, DELETE is free": {
			given: also(by(sa+"taint-eviction-controller"), func(in *AdmissionInput) { in.Policies[0].Policy.entries[0].deletes = v1alpha1.DeleteAllow }),
			note:  Refused, acts: request,
		},
		"preemption": {
			given: also(by("system:kube-scheduler"), func(in *AdmissionInput) { in.Policies[0].Policy.entries[0].deletes = v1alpha1.DeleteAllow }),
			note:  Refused, acts: request,
		},
		"DELETE is free": {
			given: also(by("alice"), func(in *AdmissionInput) { in.Policies[0].Policy.entries[0].deletes = v1alpha1.DeleteAllow }),
			allow: true, note: DeleteIsFree, acts: permit,
		},
		"DELETE is free, eviction is not": {
			given: also(undrained, func(in *AdmissionInput) { in.Policies[0].Policy.entries[0].deletes = v1alpha1.DeleteAllow }),
			note:  Refused, acts: request,
		},
		"all controllers in one":                 {given: by("system:kube-controller-manager"), note: Refused, acts: request},
		"all controllers in one, namespace ends": {given: also(by("system:kube-controller-manager"), ending), allow: true, note: ByNamespace, acts: permit},
		"it is leaving":                          {given: also(by("alice"), leaving), allow: true, note: AlreadyLeaving},
		"it is leaving, faster":                  {given: also(by("alice"), leaving, func(in *AdmissionInput) { in.Grace = &short }), allow: true, note: AlreadyLeaving},
		"it is leaving, by force":                {given: also(by("alice"), leaving, func(in *AdmissionInput) { in.Grace = &zero }), note: Refused},
		"broken glass":                           {given: also(undrained, glass), allow: true, note: BrokenGlass, acts: permit},
		"a router with a label":                  {given: mislabelled, note: Refused},
		"a router with a label, dry run":         {given: also(mislabelled, func(in *AdmissionInput) { in.DryRun = true }), note: Refused},
		"a router with a label, deleted":         {given: also(by("alice"), mislabelled), note: Refused},
		"a router with a label, broken glass":    {given: also(mislabelled, glass), allow: true, note: BrokenGlass},
		"a router with a label, its StatefulSet": {given: also(by(sa+"statefulset-controller"), mislabelled), note: Refused},
		"a router with a label, its kubelet":     {given: also(by("system:node:node-a"), kubelet, mislabelled), allow: true, note: ByKubelet},
		"a router with a label, leaving":         {given: also(by("alice"), mislabelled, leaving), allow: true, note: AlreadyLeaving},
		"broken glass without a reason": {
			given: also(undrained, func(in *AdmissionInput) { in.Pod.Annotations = map[string]string{v1alpha1.BreakGlassAnnotation: " "} }),
			note:  Refused, acts: request,
		},
		"a pod of a DaemonSet": {given: owner("apps/v1", "DaemonSet"), note: Refused},
		"delete of a pod of a DaemonSet": {
			given: also(owner("apps/v1", "DaemonSet"), func(in *AdmissionInput) { in.Verb = VerbDelete }), allow: true, note: LetThrough, acts: permit,
		},
		"by force": {given: func(in *AdmissionInput) { in.Grace = &zero }, note: Refused, acts: request},
		"delete, by force": {
			given: func(in *AdmissionInput) { in.Verb, in.Grace = VerbDelete, &zero }, note: Refused, acts: request,
		},
		"a router, by force": {
			given: func(in *AdmissionInput) { in.Pod, in.Grace = toyPod("r1", "router"), &zero }, allow: true, note: LetThrough,
		},
		"its spec gives it no time": {given: func(in *AdmissionInput) { in.Pod.Grace = 0 }, note: Refused, acts: request},
		"its spec gives it no time, the caller does": {
			given: func(in *AdmissionInput) { in.Pod.Grace, in.Grace = 0, &short }, allow: true, note: LetThrough, acts: permit,
		},
		"its spec gives it no time, it is leaving": {
			given: also(leaving, func(in *AdmissionInput) { in.Pod.Grace = 0 }), note: Refused,
		},
		"it may go and is leaving, by force": {given: also(leaving, func(in *AdmissionInput) { in.Grace = &zero }), note: Refused},
		"it has ended, by force": {
			given: func(in *AdmissionInput) { in.Pod.Phase, in.Grace = corev1.PodFailed, &zero }, allow: true, note: LetThrough,
		},
		"asked":          {given: func(in *AdmissionInput) { in.Ask, in.DryRun = AskEvict, true }, note: Asked},
		"asked, refused": {given: also(undrained, func(in *AdmissionInput) { in.Ask = AskEvict }), note: Asked},
		"asked nonsense": {given: func(in *AdmissionInput) { in.Ask = "dance" }, note: Asked},
	} {
		t.Run(name, func(t *testing.T) {
			in := wish(t)
			c.given(&in)
			got := Admit(in)
			if got.Allow != c.allow || got.Note.Kind != c.note {
				t.Errorf("allow %v, note %s; want %v, %s (%s)", got.Allow, got.Note.Kind, c.allow, c.note, got.Message)
			}
			if diff := cmp.Diff(c.acts, kinds(got.Actions)); diff != "" {
				t.Errorf("actions: %s", diff)
			}
			hinders := got.Note.Kind == LetThrough
			for _, action := range got.Actions {
				if action.Kind == Permit && got.Regardless == hinders {
					t.Errorf("a permit's failure hinders: %v", !got.Regardless)
				}
			}
			if !got.Allow && (got.Message == "" || got.Code == 0) {
				t.Errorf("a refusal without words or code: %+v", got)
			}
		})
	}
}

func TestRefusal(t *testing.T) {
	in := wish(t)
	undrained(&in)
	in.Evidence.System["leader"] = "m-s0"
	got := Admit(in)
	if got.Code != 429 || got.RetryAfter != 10*time.Second {
		t.Errorf("code %d, retry after %s", got.Code, got.RetryAfter)
	}
	if want := "pod shop/s0 (store m-s0) may not leave its node yet: (1) m-s0 still holds shards none (2) m-s0 leads"; got.Message != want {
		t.Errorf("got %s\nwant %s", got.Message, want)
	}
	want := []metav1.StatusCause{
		{Type: "NotDrained", Field: "drained", Message: "m-s0 still holds shards none\nmove 0 shards"},
		{Type: "IsLeader", Field: "no-leader", Message: "m-s0 leads"},
	}
	if diff := cmp.Diff(want, got.Causes); diff != "" {
		t.Error(diff)
	}
	in.Pod = toyPod("x0", "single")
	if got := Admit(in); got.RetryAfter != time.Minute || !strings.Contains(got.Message, "may never leave") {
		t.Errorf("never: %s, %s", got.RetryAfter, got.Message)
	}
}

func TestForcedRemovalSaysWhatHelps(t *testing.T) {
	zero := int64(0)
	for says, given := range map[string]func(*AdmissionInput){
		"leave out --grace-period=0":      func(in *AdmissionInput) { in.Grace = &zero },
		"terminationGracePeriodSeconds 0": func(in *AdmissionInput) { in.Pod.Grace = 0 },
		"spec.members[].controllers":      func(in *AdmissionInput) { in.Pod, in.Grace = terminating(in.Pod), &zero },
	} {
		in := wish(t)
		given(&in)
		if got := Admit(in); got.Allow || !strings.Contains(got.Message, says) {
			t.Errorf("%s: want %q", got.Message, says)
		}
	}
}

// A MemberSet writes its policy itself, where no user can be named: what helps there is another thing.
func TestForcedRemovalOfAMemberOfASet(t *testing.T) {
	zero := int64(0)
	in := wish(t)
	in.Pod, in.Grace = terminating(in.Pod), &zero
	in.Pod.Node = "n1"
	for ofSet, want := range map[bool]string{
		true:  "wait; or, where node n1 is lost, prove that it is off: usher fence n1; or break the glass. A MemberSet names no user who may do this otherwise",
		false: "wait, or break the glass; a user that ends pods of its node and is no kubelet must be named in spec.members[].controllers of the policy",
	} {
		in.Policies[0].Policy.entries[0].memberSet = ofSet
		var remedies []string
		for _, cause := range Admit(in).Causes {
			remedies = append(remedies, cause.Message)
		}
		if all := strings.Join(remedies, "\n"); !strings.Contains(all, want) {
			t.Errorf("of a set %t: %s\nwant %s", ofSet, all, want)
		}
	}
}

func TestAnswerIsReadBack(t *testing.T) {
	in := wish(t)
	in.Ask = AskReplace
	got, ok := ReadAnswer(Admit(in).Causes)
	want := JudgeReplace(in.Input)
	want.Blockers[0].Retry = 0 // it is given with the whole refusal
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Error(ok, diff)
	}
	in.Ask = AskEvict
	if got, ok := ReadAnswer(Admit(in).Causes); !ok || got.Answer != Allowed || got.Role != "store" || got.Member != "m-s0" {
		t.Errorf("%v %+v", ok, got)
	}
	undrained(&in)
	in.Pod.Annotations = map[string]string{v1alpha1.BreakGlassAnnotation: "fire"}
	if got, ok := ReadAnswer(Admit(in).Causes); !ok || got.BreakGlass != "fire" || got.Answer == Allowed || len(got.Blockers) == 0 {
		t.Errorf("broken glass is read back as %v %+v", ok, got)
	}
	in.Ask = ""
	in.Pod.Annotations = nil
	if _, ok := ReadAnswer(Admit(in).Causes); ok {
		t.Error("an ordinary refusal passes for an answer")
	}
}

func TestPermit(t *testing.T) {
	in := wish(t)
	in.Policies[0].Status.Preparations = []v1alpha1.PreparationStatus{begun("Drain", "s0", v1alpha1.PreparationBegun, noon)}
	action := Admit(in).Actions[0]
	want := Action{
		Kind: Permit, Policy: in.Policies[0].Key, Version: "7", Why: "alice may take s0 away",
		Status: &v1alpha1.EvictionPolicyStatus{
			Epoch:        5,
			Leaving:      []v1alpha1.Leaving{leaves("s0", "store", noon)},
			Preparations: in.Policies[0].Status.Preparations,
		},
	}
	want.Status.Leaving[0].Requester = "alice"
	if diff := cmp.Diff(want, action); diff != "" {
		t.Error(diff)
	}
	if in.Policies[0].Status.Epoch != 4 || len(in.Policies[0].Status.Leaving) > 0 {
		t.Error("the input was changed")
	}

	// A permit that stands is renewed, and older evidence stays as good as it was.
	in.Policies[0].Status = action.Status
	in.Evidence.Epoch = 5
	in.Now, in.Evidence.Observed = noon.Add(time.Minute), noon.Add(time.Minute)
	in.User = "bob"
	action = Admit(in).Actions[0]
	want.Status.Leaving[0].Requester, want.Status.Leaving[0].StartTime = several, metav1.NewTime(noon.Add(time.Minute))
	if diff := cmp.Diff(want.Status, action.Status); diff != "" {
		t.Error(diff)
	}
}

// Members without state may leave together, but not all on the same facts: a rule that speaks of the others sees them.
func TestRulesWithoutALimit(t *testing.T) {
	spec := toySpec()
	role := toyRoles()[1]
	role.Evict.Rules = []v1alpha1.Rule{{Name: "alone", Reason: "NotAlone", Expression: "leaving.size() < 1", Message: "{{leaving}} on the way"}}
	spec.Roles = []v1alpha1.Role{role}
	in := wish(t)
	in.Pod = toyPod("r1", "router")
	in.Policies[0].Policy = compiled(t, spec)
	in.Evidence.Members["m-r1"], in.Evidence.Members["m-r0"] = expression.Facts{}, expression.Facts{}
	first := Admit(in)
	if !first.Allow || len(first.Actions) != 1 || first.Actions[0].Kind != Permit {
		t.Fatalf("the first is let through with %+v", first.Actions)
	}
	in.Pod = toyPod("r0", "router")
	in.Policies[0].Status = first.Actions[0].Status
	in.Evidence.Epoch = in.Policies[0].Status.Epoch
	if second := Admit(in); second.Allow {
		t.Errorf("the second is let through on the same facts: %+v", second.Verdict)
	}
}

// TestPermitOfForcedRemoval: the member of a pod that may be removed by force counts for as long as its process may run.
func TestPermitOfForcedRemoval(t *testing.T) {
	const sa = "system:serviceaccount:kube-system:"
	zero := int64(0)
	glass := func(in *AdmissionInput) {
		in.Pod.Annotations = map[string]string{v1alpha1.BreakGlassAnnotation: "fire"}
	}
	for name, c := range map[string]struct {
		given func(*AdmissionInput)
		want  time.Duration // 0: no permit
	}{
		"broken glass":                   {glass, permitLife + 30*time.Second},
		"broken glass, an hour of grace": {func(in *AdmissionInput) { glass(in); in.Pod.Grace = time.Hour }, permitLife + time.Hour},
		"broken glass, decades of grace": {func(in *AdmissionInput) { glass(in); in.Pod.Grace = 1_000_000_000 * time.Second }, permitLife + time.Hour},
		"broken glass, it is leaving": {func(in *AdmissionInput) {
			glass(in)
			in.Pod = terminating(in.Pod)
		}, permitLife + 30*time.Second},
		"its controller": {func(in *AdmissionInput) { ownersFree(in); in.User = sa + "statefulset-controller" }, permitLife + 30*time.Second},
		"its controller, by the pod's spec": {func(in *AdmissionInput) {
			ownersFree(in)
			in.User, in.Grace, in.Pod.Grace = sa+"statefulset-controller", nil, 0
		}, permitLife},
		"its controller, it is leaving": {func(in *AdmissionInput) {
			ownersFree(in)
			in.User, in.Pod = sa+"statefulset-controller", terminating(in.Pod)
		}, 0},
		"its controller, it has ended": {func(in *AdmissionInput) {
			in.User, in.Pod.Phase = sa+"statefulset-controller", corev1.PodSucceeded
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			in := wish(t)
			in.Verb, in.Grace = VerbDelete, &zero
			c.given(&in)
			got := Admit(in)
			if !got.Allow || (len(got.Actions) > 0) != (c.want > 0) {
				t.Fatalf("%+v", got)
			}
			if len(got.Actions) == 0 {
				return
			}
			if entry := got.Actions[0].Status.Leaving[0]; entry.LingerSeconds != int64(c.want.Seconds()) {
				t.Errorf("it lingers %d s, want %s", entry.LingerSeconds, c.want)
			}
		})
	}
	in := wish(t)
	in.Verb, in.User, in.Groups, in.Grace = VerbDelete, "system:node:node-a", []string{"system:nodes"}, &zero
	if entry := Admit(in).Actions[0].Status.Leaving[0]; entry.LingerSeconds != 0 {
		t.Errorf("its kubelet has seen it end, and it lingers %d s", entry.LingerSeconds)
	}
	in.Policies[0].Status.Leaving = []v1alpha1.Leaving{leaves("s0", "store", noon)}
	in.Policies[0].Status.Leaving[0].LingerSeconds = 7
	if entry := Admit(in).Actions[0].Status.Leaving[0]; entry.LingerSeconds != 7 {
		t.Errorf("renewed, it lingers %d s", entry.LingerSeconds)
	}
}

func TestCrossOut(t *testing.T) {
	ours := func(since time.Time) v1alpha1.Leaving {
		entry := leaves("s0", "store", since)
		entry.Requester = usher
		return entry
	}
	other := leaves("s1", "store", noon)
	status := func(entries ...v1alpha1.Leaving) *v1alpha1.EvictionPolicyStatus {
		return &v1alpha1.EvictionPolicyStatus{Epoch: 4, Leaving: entries}
	}
	gone := &v1alpha1.EvictionPolicyStatus{Epoch: 5, Leaving: []v1alpha1.Leaving{other}}
	cases := map[string]struct {
		now, before, written, want *v1alpha1.EvictionPolicyStatus
	}{
		"its own":                        {status(ours(noon), other), status(other), status(ours(noon), other), gone},
		"the first of a policy":          {status(ours(noon), other), nil, status(ours(noon), other), gone},
		"another requester's":            {status(leaves("s0", "store", noon), other), status(other), status(ours(noon), other), nil},
		"written anew since":             {status(ours(noon), other), status(other), status(ours(noon.Add(-time.Second)), other), nil},
		"none there":                     {status(other), status(other), status(ours(noon), other), nil},
		"one that may be under way":      {status(ours(noon), other), status(ours(noon.Add(-time.Minute)), other), status(ours(noon), other), status(ours(noon.Add(-time.Minute)), other)},
		"one that has long been ended":   {status(ours(noon), other), status(ours(noon.Add(-permitLife)), other), status(ours(noon), other), gone},
		"nothing that was written by it": {status(ours(noon), other), status(ours(noon), other), status(other), nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			unchanged := c.now.DeepCopy()
			action, ok := RevokePermit(Declared{Status: c.now}, c.before, c.written, "uid-s0", noon)
			if ok != (c.want != nil) || ok && action.Kind != Settle {
				t.Fatalf("crossed out: %t, %s", ok, action.Kind)
			}
			if diff := cmp.Diff(c.want, action.Status); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(unchanged, c.now); diff != "" {
				t.Errorf("the input was changed:\n%s", diff)
			}
		})
	}
}
