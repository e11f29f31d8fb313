package histories

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/evictionrequest"
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

// TestExcuses checks what a wrong departure is excused by, and that a fault of Usher's beside it is not.
func TestExcuses(t *testing.T) {
	const late, early, before, after = 2 * time.Second, 20 * time.Second, -time.Millisecond, time.Millisecond
	letGo := func(d *departure) { d.safety.let["a"] = letAway{"m", time.Now()} }
	cases := []struct {
		name   string
		excuse func(*departure)
		beside string
		fault  func(*departure)
	}{
		{
			"admission is not asked", func(d *departure) { d.removal.excuse = "admission is not asked" },
			"it is asked", func(*departure) {},
		},
		{
			"its machine is off", func(d *departure) { d.machines["b"].lost, d.machines["b"].off = true, true },
			"it is lost", func(d *departure) { d.machines["b"].lost = true },
		},
		{
			"its pod is on no node", func(d *departure) { d.unbind(created) },
			"a process of it runs", func(d *departure) { d.unbind(runs) },
		},
		{
			"a person takes the responsibility", func(d *departure) { d.breakGlass("the disk is on fire") },
			"without a reason", func(d *departure) { d.breakGlass(" \n") },
		},
		{
			"another pod has the name by now", func(d *departure) { d.removal.judged = "another" },
			"the same one", func(*departure) {},
		},
		{
			"its kubelet had ended it before", func(d *departure) { d.ended(corev1.PodFailed) },
			"it runs", func(d *departure) { d.ended(corev1.PodRunning) },
		},
		{
			"its owner had it judged by another system", func(d *departure) { d.regime.lax["b"] = d.removal.began.Add(after) },
			"until the removal was sent", func(d *departure) { d.regime.lax["b"] = d.removal.began.Add(before) },
		},
		{
			"the replica has observed no policy that has it judged by its system", func(d *departure) { d.removal.newcomers = true },
			"it has", func(*departure) {},
		},
		{
			"a member is on its way that no policy claimed", func(d *departure) { d.strays(after) },
			"which was claimed when the system was observed", func(d *departure) { d.strays(before) },
		},
		{
			"a member that no policy claims is on its way", func(d *departure) { d.strays(after) },
			"it is not on its way", func(d *departure) { d.regime.stray["a"] = d.removal.began },
		},
		{
			"a member that no policy claims is away", func(d *departure) { d.isAway(after) },
			"which was claimed when the system was observed", func(d *departure) { d.isAway(before) },
		},
		{
			"a member that no policy claims has not begun", func(d *departure) { d.isAway(after); d.podLives["a"] = created },
			"it runs", func(d *departure) { d.isAway(after); d.podLives["a"] = runs },
		},
		{
			"a member that no policy claimed has left, and is not back", func(d *departure) {
				d.isNeeded(late, needed{cause: accident, by: "a", uid: "u"})
				d.removal.seen = []types.UID{"u"}
				d.regime.stray["a"] = d.removal.horizon.Add(after)
			},
			"one that was claimed when the system was observed", func(d *departure) {
				d.isNeeded(late, needed{cause: accident, by: "a", uid: "u"})
				d.removal.seen = []types.UID{"u"}
				d.regime.stray["a"] = d.removal.horizon.Add(before)
			},
		},
		{
			"an accident after the observation", func(d *departure) { d.isNeeded(late, needed{cause: accident}) },
			"before it", func(d *departure) { d.isNeeded(early, needed{cause: accident}) },
		},
		{
			"the system goes on after the observation", func(d *departure) { d.isNeeded(late, needed{cause: natural}) },
			"Usher let another go", func(d *departure) { d.isNeeded(late, needed{cause: ours}) },
		},
		{
			"an accident after the observation, and Usher let no other go", func(d *departure) { d.isNeeded(late, needed{cause: accident}) },
			"it did", func(d *departure) { d.isNeeded(late, needed{cause: accident}); letGo(d) },
		},
		{
			"an accident that the system reports late", func(d *departure) { d.system.lags = time.Minute; d.isNeeded(early, needed{cause: accident}) },
			"at once", func(d *departure) { d.isNeeded(early, needed{cause: accident}) },
		},
		{
			"the removal of another that was excused", func(d *departure) { d.isNeeded(early, needed{cause: accident, by: "a", uid: "u"}) },
			"the replica saw that one terminate", func(d *departure) {
				d.isNeeded(early, needed{cause: accident, by: "a", uid: "u"})
				d.removal.seen = []types.UID{"u"}
			},
		},
		{
			"the removal of another that was excused, after one of its name was seen to terminate", func(d *departure) {
				d.isNeeded(late, needed{cause: accident, by: "a", uid: "u"})
				d.removal.seen = []types.UID{"former"}
			},
			"it was that one", func(d *departure) {
				d.isNeeded(late, needed{cause: accident, by: "a", uid: "u"})
				d.removal.seen = []types.UID{"u"}
			},
		},
		{
			"an accident after the observation, and all that Usher let go have a permit", func(d *departure) {
				d.isNeeded(late, needed{cause: accident})
				d.crash(late)
				letGo(d)
				d.permit("a", "any")
			},
			"one has none", func(d *departure) {
				d.isNeeded(late, needed{cause: accident})
				d.crash(late)
				letGo(d)
			},
		},
		{
			"an accident after the observation, and all that Usher let go were away before", func(d *departure) {
				d.isNeeded(late, needed{cause: accident})
				d.crash(late)
				d.safety.let["a"], d.podLives["a"] = letAway{"m", d.removal.began.Add(-early)}, stopped
			},
			"a process of one runs", func(d *departure) {
				d.isNeeded(late, needed{cause: accident})
				d.crash(late)
				d.safety.let["a"], d.podLives["a"] = letAway{"m", d.removal.began.Add(-early)}, runs
			},
		},
		{
			"a crash after the observation, and a removal that the replica saw", func(d *departure) {
				d.isNeeded(late, needed{cause: ours, by: "a", uid: "u", crash: d.removal.began.Add(-late)})
				d.crash(late)
				d.removal.seen = []types.UID{"u"}
			},
			"the crash was before", func(d *departure) {
				d.isNeeded(late, needed{cause: ours, by: "a", uid: "u", crash: d.removal.began.Add(-early)})
				d.crash(late)
				d.removal.seen = []types.UID{"u"}
			},
		},
		{
			"a crash after the observation, and a removal that was excused and that the replica saw", func(d *departure) {
				d.isNeeded(late, needed{cause: accident, by: "a", uid: "u", crash: d.removal.began.Add(-late)})
				d.crash(late)
				d.removal.seen = []types.UID{"u"}
			},
			"the crash was before", func(d *departure) {
				d.isNeeded(late, needed{cause: accident, by: "a", uid: "u", crash: d.removal.began.Add(-early)})
				d.crash(late)
				d.removal.seen = []types.UID{"u"}
			},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := wrongDeparture(t)
			c.excuse(d)
			d.safety.letGo(d.world, d.removal, d.pod)
			d.check(t, false, "SAFETY", c.name)
			d = wrongDeparture(t)
			c.fault(d)
			d.safety.letGo(d.world, d.removal, d.pod)
			d.check(t, true, "SAFETY", c.beside)
		})
	}
}

