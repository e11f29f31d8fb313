package histories

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
)

// threeMembers is a system of a, b and c, whose truth a test sets.
type threeMembers struct {
	site

	needs map[string]string // by pod: what would be lost
	disks map[string]string // by pod: what would be lost with its disk
	lags  time.Duration
	free  bool // its role has no rules
	quick bool // its role settles at once
	// scales: a ReplicaSet makes its pods. alone is what would be missing, by pod.
	scales bool
	alone  map[string]string
}

func (s *threeMembers) scaled() (role string, replicas int) {
	if !s.scales {
		return "", 0
	}
	return "m", 3
}
func (s *threeMembers) add(string)                  {}
func (s *threeMembers) drop(string)                 {}
func (s *threeMembers) wouldMiss(pod string) string { return s.alone[pod] }

func (s *threeMembers) members() []planned {
	return []planned{{pod: "a", role: "m"}, {pod: "b", role: "m"}, {pod: "c", role: "m"}}
}
func (s *threeMembers) wouldLose(pod string, _ []string) string { return s.needs[pod] }
func (s *threeMembers) wouldLoseDisk(pod string) string         { return s.disks[pod] }
func (s *threeMembers) wipe(string)                             {}
func (s *threeMembers) container(string) corev1.Container       { return corev1.Container{} }
func (s *threeMembers) sets() map[string]bool                   { return nil }
func (s *threeMembers) expelled(string) bool                    { return false }
func (s *threeMembers) lag(string) time.Duration                { return s.lags }
func (s *threeMembers) spec(bool) v1alpha1.EvictionPolicySpec {
	role := v1alpha1.Role{Name: "m", State: v1alpha1.StatePersistent, Evict: v1alpha1.Evict{Rules: []v1alpha1.Rule{{Name: "quorum"}}}}
	if s.free {
		role.Evict.Rules = nil
	}
	if s.quick {
		role.Evict.Settle = &metav1.Duration{}
	}
	return v1alpha1.EvictionPolicySpec{Roles: []v1alpha1.Role{role}}
}

// departure is the removal of b at the instant at which the apiserver lets it go.
type departure struct {
	*world

	system  *threeMembers
	removal *removal
	pod     *corev1.Pod
}

// wrongDeparture is one that Usher lets go although b has been needed for an hour, by what was observed 10 s before.
func wrongDeparture(t *testing.T) *departure {
	t.Helper()
	w := newWorld(t.Context(), 1)
	now := time.Now()
	system := &threeMembers{needs: map[string]string{"b": "no quorum"}}
	w.site = system
	for _, name := range []string{"a", "b", "c"} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{v1alpha1.PolicyLabel: firstPolicy}},
			Spec:       corev1.PodSpec{NodeName: "n-" + name, TerminationGracePeriodSeconds: new(int64(30))},
		}
		if err := w.store.create(pod); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range system.members() {
		if err := w.join(p.pod); err != nil {
			t.Fatal(err)
		}
	}
	w.createPolicy(firstPolicy)
	w.regime = newRegime() // the policy has always been there
	w.safety.needed["b"] = needed{since: now.Add(-time.Hour), what: "a has ended"}
	pod := w.store.pod("b")
	return &departure{world: w, system: system, pod: pod, removal: &removal{
		user: "alice", pod: "b", looked: now, began: now, judged: pod.UID, horizon: now.Add(-maxAge),
	}}
}

// permit has the policy's status say that a pod leaves.
func (d *departure) permit(name string, uid types.UID) {
	policy := duplicate(d.policy(firstPolicy))
	leaving := v1alpha1.Leaving{}
	leaving.PodName, leaving.PodUID = name, uid
	policy.Status.Leaving = append(policy.Status.Leaving, leaving)
	d.store.put(policy)
}

// divide has a second policy let a go, and the first one b, which it claims with all others but one.
func (d *departure) divide(without string) {
	d.isNeeded(2*time.Second, needed{cause: ours, by: "a", uid: "u"})
	d.permit("b", d.pod.UID)
	d.createPolicy(secondPolicy)
	d.regime.without = without
	second := duplicate(d.policy(secondPolicy))
	second.Status.Leaving = []v1alpha1.Leaving{{MemberRef: v1alpha1.MemberRef{PodName: "a", PodUID: "u"}}}
	d.store.put(second)
}

// forget has the policy go with a permit that was written so long ago.
func (d *departure) forget(name string, uid types.UID, ago time.Duration) {
	d.system.quick = true
	policy := duplicate(d.policy(firstPolicy))
	leaving := v1alpha1.Leaving{StartTime: metav1.NewTime(d.removal.began.Add(-ago).Truncate(time.Second))}
	leaving.PodName, leaving.PodUID = name, uid
	policy.Status.Leaving = append(policy.Status.Leaving, leaving)
	d.store.put(policy)
	d.deletePolicy(firstPolicy)
}

// replace has the policy's status say that a member is being replaced.
func (d *departure) replace(member string) {
	policy := duplicate(d.policy(firstPolicy))
	policy.Status.Replacing = []v1alpha1.Replacing{{ID: member}}
	d.store.put(policy)
}

// unbind has b be on no node.
func (d *departure) unbind(life life) {
	d.pod = duplicate(d.pod)
	d.pod.Spec.NodeName = ""
	d.store.put(d.pod)
	d.podLives["b"] = life
}

// isNeeded has b be needed since then.
func (d *departure) isNeeded(ago time.Duration, n needed) {
	n.since, n.what = d.removal.began.Add(-ago), "c was lost"
	d.safety.needed["b"] = n
}

func (d *departure) breakGlass(reason string) {
	d.pod = duplicate(d.pod)
	d.pod.Annotations = map[string]string{v1alpha1.BreakGlassAnnotation: reason}
}

func (d *departure) ended(phase corev1.PodPhase) {
	d.pod = duplicate(d.pod)
	d.pod.Status.Phase = phase
}

// crash has people or machines do something then.
func (d *departure) crash(ago time.Duration) { d.safety.accident = d.removal.began.Add(-ago) }

// strays has a be on its way, which a policy claims since then.
func (d *departure) strays(since time.Duration) {
	d.begins(d.store.pod("a"))
	d.regime.stray["a"] = d.removal.horizon.Add(since)
}

// isAway has a be away, which a policy claims since then.
func (d *departure) isAway(since time.Duration) {
	d.podLives["a"] = missing
	d.regime.stray["a"] = d.removal.horizon.Add(since)
}

// check reports whether exactly this property has failed, or none.
func (d *departure) check(t *testing.T, fails bool, property, what string) {
	t.Helper()
	if !fails && len(d.failures) > 0 {
		t.Errorf("%s: it is not excused: %v", what, d.failures)
	}
	if fails && (len(d.failures) != 1 || !strings.HasPrefix(d.failures[0], property+":")) {
		t.Errorf("%s: not a failure of %s: %q", what, property, d.failures)
	}
}
