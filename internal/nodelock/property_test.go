package nodelock

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
)

// world is one node with a waiter that may go and come back, holders, and another operator that locks the node, keeps its lock, takes off what is not its own and
// sets the label back.
type world struct {
	now     time.Time
	lock    *v1alpha1.NodeLock
	node    *snapshot.Node
	version int
	waiter  *Waiter // nil: it is gone
	holders []Holder
	made    int
	written Written
	asked   map[types.UID]bool
	stale   *snapshot.Node // what the cache shows; nil: what is
}

func newWorld(t *rapid.T) *world {
	w := &world{now: noon, lock: declared(), version: 100, node: node(""), asked: map[types.UID]bool{}}
	if rapid.Bool().Draw(t, "runs") { // a cloud that is adopted
		w.waiter = &Waiter{Node: "n1", Own: true, Ready: true}
		for range rapid.IntRange(0, 2).Draw(t, "holders") {
			w.add("router")
		}
	}
	return w
}

func (w *world) add(role string) {
	w.made++
	w.holders = append(w.holders, holder("h"+strconv.Itoa(w.made), role))
}

// write changes the node as a client does.
func (w *world) write(change func(labels, annotations map[string]string)) {
	w.version++
	next := *w.node
	next.Labels, next.Annotations = maps.Clone(w.node.Labels), maps.Clone(w.node.Annotations)
	next.ResourceVersion = strconv.Itoa(w.version)
	change(next.Labels, next.Annotations)
	w.node = &next
}

func (w *world) input() Input {
	shown := w.node
	if w.stale != nil {
		shown = w.stale
	}
	in := Input{
		Now: w.now, Policy: policy, Lock: w.lock, Nodes: []*snapshot.Node{shown}, Holders: slices.Clone(w.holders),
		Written: map[types.UID]Written{w.node.UID: w.written},
	}
	if w.waiter != nil {
		in.Waiters = []Waiter{*w.waiter}
	}
	return in
}

// look decides and carries out, unless the write is lost.
func (w *world) look(t *rapid.T, lost bool) Result {
	in := w.input()
	got := Decide(in)
	for i := range got.Writes {
		w.check(t, &in, &got.Writes[i])
		if lost || got.Writes[i].Node.ResourceVersion != w.node.ResourceVersion {
			continue // refused: nothing is known of it
		}
		w.write(func(labels, annotations map[string]string) {
			apply(labels, got.Writes[i].Labels)
			apply(annotations, got.Writes[i].Annotations)
		})
		w.written = Written{At: w.now, Version: w.node.ResourceVersion, Values: got.Writes[i].Values()}
	}
	w.asked = map[types.UID]bool{}
	for _, h := range got.Leave {
		w.asked[h.UID] = true
	}
	return got
}

func apply(to map[string]string, values map[string]*string) {
	for key, value := range values {
		if delete(to, key); value != nil {
			to[key] = *value
		}
	}
}

// check holds of every write: only the policy's own locks are touched, none of a holder that is there goes, and the label says nothing that is not so.
func (w *world) check(t *rapid.T, in *Input, write *Write) {
	there := map[string]bool{}
	for _, h := range in.Holders {
		there[prefix+"/"+snapshot.NodeLockName(policy, h.Role)] = true
	}
	for key, value := range write.Annotations {
		if snapshot.LockOwner(key) != snapshot.NodeLockOwner(policy) {
			t.Fatalf("%s is not the policy's lock", key)
		}
		if value == nil && there[key] {
			t.Fatalf("%s is taken off while its holder is there", key)
		}
	}
	for key, value := range write.Labels {
		switch {
		case key != state || value == nil || w.waiter == nil:
			t.Fatalf("label %s is written while the waiter is %+v", key, w.waiter)
		case *value == v1alpha1.NodeLockServes && (!w.waiter.Ready || w.waiter.Wanted || w.waiter.Leaves):
			t.Fatalf("the label says that the waiter serves: %+v", *w.waiter)
		case *value == v1alpha1.NodeLockLeaves && !w.waiter.Wanted && !w.waiter.Leaves:
			t.Fatalf("the label says that the waiter leaves: %+v", *w.waiter)
		}
	}
}

// mayGo is what package eviction asks of the waiter's node.
func (w *world) mayGo() bool {
	return w.node.Labels[state] == v1alpha1.NodeLockLeaves && len(w.node.Locks(prefix)) == 0 && len(w.holders) == 0
}

