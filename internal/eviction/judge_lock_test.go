package eviction

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

const (
	stateLabel = "maintenance.example.com/agent"
	lockPrefix = "lock.example.com"
)

// locked is a policy in which stores hold and routers wait.
func locked(change ...func(*v1alpha1.EvictionPolicySpec)) *v1alpha1.EvictionPolicySpec {
	spec := toySpec()
	spec.ServiceAccountName = "agents"
	spec.NodeLock = &v1alpha1.NodeLock{StateLabel: stateLabel, LockPrefix: lockPrefix, Holders: []string{"store"}, Waiter: "router"}
	for _, f := range change {
		f(spec)
	}
	return spec
}

// lockable judges a router on a node with a value of the label, "" for none, and locks, beside other pods.
func lockable(t *testing.T, label string, locks []string, others ...*snapshot.Pod) Input {
	t.Helper()
	in := world(t)
	in.Policies[0].Policy, in.Pod = compiled(t, locked()), toyPod("r0", "router")
	in.Node = &snapshot.Node{Name: "node-a", Labels: map[string]string{}, Annotations: map[string]string{"lock.example.community/x": ""}}
	if label != "" {
		in.Node.Labels[stateLabel] = label
	}
	for _, lock := range locks {
		in.Node.Annotations[lock] = ""
	}
	in.Rosters = map[snapshot.Key]*Roster{in.Policies[0].Key: NewRoster(in.Policies[0], append(others, in.Pod))}
	return in
}