// TestNewcomers checks when a replica cannot know that a pod is judged by its own system.
func TestNewcomers(t *testing.T) {
	stages := func(d *departure) { d.regime.staging = true }
	joins := func(d *departure) { d.createPolicy(secondPolicy) }
	cases := []struct {
		name          string
		before, after func(*departure) // the replica has observed policies
		want          bool
	}{
		{"another policy has come, and one speaks of another system", stages, joins, true},
		{"it had come before", func(d *departure) { stages(d); joins(d) }, func(*departure) {}, false},
		{"the one speaks of the same system", func(*departure) {}, joins, false},
		{"the one spoke of the same system", func(*departure) {}, func(d *departure) { stages(d); joins(d) }, true},
		{"the one speaks of the same system again", stages, func(d *departure) { d.regime.staging = false }, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := wrongDeparture(t)
			c.before(d)
			r := &replica{cache: newCache(d.store)}
			c.after(d)
			if got := d.newcomers(r, "b"); got != c.want {
				t.Errorf("newcomers: %v, want %v", got, c.want)
			}
		})
	}
}

// TestPermitExcuses checks what may leave without a permit.
func TestPermitExcuses(t *testing.T) {
	cases := []struct {
		name  string
		with  func(*departure)
		fails bool
	}{
		{"no permit", func(*departure) {}, true},
		{"a permit", func(d *departure) { d.permit("b", d.pod.UID) }, false},
		{"that of the pod before", func(d *departure) { d.permit("b", "another") }, true},
		{"that of another", func(d *departure) { d.permit("a", d.store.pod("a").UID) }, true},
		{"it is on no node", func(d *departure) { d.unbind(created) }, true},
		{"it is replaced, and Usher deletes it", func(d *departure) { d.replace("b"); d.removal.user, d.removal.delete = self, true }, false},
		{"it was replaced when Usher sent that", func(d *departure) { d.removal.replaced, d.removal.user, d.removal.delete = true, self, true }, false},
		{"it was replaced when a person sent that", func(d *departure) { d.removal.replaced, d.removal.delete = true, true }, true},
		{"it is replaced, and Usher evicts it", func(d *departure) { d.replace("b"); d.removal.user = self }, true},
		{"it is replaced, and a person deletes it", func(d *departure) { d.replace("b"); d.removal.delete = true }, true},
		{"another is replaced", func(d *departure) { d.replace("a"); d.removal.user, d.removal.delete = self, true }, true},
		{"excused otherwise", func(d *departure) { d.removal.excuse = "admission is not asked" }, false},
		{"another pod was judged", func(d *departure) { d.removal.judged = "another" }, false},
		{"clocks jump", func(d *departure) { d.odds.jumps = 1 }, false},
		{"clocks go well, all else does not", func(d *departure) { d.odds = odds{kills: 1, hangs: 1, lost: 1} }, true},
		{"a role without rules", func(d *departure) { d.system.free = true }, false},
		{"its policy has gone with its permit", func(d *departure) { d.forget("b", d.pod.UID, 0) }, false},
		{"and has come again", func(d *departure) { d.forget("b", d.pod.UID, 0); d.createPolicy(firstPolicy) }, false},
		{"its role settles in some time", func(d *departure) { d.forget("b", d.pod.UID, 0); d.system.quick = false }, true},
		{"the permit was for an earlier removal", func(d *departure) { d.forget("b", d.pod.UID, 2*time.Second) }, true},
		{"the permit was that of the pod before", func(d *departure) { d.forget("b", "another", 0) }, true},
		{"the permit was that of another", func(d *departure) { d.forget("a", d.store.pod("a").UID, 0) }, true},
		{"the policy had gone before", func(d *departure) {
			d.forget("b", d.pod.UID, -time.Minute)
			d.removal.began = time.Now().Add(time.Second)
		}, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := wrongDeparture(t)
			c.with(d)
			d.checkPermit(d.removal, d.pod)
			d.check(t, c.fails, "PERMIT", c.name)
		})
	}
}

