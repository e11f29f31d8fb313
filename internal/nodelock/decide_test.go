package nodelock

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

const (
	state  = "maintenance.example.com/agent"
	prefix = "lock.example.com"
)

var (
	noon   = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	policy = snapshot.Key{Namespace: "stack", Name: "neutron"}
	own    = prefix + "/" + snapshot.NodeLockName(policy, "router")
	other  = prefix + "/" + snapshot.NodeLockName(snapshot.Key{Namespace: "stack", Name: "nova"}, "router")
)

func declared() *v1alpha1.NodeLock {
	return &v1alpha1.NodeLock{StateLabel: state, LockPrefix: prefix, Holders: []string{"router", "hypervisor"}, Waiter: "agent"}
}

// node is one with a value of the label, "" for none, and locks.
func node(label string, locks ...string) *snapshot.Node {
	n := &snapshot.Node{Name: "n1", UID: "uid-n1", ResourceVersion: "100", Labels: map[string]string{"zone": "a"}, Annotations: map[string]string{"note": "x"}}
	if label != "" {
		n.Labels[state] = label
	}
	for _, lock := range locks {
		n.Annotations[lock] = ""
	}
	return n
}

func holder(name, role string) Holder {
	return Holder{Pod: snapshot.Key{Namespace: "stack", Name: name}, UID: types.UID("uid-" + name), Node: "n1", Role: role}
}

func emptied(h Holder) Holder {
	h.Emptied = true
	return h
}

func serves(change ...func(*Waiter)) Waiter {
	w := Waiter{Node: "n1", Own: true, Ready: true}
	for _, f := range change {
		f(&w)
	}
	return w
}

func wanted(w *Waiter)  { w.Wanted = true }
func idle(w *Waiter)    { w.Ready = false }
func leaves(w *Waiter)  { w.Leaves = true }
func foreign(w *Waiter) { w.Own = false }

// written is what the result writes on the node, "-" for what goes.
func written(result Result) map[string]string {
	all := map[string]string{}
	for i := range result.Writes {
		maps.Copy(all, result.Writes[i].Values())
	}
	return all
}

