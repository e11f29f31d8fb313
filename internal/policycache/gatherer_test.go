package policycache

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/rest"
)

// counted is a system that says what it is asked about.
type counted struct{ asked int }

func (s *counted) Observe(_ context.Context, members []system.Member) (*eviction.Evidence, error) {
	s.asked++
	said := &eviction.Evidence{Members: map[string]expression.Facts{}}
	for _, m := range members {
		said.Members[m.ID] = expression.Facts{"role": m.Role}
	}
	return said, nil
}

func (s *counted) Prepare(context.Context, eviction.Preparation) (eviction.Job, error) {
	return eviction.Job{}, nil
}

func (s *counted) Undo(context.Context, eviction.Preparation) (eviction.Undone, error) {
	return eviction.Undone{Done: true}, nil
}
func (s *counted) Close() {}

type setting struct {
	store    client.Client
	system   *counted
	gatherer *Gatherer
}

func newSetting(t *testing.T, objects ...client.Object) *setting {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	s := &setting{system: &counted{}}
	s.store = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&corev1.Pod{}, LeavingIndex, IndexLeaving).Build()
	kind := rest.Kind()
	kind.Open = func(*v1alpha1.System, system.Access) (system.System, error) { return s.system, nil }
	kinds := func(*v1alpha1.System) (system.Kind, bool) { return kind, true }
	policyCache := New(s.store, kinds, nil)
	observer := NewObserver(ObserverConfig{Kind: kinds, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	s.gatherer = &Gatherer{Policies: policyCache, Observer: observer, Live: s.store, Now: time.Now}
	return s
}

func (s *setting) input(t *testing.T, pod string) eviction.Input {
	t.Helper()
	found, _, err := s.gatherer.Pod(t.Context(), snapshot.Key{Namespace: "db", Name: pod})
	if err != nil || found == nil {
		t.Fatalf("pod %s: %v", pod, err)
	}
	in, err := s.gatherer.Input(t.Context(), Subject{Pod: found})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func newPod(name, app string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: name, UID: types.UID(name), Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{NodeName: "n1"},
	}
	for _, f := range change {
		f(pod)
	}
	return pod
}

func terminating(pod *corev1.Pod) {
	pod.DeletionTimestamp, pod.Finalizers = &metav1.Time{Time: time.Now()}, []string{"test/held"}
}

func newPolicy(name, app string, rules ...v1alpha1.Rule) *v1alpha1.EvictionPolicy {
	return &v1alpha1.EvictionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: name, UID: types.UID(name), Generation: 1},
		Spec: v1alpha1.EvictionPolicySpec{
			System:  v1alpha1.System{HTTP: &v1alpha1.HTTP{Access: v1alpha1.Access{Endpoints: []string{"http://db"}}}},
			Members: []v1alpha1.MemberSelector{{Role: "node", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}},
			Roles: []v1alpha1.Role{{
				Name: "node", System: "http", State: v1alpha1.StatePersistent, Identity: v1alpha1.IdentityUnique,
				Evict: v1alpha1.Evict{Rules: rules}, Replace: v1alpha1.Replace{Successor: v1alpha1.SuccessorNewIdentity},
			}},
		},
	}
}

var rule = v1alpha1.Rule{Name: "r", Reason: "R", Expression: "member.role != ''", Message: "no"}