// TestRefusedCallersExcuses checks when Usher may evict what callers were refused whose policy is gone.
func TestRefusedCallersExcuses(t *testing.T) {
	cases := []struct {
		name  string
		with  func(*departure)
		fails bool
	}{
		{"the policy was gone before", func(*departure) {}, true},
		{"it went later", func(d *departure) { d.regime.gone = d.removal.began.Add(time.Millisecond) }, false},
		{"it went while Usher looked", func(d *departure) { d.removal.looked = d.regime.gone.Add(-time.Millisecond) }, false},
		{"Usher began to look when it was gone", func(d *departure) { d.removal.looked = d.regime.gone.Add(time.Millisecond) }, true},
		{"it is there", func(d *departure) { d.createPolicy(secondPolicy) }, false},
		{"another evicts it", func(d *departure) { d.removal.user = "alice" }, false},
		{"a drain requests it too", func(d *departure) { d.request("drain", d.pod.UID, false) }, false},
		{"a drain requests another", func(d *departure) { d.request("drain", "another", false) }, true},
		{"a drain has withdrawn", func(d *departure) {
			request := d.request("drain", d.pod.UID, false)
			request.Spec.Intent = api.EvictionRequestIntentWithdrawn
			d.store.put(request)
		}, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := wrongDeparture(t)
			d.request("alice", d.pod.UID, true)
			d.deletePolicy(firstPolicy)
			d.regime.gone, d.removal.user = d.removal.began.Add(-time.Millisecond), self
			c.with(d)
			d.checkFires(d.removal, d.pod)
			d.check(t, c.fails, "FIRES", c.name)
		})
	}
}

// request has a client request an eviction, or admission in the name of a caller.
func (d *departure) request(requester string, pod types.UID, byAdmission bool) *api.EvictionRequest {
	request := evictionrequest.NewRequest(evictionrequest.Ref{Namespace: namespace, Name: "b", UID: pod}, requester+".example.com/x")
	if byAdmission {
		request.Annotations = map[string]string{evictionrequest.LastRequestTimeAnnotation: d.removal.began.UTC().Format(time.RFC3339)}
	}
	if err := d.store.create(request); err != nil {
		d.fail("SIMULATOR", "%v", err)
	}
	return duplicate(request)
}

// TestLabelExcuses checks when a label may be taken off.
func TestLabelExcuses(t *testing.T) {
	took := func(value string) []byte {
		return []byte(`{"metadata":{"uid":"u2","labels":{"` + v1alpha1.PolicyLabel + `":` + value + `}}}`)
	}
	cases := []struct {
		name  string
		with  func(*departure)
		body  []byte
		began bool
		fails bool
	}{
		{"a policy has guarded the pod since before", func(*departure) {}, took("null"), true, true},
		{"none did when it was looked at", func(d *departure) { d.regime.bare["b"] = d.removal.began.Add(time.Millisecond) }, took("null"), true, false},
		{"the label is written anew", func(*departure) {}, took(`"p"`), true, false},
		{"it is of another pod", func(d *departure) { d.store.drop(pods, keyOf(d.pod)) }, took("null"), true, false},
		{"no controller of Usher's does it", func(*departure) {}, took("null"), false, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := wrongDeparture(t)
			if d.pod.UID != "u2" {
				t.Fatalf("the pod is %s", d.pod.UID)
			}
			c.with(d)
			ctx := t.Context()
			if c.began {
				ctx = context.WithValue(ctx, beganKey, d.removal.began)
			}
			d.checkLabelGoes(ctx, pods, keyOf(d.pod), c.body)
			d.check(t, c.fails, "LABELS", c.name)
		})
	}
}
