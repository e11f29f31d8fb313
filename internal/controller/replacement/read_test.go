package replacement

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/replacement"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system/all"
)

func set(change ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
	s.Spec.Replicas = new(int32(3))
	s.Spec.Template.Labels = map[string]string{"app": "db"}
	for _, c := range change {
		c(s)
	}
	return s
}

func from(first int32) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: first} }
}

func TestMakes(t *testing.T) {
	for name, test := range map[string]struct {
		set  *appsv1.StatefulSet
		pod  string
		want replacement.Tristate
	}{
		"the first":             {set(), "db-0", replacement.Yes},
		"the last":              {set(), "db-2", replacement.Yes},
		"one too many":          {set(), "db-3", replacement.No},
		"another set's":         {set(), "db-x-0", replacement.No},
		"no ordinal":            {set(), "db", replacement.No},
		"before the first":      {set(from(5)), "db-4", replacement.No},
		"from a later first":    {set(from(5)), "db-7", replacement.Yes},
		"scaled to none":        {set(func(s *appsv1.StatefulSet) { s.Spec.Replicas = new(int32(0)) }), "db-0", replacement.No},
		"without a scale":       {set(func(s *appsv1.StatefulSet) { s.Spec.Replicas = nil }), "db-0", replacement.Yes},
		"a set that is deleted": {set(func(s *appsv1.StatefulSet) { s.DeletionTimestamp = &metav1.Time{} }), "db-0", replacement.No},
	} {
		if got := makes(test.set, test.pod); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// A member without a pod is found by what its set would make.
func TestMadeBy(t *testing.T) {
	called := func(name string) func(*snapshot.Pod) bool {
		return func(p *snapshot.Pod) bool { return p.Labels["app"] == "db" && p.Name == name }
	}
	if got := madeBy(set(from(3)), called("db-5")); got != "db-5" {
		t.Errorf("%q", got)
	}
	if got := madeBy(set(), called("db-5")); got != "" {
		t.Errorf("%q", got)
	}
}

// Of several entries with one role, the one that claims the member says what becomes of its volumes.
func TestProviderIsThatOfTheMembersEntry(t *testing.T) {
	roles, err := all.Roles()
	if err != nil {
		t.Fatal(err)
	}
	entry := func(app string, provider *v1alpha1.Provider) v1alpha1.MemberSelector {
		return v1alpha1.MemberSelector{Role: "replica", ID: "pod.name", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, Provider: provider}
	}
	goes := &v1alpha1.Provider{StatefulSet: &v1alpha1.StatefulSetProvider{VolumeClaims: v1alpha1.VolumeClaimsDelete}}
	policy := &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "db"}}
	policy.Spec.System.Kubernetes = &v1alpha1.Kubernetes{}
	policy.Spec.Members = []v1alpha1.MemberSelector{entry("cache", goes), entry("db", nil)}
	policies := policycache.New(nil, all.Kind, roles)
	for name, test := range map[string]struct {
		pod, made *corev1.Pod
		id        string
		want      *v1alpha1.Provider
		retains   bool
		blocked   bool
	}{
		"the first":                {pod: observe.MadePod(set(labelled("cache")), 0), id: "db-0", want: goes},
		"the second":               {pod: observe.MadePod(set(), 0), id: "db-0", retains: true},
		"one without a pod":        {made: observe.MadePod(set(labelled("cache")), 1), id: "db-1", want: goes},
		"another member":           {pod: observe.MadePod(set(), 0), id: "db-1", retains: true, blocked: true},
		"a pod of no policy":       {pod: observe.MadePod(set(labelled("web")), 0), id: "db-0", retains: true, blocked: true},
		"nothing says which it is": {id: "db-0", retains: true},
	} {
		l := &look{policy: policy, pod: test.pod, made: test.made, entryAt: -1}
		l.in.Member = v1alpha1.MemberRef{Role: "replica", ID: test.id}
		l.claimed(policies)
		if l.provider() != test.want || l.retains() != test.retains || len(l.in.Rules) > 0 != test.blocked {
			t.Errorf("%s: %+v, retains %t, %v", name, l.provider(), l.retains(), l.in.Rules)
		}
	}
}

