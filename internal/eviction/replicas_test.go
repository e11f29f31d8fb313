package eviction

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"

	"usher.sh/usher/internal/expression"
)

// cluster is the truth behind two replicas of the webhook, a manager that tidies, and a database that works with all of
// its three members or with one fewer.
type cluster struct {
	policy  *Policy
	now     time.Time
	status  *v1alpha1.EvictionPolicyStatus
	version int
	pods    []*snapshot.Pod
	flight  map[request]time.Time // evictions that were let through and that the apiserver has not ended
	serial  int
	letBy   letBy
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
	c := &cluster{policy: policy, now: noon, status: &v1alpha1.EvictionPolicyStatus{}, flight: map[request]time.Time{}}
	for i := range 3 {
		c.pods = append(c.pods, toyPod(fmt.Sprintf("s%d", i), "store"))
	}
	for i := range c.replica {
		c.replica[i] = view{status: c.status, pods: slices.Clone(c.pods)}
	}
	return c
}

// down counts the members that are on their way or away.
func (c *cluster) down() (count int) {
	for _, pod := range c.pods {
		if c.flies(pod.UID) || pod.Terminating() {
			count++
		}
	}
	return count + 3 - len(c.pods)
}

func (c *cluster) flies(uid types.UID) bool {
	for flight := range c.flight {
		if flight.uid == uid {
			return true
		}
	}
	return false
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
	return Declared{Key: snapshot.Key{Namespace: "shop", Name: "db"}, Version: strconv.Itoa(v.version), Policy: c.policy, Status: v.status, Held: true}
}

// ask evicts a pod by a replica, which writes on what it believes. It reports whether that was let through.
func (c *cluster) ask(v *view, pod *snapshot.Pod, user string) bool {
	in := AdmissionInput{Input: Input{
		Now: c.now, Pod: pod, Policies: []Declared{c.declared(v)}, Evidence: v.evidence, Peers: v.pods,
	}, Verb: VerbEvict, User: user, Self: []string{"usher"}}
	got := Admit(in)
	if !got.Allow || !c.write(got.Actions, v.version) || got.Note.Kind == AlreadyLeaving {
		return false
	}
	c.serial++
	c.flight[request{pod.UID, user, c.serial}] = c.now
	c.letBy = letBy{before: v.status, written: written(got.Actions)}
	return true
}

// request is an eviction under way. One that was not answered may be, while another of the same user is.
type request struct {
	uid    types.UID
	user   string
	number int
}

// letBy is what the last request was let through by.
type letBy struct {
	before, written *v1alpha1.EvictionPolicyStatus
}

func written(actions []Action) *v1alpha1.EvictionPolicyStatus {
	for i := range actions {
		if actions[i].Kind == Permit {
			return actions[i].Status
		}
	}
	return &v1alpha1.EvictionPolicyStatus{}
}

// syncStatus and syncPods let a replica see what is true now.
func (c *cluster) syncStatus(v *view) { v.status, v.version = c.status, c.version }
func (c *cluster) syncPods(v *view)   { v.pods = slices.Clone(c.pods) }

// refused ends the last eviction of Usher's own by a budget: it takes the permit back at once.
func (c *cluster) refused(uid types.UID) {
	delete(c.flight, request{uid, "usher", c.serial})
	declared := Declared{Version: strconv.Itoa(c.version), Status: c.status}
	if action, ok := RevokePermit(declared, c.letBy.before, c.letBy.written, uid, c.now); ok {
		c.write([]Action{action}, c.version)
	}
}

// observe asks the database: a member may go while all are up. Of evictions in flight a database knows nothing. The replica
// takes its epoch before.
func (c *cluster) observe(v *view, epoch int64) {
	members := map[string]expression.Facts{}
	whole := !slices.ContainsFunc(c.pods, (*snapshot.Pod).Terminating)
	for i := range 3 {
		members[fmt.Sprintf("m-s%d", i)] = expression.Facts{"drained": whole, "shards": []string{}}
	}
	v.evidence = &Evidence{Observed: c.now, Epoch: epoch, System: expression.Facts{"leader": "none"}, Members: members}
}

func (c *cluster) tidy(v *view) {
	in := StatusInput{Now: c.now, Policy: c.declared(v), Pods: v.pods, WantedKnown: true}
	in.Policy.Status, in.Policy.Version = c.status, strconv.Itoa(c.version) // read live, and then the pods
	in.Presences = map[types.UID]PodPresence{}
	for _, doubt := range LiveReads(in) {
		in.Presences[doubt.UID] = c.sight(doubt.UID)
	}
	c.write(ReconcileStatus(in).Actions, c.version)
}

func (c *cluster) sight(uid types.UID) PodPresence {
	for _, pod := range c.pods {
		switch {
		case pod.UID == uid && pod.Terminating():
			return SeenTerminating
		case pod.UID == uid && pod.Ready:
			return SeenReady
		case pod.UID == uid:
			return SeenStaying
		}
	}
	return SeenGone
}

// land ends an eviction in flight: the pod begins to terminate, or a budget refuses it.
func (c *cluster) land(flight request, taken bool) {
	delete(c.flight, flight)
	for i, pod := range c.pods {
		if pod.UID == flight.uid && taken {
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
		t.Error("no eviction was ever let through: the test shows nothing")
	}
}

func histories(t *rapid.T, c *cluster, let *int) {
	one := func(label string) *view { return &c.replica[rapid.IntRange(0, 1).Draw(t, label)] }
	t.Repeat(map[string]func(*rapid.T){
		"ask": func(t *rapid.T) {
			v, user := one("asked"), rapid.SampledFrom([]string{"alice", "usher"}).Draw(t, "user")
			pod := v.pods[rapid.IntRange(0, 2).Draw(t, "pod")]
			if rapid.Bool().Draw(t, "observes first") {
				c.observe(v, v.status.Epoch)
			}
			if c.ask(v, pod, user) && user == "usher" && rapid.Bool().Draw(t, "refused by a budget") {
				c.refused(pod.UID)
			}
			*let = max(*let, len(c.flight))
		},
		"status is seen": func(*rapid.T) { c.syncStatus(one("sees status")) },
		"pods are seen":  func(*rapid.T) { c.syncPods(one("sees pods")) },
		"all is seen": func(*rapid.T) {
			v := one("sees all")
			c.syncStatus(v)
			c.syncPods(v)
			c.observe(v, v.status.Epoch)
		},
		"observe": func(*rapid.T) { v := one("observes"); c.observe(v, v.status.Epoch) },
		"tidy":    func(*rapid.T) { c.tidy(one("tidies")) },
		"time passes": func(t *rapid.T) {
			c.now = c.now.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "seconds")) * time.Second)
			for flight, since := range c.flight {
				if c.now.Sub(since) > time.Minute { // the apiserver has given the request up
					c.land(flight, false)
				}
			}
		},
		"land": func(t *rapid.T) {
			flying := slices.SortedFunc(maps.Keys(c.flight), func(a, b request) int { return a.number - b.number })
			for _, flight := range flying {
				c.land(flight, rapid.Bool().Draw(t, "taken"))
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
