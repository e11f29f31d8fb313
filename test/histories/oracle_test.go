package histories

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/evictionrequest"
)

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
			"its policy does not claim another that is let go by another policy", func(d *departure) { d.divide("a") },
			"it claims that one", func(d *departure) { d.divide("") },
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