// actions are what may happen between two looks.
func (w *world) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"look":      func(t *rapid.T) { w.look(t, false) },
		"lose":      func(t *rapid.T) { w.look(t, true) },
		"time":      func(*rapid.T) { w.now = w.now.Add(17 * time.Second) },
		"restart":   func(*rapid.T) { w.written = Written{} }, // another process leads
		"lag":       func(*rapid.T) { w.stale = w.node },
		"catch up":  func(*rapid.T) { w.stale = nil },
		"want":      func(*rapid.T) { w.want(true) },
		"withdraw":  func(*rapid.T) { w.want(false) },
		"go":        func(*rapid.T) { w.goes() },
		"come back": func(*rapid.T) { w.comes() },
		"place": func(*rapid.T) { // as the scheduler does, by the affinity
			if w.node.Labels[state] == v1alpha1.NodeLockServes && len(w.holders) < 3 {
				w.add("hypervisor")
			}
		},
		"leave": func(*rapid.T) {
			w.holders = slices.DeleteFunc(w.holders, func(h Holder) bool { return w.asked[h.UID] })
		},
		"lock":     func(*rapid.T) { w.write(func(_, a map[string]string) { a[prefix+"/foreign"] = "" }) },
		"unlock":   func(*rapid.T) { w.write(func(_, a map[string]string) { delete(a, prefix+"/foreign") }) },
		"break":    func(*rapid.T) { w.write(func(_, a map[string]string) { delete(a, own) }) },
		"set back": func(*rapid.T) { w.write(func(l, _ map[string]string) { l[state] = v1alpha1.NodeLockServes }) },
	}
}

func (w *world) want(wanted bool) {
	if w.waiter != nil {
		w.waiter.Wanted = wanted
	}
}

func (w *world) goes() {
	if w.waiter != nil && w.waiter.Wanted && w.mayGo() {
		w.waiter = nil
	}
}

func (w *world) comes() {
	if w.waiter == nil {
		w.waiter = &Waiter{Node: "n1", Own: true}
		return
	}
	w.waiter.Ready = true
}

// whatever has happened, one look later that meets nothing in its way each holder is locked, and what is not as it should be has a name.
func (w *world) settled(t *rapid.T) {
	w.stale = nil
	got := w.look(t, false)
	contested := map[string]bool{}
	for i := range got.Blockers {
		contested[got.Blockers[i].Message] = true
	}
	for _, h := range w.holders {
		key := prefix + "/" + snapshot.NodeLockName(policy, h.Role)
		if _, locked := w.node.Annotations[key]; !locked && len(contested) == 0 {
			t.Fatalf("%s has no lock, and nothing says why", h.Pod)
		}
	}
	if value := w.node.Labels[state]; len(contested) == 0 && w.waiter != nil {
		if w.waiter.Wanted && value != v1alpha1.NodeLockLeaves || w.waiter.Ready && !w.waiter.Wanted && value != v1alpha1.NodeLockServes {
			t.Fatalf("the label is %q beside %+v, and nothing says why", value, *w.waiter)
		}
	}
}

func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		actions := w.actions()
		actions[""] = w.settled
		t.Repeat(actions)
	})
}

// Once it is wanted gone and the others do their part, the waiter goes, and nothing is written any more.
func TestTheWaiterGoesAtLast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		names := slices.Sorted(maps.Keys(w.actions()))
		for range rapid.IntRange(0, 40).Draw(t, "before") {
			w.actions()[rapid.SampledFrom(names).Draw(t, "action")](t)
		}
		w.comes()
		w.want(true)
		w.stale, w.now = nil, w.now.Add(time.Minute)
		w.write(func(_, a map[string]string) { delete(a, prefix+"/foreign") })
		for range 4 {
			w.look(t, false)
			w.actions()["leave"](t)
			w.goes()
			w.now = w.now.Add(time.Minute)
		}
		if w.waiter != nil {
			t.Fatalf("it stays: %s", fmt.Sprint(w.node.Labels, w.node.Annotations, w.holders))
		}
		if got := w.look(t, false); len(got.Writes) > 0 || w.node.Labels[state] != v1alpha1.NodeLockLeaves {
			t.Fatalf("after that: %+v on %v", got, w.node.Labels)
		}
	})
}