func TestWhatIsWritten(t *testing.T) {
	r1 := holder("r1", "router")
	for name, c := range map[string]struct {
		node    *snapshot.Node
		holders []Holder
		waiters []Waiter
		change  func(*Input)
		want    map[string]string
		leave   []Holder
	}{
		"a running cloud is adopted":                   {node: node(""), holders: []Holder{r1, holder("r2", "router")}, waiters: []Waiter{serves()}, want: map[string]string{state: "False", own: ""}},
		"nothing is to be done":                        {node: node("False", own), holders: []Holder{r1}, waiters: []Waiter{serves()}},
		"the waiter is wanted gone":                    {node: node("False", own), holders: []Holder{r1}, waiters: []Waiter{serves(wanted)}, want: map[string]string{state: "True"}},
		"the label says so, and holders are to leave":  {node: node("True", own), holders: []Holder{r1}, waiters: []Waiter{serves(wanted)}, leave: []Holder{r1}},
		"a holder is gone":                             {node: node("True", own, other), waiters: []Waiter{serves(wanted)}, want: map[string]string{own: "-"}},
		"the waiter is gone, and the label stays":      {node: node("True")},
		"it is back, and does no work yet":             {node: node("True"), waiters: []Waiter{serves(idle)}},
		"it does its work again":                       {node: node("True"), waiters: []Waiter{serves()}, want: map[string]string{state: "False"}},
		"it is not asked for any more":                 {node: node("True", own), holders: []Holder{r1}, waiters: []Waiter{serves()}, want: map[string]string{state: "False"}},
		"it does no work for a moment":                 {node: node("False", own), holders: []Holder{r1}, waiters: []Waiter{serves(idle)}},
		"it terminates, and no request stands":         {node: node("False", own), holders: []Holder{r1}, waiters: []Waiter{serves(leaves)}, want: map[string]string{state: "True"}},
		"a restart has no holder leave":                {node: node("True", own), holders: []Holder{r1}, waiters: []Waiter{serves(leaves, idle)}},
		"a pod that follows one that terminates":       {node: node("True"), waiters: []Waiter{serves(leaves), serves()}},
		"another's value is set right":                 {node: node("maybe"), waiters: []Waiter{serves()}, want: map[string]string{state: "False"}},
		"another policy's waiter beside it":            {node: node("False"), waiters: []Waiter{serves(), serves(foreign, wanted)}, want: map[string]string{state: "True"}},
		"that one does no work yet":                    {node: node("True"), waiters: []Waiter{serves(), serves(foreign, idle)}},
		"only another policy's waiter is there":        {node: node(""), waiters: []Waiter{serves(foreign)}},
		"a holder whose waiter is another operator's":  {node: node(""), holders: []Holder{r1}, change: func(in *Input) { in.Lock.Waiter = "" }, want: map[string]string{own: ""}},
		"which has it leave":                           {node: node("True", own), holders: []Holder{r1}, change: func(in *Input) { in.Lock.Waiter = "" }, leave: []Holder{r1}},
		"and sets that back":                           {node: node("False", own), holders: []Holder{r1}, change: func(in *Input) { in.Lock.Waiter = "" }},
		"one that is emptied is asked on":              {node: node("True", own), holders: []Holder{emptied(r1)}, waiters: []Waiter{serves(wanted)}, want: map[string]string{own: "-"}, leave: []Holder{emptied(r1)}},
		"a role that holds no more":                    {node: node("False", own), waiters: []Waiter{serves()}, want: map[string]string{own: "-"}},
		"another prefix":                               {node: node("False", "old.example.com/"+snapshot.NodeLockName(policy, "router")), holders: []Holder{r1}, waiters: []Waiter{serves()}, want: map[string]string{own: "", "old.example.com/" + snapshot.NodeLockName(policy, "router"): "-"}},
		"the policy is deleted":                        {node: node("False", own, other), holders: []Holder{r1}, waiters: []Waiter{serves()}, change: func(in *Input) { in.Lock = nil }, want: map[string]string{own: "-"}},
		"the last write is not seen yet":               {node: node(""), holders: []Holder{r1}, waiters: []Waiter{serves()}, change: lastWrote("101", noon, map[string]string{state: "False", own: ""})},
		"another has taken the lock off long ago":      {node: node("False"), holders: []Holder{r1}, waiters: []Waiter{serves()}, change: lastWrote("99", noon.Add(-time.Minute), map[string]string{own: ""}), want: map[string]string{own: ""}},
		"another has set the label back a moment ago":  {node: node("False"), waiters: []Waiter{serves(wanted)}, change: lastWrote("99", noon.Add(-time.Second), map[string]string{state: "True"})},
		"what was written before was something else":   {node: node("False"), waiters: []Waiter{serves(wanted)}, change: lastWrote("99", noon.Add(-time.Second), map[string]string{state: "False"}), want: map[string]string{state: "True"}},
		"a node of the name that was written is there": {node: node(""), waiters: []Waiter{serves()}, change: func(in *Input) { in.Written = map[types.UID]Written{"another": {At: noon, Version: "101"}} }, want: map[string]string{state: "False"}},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Now: noon, Policy: policy, Lock: declared(), Nodes: []*snapshot.Node{c.node}, Holders: c.holders, Waiters: c.waiters}
			if c.change != nil {
				c.change(&in)
			}
			got := Decide(in)
			want := c.want
			if want == nil {
				want = map[string]string{}
			}
			if diff := cmp.Diff(want, written(got)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.leave, got.Leave); diff != "" {
				t.Errorf("who is asked to leave: %s", diff)
			}
		})
	}
}

func lastWrote(version string, at time.Time, values map[string]string) func(*Input) {
	return func(in *Input) {
		in.Written = map[types.UID]Written{"uid-n1": {At: at, Version: version, Values: values}}
	}
}

// Two clients that contradict each other do not write as fast as they can, and it is said what is wrong.
func TestWhatAnotherChangesBackIsNamed(t *testing.T) {
	in := Input{Now: noon, Policy: policy, Lock: declared(), Nodes: []*snapshot.Node{node("False")}, Waiters: []Waiter{serves(wanted)}}
	lastWrote("99", noon.Add(-10*time.Second), map[string]string{state: "True"})(&in)
	got := Decide(in)
	want := []v1alpha1.NodeLockBlocker{{
		Node: "n1", Reason: ReasonContested,
		Message: state + ` of node n1 was set to "True", and another client has changed that; it is written again at 2026-11-21T12:00:20Z`,
		Remedy:  "see which client writes it, and have only one do so: kubectl get node n1 -o yaml --show-managed-fields",
	}}
	if diff := cmp.Diff(want, got.Blockers); diff != "" {
		t.Error(diff)
	}
	if !got.NextLook.Equal(noon.Add(20 * time.Second)) {
		t.Errorf("it is looked at again at %s", got.NextLook)
	}
	in.Nodes[0].ResourceVersion = "98"
	if got := Decide(in); got.Blockers != nil || got.Writes != nil {
		t.Errorf("a cache that is behind counts as another client: %+v", got)
	}
	in.Nodes[0].ResourceVersion = "100"
	in.Now = got.NextLook
	if diff := cmp.Diff(map[string]string{state: "True"}, written(Decide(in))); diff != "" {
		t.Errorf("by then: %s", diff)
	}
}