func TestInput(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	policy := newPolicy("db", "db", rule)
	policy.Status.Leaving = []v1alpha1.Leaving{{MemberRef: v1alpha1.MemberRef{PodName: "db-1", PodUID: "db-1"}}}
	policy.Status.Preparations = []v1alpha1.PreparationStatus{{MemberRef: v1alpha1.MemberRef{PodName: "gone", PodUID: "old"}}, {MemberRef: v1alpha1.MemberRef{PodName: "db-2", PodUID: "db-2"}}}
	s := newSetting(t, node, policy, newPolicy("free", "free"),
		newPod("db-0", "db"), newPod("db-1", "db", terminating), newPod("db-2", "db"), newPod("db-3", "db"), newPod("db-4", "db", terminating),
		newPod("free-0", "free"), newPod("stranger", "cron"))

	in := s.input(t, "db-0")
	if in.Node == nil || len(in.Policies) != 2 || in.Now.IsZero() {
		t.Errorf("input %+v lacks the node, a policy or the time", in)
	}
	var peers []string
	for _, peer := range in.Peers {
		peers = append(peers, peer.Name)
	}
	slices.Sort(peers)
	if diff := cmp.Diff([]string{"db-1", "db-2", "db-4"}, peers); diff != "" {
		t.Errorf("peers: %s", diff)
	}
	want := map[string]expression.Facts{}
	for _, id := range []string{"db-0", "db-1", "db-2", "db-3", "db-4"} {
		want[id] = expression.Facts{"role": "node"}
	}
	if diff := cmp.Diff(want, in.Evidence.Members); diff != "" {
		t.Errorf("members: %s", diff)
	}
	if s.input(t, "db-3"); s.system.asked != 1 {
		t.Errorf("the system was asked %d times for two verdicts in a row", s.system.asked)
	}
	if in := s.input(t, "free-0"); in.Evidence != nil || s.system.asked != 1 {
		t.Error("the system was asked about a member that may always go")
	}
	if in := s.input(t, "stranger"); in.Evidence != nil || in.Node != nil || in.Peers != nil || s.system.asked != 1 {
		t.Errorf("a pod that no policy claims has %+v", in)
	}
}

// Of a node's locks the cache may show what was there before, and nothing of those with long values.
func TestAWaitersNodeIsReadAfresh(t *testing.T) {
	waits := newPolicy("db", "db", rule)
	waits.Spec.NodeLock = &v1alpha1.NodeLock{StateLabel: "example.com/state", LockPrefix: "lock.example.com", Waiter: "node"}
	s := newSetting(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, waits, newPolicy("free", "free"), newPod("db-0", "db"), newPod("free-0", "free"))
	locked := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{
		"lock.example.com/a": "", "lock.example.com/b": strings.Repeat("x", 2000),
	}}}
	s.gatherer.Live = newSetting(t, locked).store
	for _, c := range []struct {
		pod   string
		fresh bool
		want  []string
	}{{"db-0", true, []string{"lock.example.com/a", "lock.example.com/b"}}, {"db-0", false, nil}, {"free-0", true, nil}} {
		pod, _, err := s.gatherer.Pod(t.Context(), snapshot.Key{Namespace: "db", Name: c.pod})
		if err != nil {
			t.Fatal(err)
		}
		in, err := s.gatherer.Input(t.Context(), Subject{Pod: pod, FreshMembers: c.fresh})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, in.Node.Locks("lock.example.com")); diff != "" {
			t.Errorf("%s, afresh %t: %s", c.pod, c.fresh, diff)
		}
	}
}

func TestTheCachePrefersWhatAWriteHasReturned(t *testing.T) {
	policy := newPolicy("db", "db", rule)
	policy.ResourceVersion = "10"
	s := newSetting(t, policy)
	policyCache := s.gatherer.Policies
	at := func(version string) *v1alpha1.EvictionPolicy {
		other := policy.DeepCopy()
		other.ResourceVersion = version
		return other
	}
	known := func() string {
		t.Helper()
		policies, err := policyCache.Policies(t.Context(), "db")
		if err != nil {
			t.Fatal(err)
		}
		return policies[0].ResourceVersion
	}
	for _, step := range []struct{ learned, want string }{{"", "10"}, {"9", "10"}, {"12", "12"}, {"11", "12"}, {"100", "100"}} {
		if step.learned != "" {
			policyCache.Observe(at(step.learned))
		}
		if got := known(); got != step.want {
			t.Errorf("after version %q: version %s, want %s", step.learned, got, step.want)
		}
	}
	policyCache.forget(policy.UID)
	if got := known(); got != "10" {
		t.Errorf("version %s of a policy that was forgotten", got)
	}
}

