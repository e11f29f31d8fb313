package eviction

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// cluster is the truth behind two replicas of the webhook, a manager that tidies, and a database that works with all of
// its three members or with one fewer.
type cluster struct {
	policy  *Policy
	now     time.Time
	status  *v1alpha1.EvictionPolicyStatus
	version int
	pods    []*snapshot.Pod
	flight  map[types.UID]time.Time // evictions that were let through and that the apiserver has not ended
	serial  int
	replica [2]view
}

// view is what a replica believes.
type view struct {
	status   *v1alpha1.EvictionPolicyStatus
	version  int
	pods     []*snapshot.Pod
	evidence *Evidence
}

func newCluster(policy *Policy) *cluster {
	c := &cluster{policy: policy, now: noon, status: &v1alpha1.EvictionPolicyStatus{}, flight: map[types.UID]time.Time{}}
	for i := range 3 {
		c.pods = append(c.pods, toyPod(fmt.Sprintf("s%d", i), "store"))
	}
	for i := range c.replica {
		c.replica[i] = view{status: c.status, pods: slices.Clone(c.pods)}
	}
	return c
}

// up are the members that run and are not about to end.
func (c *cluster) down() (count int) {
	for _, pod := range c.pods {
		if _, let := c.flight[pod.UID]; let || pod.Terminating() {
			count++
		}
	}
	return count + 3 - len(c.pods)
}

func (c *cluster) write(actions []Action, version int) bool {
	for i := range actions {
		if actions[i].Status == nil {
			continue
		}
		if actions[i].Version != strconv.Itoa(version) || version != c.version {
			return false
		}
		c.status, c.version = actions[i].Status, c.version+1
	}
	return true
}

func (c *cluster) declared(v *view) Declared {
	return Declared{Key: snapshot.Key{Namespace: "shop", Name: "db"}, Version: strconv.Itoa(v.version), Policy: c.policy, Status: v.status}
}

// ask evicts a pod by a replica, which writes on what it believes.
func (c *cluster) ask(v *view, pod *snapshot.Pod) {
	in := AdmissionInput{Input: Input{
		Now: c.now, Pod: pod, Policies: []Declared{c.declared(v)}, Evidence: v.evidence, Peers: v.pods,
	}, Verb: VerbEvict, User: "alice"}
	got := Admit(in)
	if got.Allow && c.write(got.Actions, v.version) && got.Note.Kind != AlreadyLeaving {
		c.flight[pod.UID] = c.now
	}
}

// observe asks the database: a member may go while all are up. The replica takes its epoch before.
func (c *cluster) observe(v *view, epoch int64) {
	members := map[string]Facts{}
	for i := range 3 {
		members[fmt.Sprintf("m-s%d", i)] = Facts{"drained": c.down() == 0, "shards": []string{}}
	}
	v.evidence = &Evidence{Observed: c.now, Epoch: epoch, System: Facts{"leader": "none"}, Members: members}
}

func (c *cluster) tidy(v *view) {
	in := TidyInput{Now: c.now, Policy: c.declared(v), Pods: v.pods, WantedKnown: true}
	in.Policy.Status, in.Policy.Version = c.status, strconv.Itoa(c.version) // read live, and then the pods
	in.Sights = map[types.UID]Sight{}
	for _, doubt := range Tidy(in).Confirm {
		in.Sights[doubt.UID] = c.sight(doubt.UID)
	}
	c.write(Tidy(in).Actions, c.version)
}

func (c *cluster) sight(uid types.UID) Sight {
	for _, pod := range c.pods {
		switch {
		case pod.UID == uid && pod.Terminating():
			return SeenTerminating
		case pod.UID == uid:
			return SeenStaying
		}
	}
	return SeenGone
}

// land ends an eviction in flight: the pod begins to terminate, or a budget refuses it.
func (c *cluster) land(uid types.UID, taken bool) {
	delete(c.flight, uid)
	for i, pod := range c.pods {
		if pod.UID == uid && taken {
			dying := *pod
			dying.Deletion = c.now.Add(30 * time.Second)
			c.pods[i] = &dying
		}
	}
}

// comeBack ends a terminating pod; its controller makes it anew.
func (c *cluster) comeBack(index int) {
	if !c.pods[index].Terminating() {
		return
	}
	c.serial++
	pod := toyPod(c.pods[index].Name, "store")
	pod.UID = types.UID(fmt.Sprintf("%s-%d", pod.Name, c.serial))
	c.pods[index] = pod
}

// TestPropertyNeverTwo lets two replicas with stale beliefs answer, and looks at the truth: never more than one member is
// on its way.
func TestPropertyNeverTwo(t *testing.T) {
	policy := compiled(t, toySpec())
	let := 0
	for range 20 {
		rapid.Check(t, func(t *rapid.T) { histories(t, newCluster(policy), &let) })
	}
	if let == 0 {
		t.Error("nobody was ever let through: the test says nothing")
	}
}

func histories(t *rapid.T, c *cluster, let *int) {
	one := func(label string) *view { return &c.replica[rapid.IntRange(0, 1).Draw(t, label)] }
	t.Repeat(map[string]func(*rapid.T){
		"ask": func(t *rapid.T) {
			v := one("asked")
			c.ask(v, v.pods[rapid.IntRange(0, 2).Draw(t, "pod")])
			*let = max(*let, len(c.flight))
		},
		"status is seen": func(*rapid.T) { v := one("sees status"); v.status, v.version = c.status, c.version },
		"pods are seen":  func(*rapid.T) { v := one("sees pods"); v.pods = slices.Clone(c.pods) },
		"observe":        func(*rapid.T) { v := one("observes"); c.observe(v, v.status.Epoch) },
		"tidy":           func(*rapid.T) { c.tidy(one("tidies")) },
		"time passes": func(t *rapid.T) {
			c.now = c.now.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "seconds")) * time.Second)
			for uid, since := range c.flight {
				if c.now.Sub(since) > time.Minute { // the apiserver has given the request up
					c.land(uid, false)
				}
			}
		},
		"land": func(t *rapid.T) {
			for _, pod := range c.pods {
				if _, flying := c.flight[pod.UID]; flying {
					c.land(pod.UID, rapid.Bool().Draw(t, "taken"))
				}
			}
		},
		"come back": func(t *rapid.T) { c.comeBack(rapid.IntRange(0, 2).Draw(t, "pod")) },
		"": func(t *rapid.T) {
			if c.down() > 1 {
				t.Fatalf("%d members are on their way", c.down())
			}
		},
	})
}