func labelled(app string) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) { s.Spec.Template.Labels = map[string]string{"app": app} }
}

func TestHostOf(t *testing.T) {
	affinity := func(key string, operator corev1.NodeSelectorOperator, values ...string) *corev1.PersistentVolume {
		v := &corev1.PersistentVolume{}
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}},
		}}}}
		return v
	}
	for want, volume := range map[string]*corev1.PersistentVolume{
		"a": affinity(corev1.LabelHostname, corev1.NodeSelectorOpIn, "a"),
	} {
		if got := hostOf(volume); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for name, volume := range map[string]*corev1.PersistentVolume{
		"no affinity":   {},
		"a zone":        affinity(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, "a"),
		"several hosts": affinity(corev1.LabelHostname, corev1.NodeSelectorOpIn, "a", "b"),
		"not that host": affinity(corev1.LabelHostname, corev1.NodeSelectorOpNotIn, "a"),
	} {
		if got := hostOf(volume); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// How a member is followed by its successor goes by its policy, and once it has begun by what is written down.
func TestOrder(t *testing.T) {
	with := func(system v1alpha1.System) *v1alpha1.EvictionPolicy {
		return &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, Spec: v1alpha1.EvictionPolicySpec{System: system}}
	}
	etcd, arangodb := with(v1alpha1.System{Etcd: &v1alpha1.Etcd{}}), with(v1alpha1.System{ArangoDB: &v1alpha1.ArangoDB{}})
	silent, stepped := with(v1alpha1.System{HTTP: &v1alpha1.HTTP{}}), with(v1alpha1.System{HTTP: &v1alpha1.HTTP{Replace: &v1alpha1.ReplaceSteps{}}})
	waiting, begun := replacement.Progress{}, replacement.Progress{Phase: replacement.Removing}
	entered := replacement.Progress{Phase: replacement.Removing, Registration: &v1alpha1.MemberRegistration{ID: "db-0"}}
	left := entered
	left.LeftTime = time.Unix(1000, 0)
	for name, test := range map[string]struct {
		policy    *v1alpha1.EvictionPolicy
		progress  replacement.Progress
		successor v1alpha1.Successor
		want      replacement.Order
	}{
		"a member of etcd":                       {etcd, waiting, v1alpha1.SuccessorNewIdentity, replacement.LeavesFirst},
		"an agent":                               {arangodb, waiting, v1alpha1.SuccessorSameIdentity, ""},
		"a dbserver":                             {arangodb, waiting, v1alpha1.SuccessorNewIdentity, replacement.LeavesLast},
		"http that says nothing":                 {silent, waiting, v1alpha1.SuccessorSameIdentity, ""},
		"http, and another identity":             {stepped, waiting, v1alpha1.SuccessorNewIdentity, replacement.BySteps},
		"http, and the same identity":            {stepped, waiting, v1alpha1.SuccessorSameIdentity, replacement.BySteps},
		"http, and any pod":                      {stepped, waiting, v1alpha1.SuccessorAnyPod, replacement.BySteps},
		"begun without":                          {stepped, begun, v1alpha1.SuccessorSameIdentity, ""},
		"begun with etcd":                        {etcd, entered, "", replacement.LeavesFirst},
		"begun with steps":                       {stepped, entered, "", replacement.BySteps},
		"its steps were taken out of its policy": {silent, entered, "", ""},
		"its policy is gone":                     {nil, entered, "", replacement.LeavesFirst},
		"its policy is gone, and it has left":    {nil, left, "", replacement.BySteps},
	} {
		r := &reconciler{Options: Options{Gatherer: &policycache.Gatherer{Policies: policycache.New(nil, all.Kind, nil), Observer: policycache.NewObserver(policycache.ObserverConfig{Kind: all.Kind})}}}
		l := &look{policy: test.policy}
		if l.in.Progress = test.progress; test.successor != "" {
			l.role = &v1alpha1.Role{Replace: v1alpha1.Replace{Successor: test.successor}}
		}
		if got := r.order(l); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// A set that makes its pods in order makes none after one that is not Ready.
func TestEarlierPods(t *testing.T) {
	type change = func(*appsv1.StatefulSet, map[string]*corev1.Pod)
	for name, c := range map[string]struct {
		change change
		want   string
	}{
		"all are Ready":    {func(*appsv1.StatefulSet, map[string]*corev1.Pod) {}, ""},
		"one is not":       {func(_ *appsv1.StatefulSet, pods map[string]*corev1.Pod) { pods["db-1"].Status.Conditions = nil }, "db-1"},
		"one is not there": {func(_ *appsv1.StatefulSet, pods map[string]*corev1.Pod) { delete(pods, "db-0") }, "db-0"},
		"one is being deleted": {func(_ *appsv1.StatefulSet, pods map[string]*corev1.Pod) {
			pods["db-1"].DeletionTimestamp = &metav1.Time{Time: noon}
		}, "db-1"},
		"a later one is not": {func(_ *appsv1.StatefulSet, pods map[string]*corev1.Pod) { delete(pods, "db-3") }, ""},
		"it makes them all at once": {func(s *appsv1.StatefulSet, pods map[string]*corev1.Pod) {
			s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
			clear(pods)
		}, ""},
		"one before the first is not there": {func(s *appsv1.StatefulSet, pods map[string]*corev1.Pod) {
			from(1)(s)
			delete(pods, "db-0")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, pods := set(func(s *appsv1.StatefulSet) {
				s.Spec.Replicas, s.Spec.PodManagementPolicy = new(int32(4)), appsv1.OrderedReadyPodManagement
			}), map[string]*corev1.Pod{}
			for i := range 4 {
				pod := observe.MadePod(s, i)
				pod.Finalizers = []string{"held"}
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
				pods[pod.Name] = pod
			}
			c.change(s, pods)
			m := newMember(t, func(*member) {})
			objects := fake.NewClientBuilder()
			for _, pod := range pods {
				objects = objects.WithObjects(pod)
			}
			m.r.client = objects.Build()
			if got, err := m.r.after(t.Context(), s, 2); err != nil || got != c.want {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
		})
	}
}

// A kubelet whose clock is ahead dates its last sign of life ahead of it.
func TestRenewal(t *testing.T) {
	now := time.Date(2026, time.November, 29, 3, 0, 0, 0, time.UTC)
	lease := func(renewed time.Duration, written ...time.Duration) *coordinationv1.Lease {
		l := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: new(metav1.NewMicroTime(now.Add(renewed)))}}
		for _, w := range written {
			l.ManagedFields = append(l.ManagedFields, metav1.ManagedFieldsEntry{Time: new(metav1.NewTime(now.Add(w)))})
		}
		return l
	}
	for name, c := range map[string]struct {
		lease *coordinationv1.Lease
		want  time.Time
	}{
		"never renewed":         {&coordinationv1.Lease{}, time.Time{}},
		"renewed":               {lease(-time.Minute, -time.Second), now.Add(-time.Minute)},
		"ahead":                 {lease(time.Minute, -30*time.Second), now.Add(-30 * time.Second)},
		"… written by others":   {lease(time.Minute, -time.Hour, -30*time.Second), now.Add(-30 * time.Second)},
		"… written ahead":       {lease(time.Minute, time.Second), time.Time{}},
		"… written at no time":  {lease(time.Minute), time.Time{}},
		"… in the last instant": {lease(time.Millisecond, 0), now},
	} {
		t.Run(name, func(t *testing.T) {
			if got := renewal(c.lease, now); !got.Equal(c.want) {
				t.Errorf("renewed at %s, want %s", got, c.want)
			}
		})
	}
}