// After a restore of the cluster's etcd what a write has returned never comes, and every version from then on is older.
func TestTheCacheForgetsWhatARestoreHasLost(t *testing.T) {
	policy := newPolicy("db", "db", rule)
	policy.ResourceVersion = "10"
	s := newSetting(t, policy)
	policyCache := s.gatherer.Policies
	lost, newest := policy.DeepCopy(), policy.DeepCopy()
	lost.ResourceVersion, newest.ResourceVersion = "900", "11"
	policyCache.Observe(lost)
	policyCache.written[policy.UID] = writtenPolicy{lost, time.Now().Add(-writtenLife)}
	if got := policyCache.latest(policy).ResourceVersion; got != "10" {
		t.Errorf("version %s is preferred for ever", got)
	}
	policyCache.written[policy.UID] = writtenPolicy{lost, time.Now().Add(-writtenLife)}
	policyCache.Observe(newest)
	if got := policyCache.latest(policy).ResourceVersion; got != "11" {
		t.Errorf("version %s: what a write returns after the restore is not learned", got)
	}
}

func TestAPolicyIsCompiledOncePerGeneration(t *testing.T) {
	s := newSetting(t)
	policy := newPolicy("db", "db", rule)
	first := s.gatherer.Policies.Compiled(policy)
	if s.gatherer.Policies.Compiled(policy) != first {
		t.Error("compiled again although nothing has changed")
	}
	policy.Generation++
	if s.gatherer.Policies.Compiled(policy) == first {
		t.Error("not compiled again although it has changed")
	}
}

// One may have got in while no webhook answered.
func TestAPolicyWhereNothingCanBeGoverned(t *testing.T) {
	s := newSetting(t)
	s.gatherer.Policies.Own = "usher-system"
	for namespace, reserved := range map[string]bool{"kube-system": true, "usher-system": true, "db": false} {
		policy := newPolicy("db", "db", rule)
		policy.Namespace, policy.UID = namespace, types.UID(namespace)
		problems := s.gatherer.Policies.Compiled(policy).Problems()
		if got := len(problems) == 1 && problems[0].Path == "metadata.namespace"; got != reserved {
			t.Errorf("%s: problems %v", namespace, problems)
		}
	}
}

func TestAPodThatIsGone(t *testing.T) {
	s := newSetting(t)
	pod, fresh, err := s.gatherer.Pod(t.Context(), snapshot.Key{Namespace: "db", Name: "x"})
	if pod != nil || !fresh || err != nil {
		t.Errorf("pod %v, fresh %t, %v", pod, fresh, err)
	}
	if err := s.gatherer.Refresh(t.Context(), snapshot.Key{Namespace: "db", Name: "x"}, "1"); err != nil {
		t.Errorf("a policy that is gone meanwhile: %v", err)
	}
}

// After a conflict a policy is read only where no later version is known than the refused one.
func TestRefresh(t *testing.T) {
	for name, c := range map[string]struct {
		cached, written, refused string
		want                     int // reads
	}{
		"the cache has a later one":        {cached: "7", refused: "5"},
		"this process has written a later": {cached: "5", written: "7", refused: "5"},
		"only the refused one is known":    {cached: "5", refused: "5", want: 1},
		"an earlier one is known":          {cached: "5", refused: "7", want: 1},
		"in any case":                      {cached: "7", want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSetting(t)
			policy := newPolicy("db", "db")
			policy.ResourceVersion = c.cached
			store := func() client.WithWatch {
				return fake.NewClientBuilder().WithScheme(s.store.Scheme()).WithObjects(policy).Build()
			}
			reads := 0
			g := &Gatherer{Policies: New(store(), nil, nil), Live: interceptor.NewClient(store(), interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
					reads++
					return c.Get(ctx, key, object, options...)
				},
			})}
			if c.written != "" {
				written := policy.DeepCopy()
				written.ResourceVersion = c.written
				g.Policies.Observe(written)
			}
			if err := g.Refresh(t.Context(), client.ObjectKeyFromObject(policy), c.refused); err != nil || reads != c.want {
				t.Errorf("%d reads, %v", reads, err)
			}
		})
	}
}