func TestTheWaiterStaysWhileLocksStand(t *testing.T) {
	own := lockPrefix + "/" + snapshot.NodeLockName(snapshot.Key{Namespace: "shop", Name: "db"}, "store")
	elsewhere := toyPod("s0", "store")
	elsewhere.Node = "node-b"
	for name, c := range map[string]struct {
		label  string
		locks  []string
		others []*snapshot.Pod
		change func(*Input)
		want   []string
	}{
		"it may go once the label says so":  {label: "True", others: []*snapshot.Pod{elsewhere}},
		"the label says that it serves":     {label: "False", want: []string{NodeLabelPending}},
		"no label":                          {want: []string{NodeLabelPending}},
		"a value that says nothing":         {label: "true", want: []string{NodeLabelPending}},
		"another's lock":                    {label: "True", locks: []string{lockPrefix + "/nova-compute"}, want: []string{NodeLocked}},
		"a lock of its own policy":          {label: "True", locks: []string{own}, want: []string{NodeLocked}},
		"a lock and no label":               {locks: []string{own}, want: []string{NodeLocked, NodeLabelPending}},
		"a holder that has not locked yet":  {label: "True", others: []*snapshot.Pod{toyPod("s0", "store")}, want: []string{EarlierRole}},
		"a node of which nothing is known":  {label: "True", change: func(in *Input) { in.Node = nil }, want: []string{NodeLocked}},
		"a lock with a long value":          {label: "True", change: func(in *Input) { in.Node.LongAnnotations = []string{lockPrefix + "/x"} }, want: []string{NodeLocked}},
		"it is on no node":                  {change: func(in *Input) { in.Pod.Node = "" }},
		"it has ended":                      {change: func(in *Input) { in.Pod.Phase = corev1.PodFailed }},
		"a member that only holds its node": {locks: []string{own}, change: func(in *Input) { in.Pod = toyPod("s0", "store") }},
	} {
		t.Run(name, func(t *testing.T) {
			in := lockable(t, c.label, c.locks, c.others...)
			if c.change != nil {
				c.change(&in)
			}
			if diff := cmp.Diff(c.want, reasons(Judge(in))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLocksAreNamedWithWhatHelps(t *testing.T) {
	own := lockPrefix + "/" + snapshot.NodeLockName(snapshot.Key{Namespace: "shop", Name: "db"}, "store")
	got := Judge(lockable(t, "True", []string{own})).Blockers[0]
	if !strings.Contains(got.Message, own) || strings.Contains(got.Remedy, "annotate") {
		t.Errorf("a lock that goes by itself: %+v", got)
	}
	got = Judge(lockable(t, "True", []string{own, lockPrefix + "/nova"})).Blockers[0]
	if !strings.Contains(got.Message, lockPrefix+"/nova") || !strings.Contains(got.Remedy, "kubectl annotate node node-a "+lockPrefix+"/nova-") {
		t.Errorf("another's lock: %+v", got)
	}
	many := Judge(lockable(t, "True", []string{lockPrefix + "/a", lockPrefix + "/b", lockPrefix + "/c", lockPrefix + "/d", lockPrefix + "/e", lockPrefix + "/f", lockPrefix + "/g"})).Blockers[0]
	if !strings.Contains(many.Message, "2 more") {
		t.Errorf("many: %+v", many)
	}
}

// A lock that is set after the cache was read is seen before the waiter goes, and what waits is guarded although its role asks nothing.
func TestWhatLocksLetGoIsLookedAtAgain(t *testing.T) {
	in := lockable(t, "True", nil)
	if got := GuardedBy(in.Policies, in.Pod); got != "db" {
		t.Errorf("guarded by %q", got)
	}
	if got := Admit(AdmissionInput{Input: in, Verb: VerbEvict, User: "jane"}); !got.Allow || !got.ByReadiness || len(got.Actions) != 1 {
		t.Errorf("it is let go without a look past the cache and a permit: %+v", got)
	}
	spec := locked(func(spec *v1alpha1.EvictionPolicySpec) { spec.NodeLock.Holders = nil })
	in.Policies[0].Policy = compiled(t, spec)
	if got := Admit(AdmissionInput{Input: in, Verb: VerbEvict, User: "jane"}); !got.Allow || !got.ByReadiness || len(got.Actions) != 1 {
		t.Errorf("with other operators' holders alone: %+v", got)
	}
	if got := GuardedBy(in.Policies, in.Pod); got != "db" {
		t.Errorf("with other operators' holders alone it is guarded by %q", got)
	}
}

// No request is made for the DELETE of a DaemonSet's pod, so no label announces it; locks hold it all the same.
func TestARestartOfADaemonSetsPodWaitsForNoLabel(t *testing.T) {
	in := lockable(t, "False", nil)
	in.Pod.Owner = daemonSet
	if got := Admit(AdmissionInput{Input: in, Verb: VerbDelete, User: "jane"}); !got.Allow {
		t.Errorf("refused: %s", got.Message)
	}
	in.Node.Annotations[lockPrefix+"/nova"] = ""
	if got := Admit(AdmissionInput{Input: in, Verb: VerbDelete, User: "jane"}); got.Allow {
		t.Error("let through past a lock")
	}
	delete(in.Node.Annotations, lockPrefix+"/nova")
	in.Policies[0].Policy = compiled(t, locked(func(spec *v1alpha1.EvictionPolicySpec) { spec.Members[1].Leaves = v1alpha1.LeavesLoad }))
	if diff := cmp.Diff([]string{NodeLabelPending}, reasons(Judge(in))); diff != "" {
		t.Errorf("one that stays is emptied before the label says so: %s", diff)
	}
}

func TestNodeLocksThatCannotBeUsed(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.EvictionPolicySpec)
		want   []string
	}{
		"as it should be":        {change: func(*v1alpha1.EvictionPolicySpec) {}},
		"roles that are not":     {func(s *v1alpha1.EvictionPolicySpec) { s.NodeLock.Holders, s.NodeLock.Waiter = []string{"x"}, "y" }, []string{"spec.nodeLock.holders[0]", "spec.nodeLock.waiter"}},
		"it waits for itself":    {func(s *v1alpha1.EvictionPolicySpec) { s.NodeLock.Holders = []string{"router"} }, []string{"spec.nodeLock.holders[0]", "spec.nodeLock"}},
		"a label of Kubernetes'": {func(s *v1alpha1.EvictionPolicySpec) { s.NodeLock.StateLabel = "topology.kubernetes.io/zone" }, []string{"spec.nodeLock.stateLabel"}},
		"its domain itself":      {func(s *v1alpha1.EvictionPolicySpec) { s.NodeLock.StateLabel = "k8s.io/x" }, []string{"spec.nodeLock.stateLabel"}},
		"a label of Usher's":     {func(s *v1alpha1.EvictionPolicySpec) { s.NodeLock.StateLabel = "usher.sh/drain" }, []string{"spec.nodeLock.stateLabel"}},
		"a label of everyone's":  {func(s *v1alpha1.EvictionPolicySpec) { s.NodeLock.StateLabel = "zone" }, []string{"spec.nodeLock.stateLabel"}},
		"no label":               {func(s *v1alpha1.EvictionPolicySpec) { s.NodeLock.StateLabel = "example.com/a b" }, []string{"spec.nodeLock.stateLabel"}},
		"locks of Kubernetes'":   {func(s *v1alpha1.EvictionPolicySpec) { s.NodeLock.LockPrefix = "lock.node.kubernetes.io" }, []string{"spec.nodeLock.lockPrefix"}},
		"no domain":              {func(s *v1alpha1.EvictionPolicySpec) { s.NodeLock.LockPrefix = "lock.example.com/a" }, []string{"spec.nodeLock.lockPrefix"}},
		"holders after the one":  {after(0, "router"), []string{"spec.members[0].leavesAfter"}},
		"a domain that ends so":  {change: func(s *v1alpha1.EvictionPolicySpec) { s.NodeLock.LockPrefix = "notk8s.io" }},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := Compile(locked(c.change), toyRoles(), toyDeclared)
			var got []string
			for _, problem := range problems {
				got = append(got, problem.Path)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: %v", diff, problems)
			}
		})
	}
}

func TestNewHoldersAskForANodeWhoseWaiterServes(t *testing.T) {
	serves := corev1.NodeSelectorRequirement{Key: stateLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{"False"}}
	zone := corev1.NodeSelectorRequirement{Key: "zone", Operator: corev1.NodeSelectorOpExists}
	name := corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"node-a"}}
	own := func(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
	}
	both := func(fields []corev1.NodeSelectorRequirement, expressions ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: expressions, MatchFields: fields}
	}
	fields := []corev1.NodeSelectorRequirement{name}
	for title, c := range map[string]struct {
		role string
		own  *corev1.Affinity
		want []corev1.NodeSelectorTerm
	}{
		"it asks for nothing":         {role: "store", want: []corev1.NodeSelectorTerm{both(nil, serves)}},
		"it has an affinity to pods":  {role: "store", own: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}}, want: []corev1.NodeSelectorTerm{both(nil, serves)}},
		"it prefers nodes":            {role: "store", own: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}, want: []corev1.NodeSelectorTerm{both(nil, serves)}},
		"each of its terms":           {role: "store", own: own(both(nil, zone), both(fields)), want: []corev1.NodeSelectorTerm{both(nil, zone, serves), both(fields, serves)}},
		"it asks for it already":      {role: "store", own: own(both(fields, serves))},
		"one of its terms does":       {role: "store", own: own(both(fields, serves), both(nil, zone)), want: []corev1.NodeSelectorTerm{both(fields, serves), both(nil, zone, serves)}},
		"a term that selects nothing": {role: "store", own: own(corev1.NodeSelectorTerm{})},
		"the waiter itself":           {role: "router"},
		"a role without a part in it": {role: "single"},
	} {
		t.Run(title, func(t *testing.T) {
			policies := []Declared{{Key: snapshot.Key{Namespace: "shop", Name: "db"}, Policy: compiled(t, locked())}}
			before := c.own.DeepCopy()
			got := RequiredAffinity(&Claims(policies, toyPod("p0", c.role))[0], c.own)
			var terms []corev1.NodeSelectorTerm
			if got != nil {
				terms = got.NodeSelectorTerms
			}
			if diff := cmp.Diff(c.want, terms); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, c.own); diff != "" {
				t.Errorf("what the pod asks for was changed: %s", diff)
			}
		})
	}
}
