package maintenance

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
)

// realNode has a name and ids as long as clouds give them.
func realNode(i int) *Node {
	n := node(fmt.Sprintf("ip-10-0-%03d-%03d.eu-central-1.compute.internal", i/250, i%250))
	n.UID = types.UID(fmt.Sprintf("01234567-89ab-cdef-0123-%012d", i))
	n.BootID = fmt.Sprintf("01234567-89ab-cdef-0123-%012d", i)
	return n
}

func entryFor(n *Node, step v1alpha1.MaintenanceStep) v1alpha1.MaintainedNode {
	return v1alpha1.MaintainedNode{Name: n.Name, UID: n.UID, Step: step, StartTime: metav1.NewTime(noon), StepTime: metav1.NewTime(noon), BootID: n.BootID, KubeletVersion: "v1.37.0"}
}

// lostData is a drain to which so many pods object.
func lostData(pods int) *Drain {
	objected := &Drain{Checks: true, Checked: true}
	for range pods {
		b := drain.Blocker{Reason: drain.LocalStorage, Message: "it has emptyDir volumes (cache), whose data is lost when it leaves the node", Remedy: "--delete-emptydir-data to accept that", Dead: true}
		b.Pod.Namespace, b.Pod.Name = "monitoring", "prometheus-agent-7d9c5b8f6-x2x7l"
		objected.Blockers = append(objected.Blockers, b)
	}
	return objected
}

func jsonSize(t interface{ Fatal(args ...any) }, value any) int {
	said, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return len(said)
}

// A maintenance of all nodes, at the side of one for each pool nothing of which may be touched, has entries for as many of them as another.
func TestStatusBesideOthersFits(t *testing.T) {
	const pools = 40
	for name, objected := range map[string]*Drain{"known to be objected to": lostData(mostBlockers), "a process leads that has looked at none": nil} {
		t.Run(name, func(t *testing.T) {
			all := maintenance("all")
			in := Input{Now: noon, Maintenances: []*v1alpha1.NodeMaintenance{all}, Drains: map[string]*Drain{}}
			for p := range pools {
				m := maintenance(fmt.Sprintf("pool-%02d", p), of())
				for i := range mostUntouched {
					n := realNode(p*mostUntouched + i)
					in.Nodes = append(in.Nodes, n)
					m.Spec.Nodes.Names = append(m.Spec.Nodes.Names, n.Name)
					m.Status.Nodes = append(m.Status.Nodes, entryFor(n, draining))
					if objected != nil {
						in.Drains[n.Name] = objected
					}
				}
				in.Maintenances = append(in.Maintenances, m)
			}
			for range 3 {
				for name, status := range Decide(in).Statuses {
					for _, m := range in.Maintenances {
						if m.Name == name {
							m.Status = *status
						}
					}
				}
			}
			if size := jsonSize(t, all.Status); len(all.Status.Nodes) > mostUntouched || size > mostStatus {
				t.Errorf("entries for %d nodes that nothing is done to, want %d at most; a status of %d bytes", len(all.Status.Nodes), mostUntouched, size)
			}
			if c := all.Status.Counts; objected != nil && c.Blocked != pools*mostUntouched {
				t.Errorf("the nodes that are objected to are counted as %+v", c)
			}
		})
	}
}

// A maintenance that has no room for an entry of a node which another one drains has its say about the terms all the same.
func TestTermsOfAMaintenanceWithoutRoomForAnEntry(t *testing.T) {
	all := maintenance("all", atOnce(1000, 1))
	pool := maintenance("pool", of("n1"), atOnce(1000, 1), at("n1", draining, 0))
	pool.Spec.Drain.EmptyDirPods = v1alpha1.PodsEvict
	in := Input{Now: noon, Maintenances: []*v1alpha1.NodeMaintenance{all, pool}, Nodes: []*Node{node("n1")}, Drains: map[string]*Drain{}}
	for i := range mostUntouched {
		n := realNode(i)
		in.Nodes, in.Drains[n.Name] = append(in.Nodes, n), lostData(1)
		all.Status.Nodes = append(all.Status.Nodes, entryFor(n, draining))
	}
	for _, o := range Decide(in).Orders {
		if o.Node == "n1" && o.Terms.EmptyDirPods != v1alpha1.PodsBlock {
			t.Errorf("%s: %+v", o.Want, o.Terms)
		}
	}
}

// Tenants' words that JSON writes longer are cut by what they take there.
func TestStatusOfWordsThatAreEscapedFits(t *testing.T) {
	m := maintenance("m", atOnce(400, 1))
	in := Input{Now: noon, Maintenances: []*v1alpha1.NodeMaintenance{m}, Drains: map[string]*Drain{}}
	held := Drain{Begun: true, PodCount: 5}
	for range mostBlockers {
		held.Blockers = append(held.Blockers, drain.Blocker{Reason: drain.RejectedByServer, Message: strings.Repeat("<", 2000), Remedy: strings.Repeat("&", 2000)})
	}
	for i := range 400 {
		n := realNode(i)
		taken("draining")(n)
		in.Nodes = append(in.Nodes, n)
		m.Status.Nodes = append(m.Status.Nodes, entryFor(n, draining))
		in.Drains[n.Name] = &held
	}
	if size := jsonSize(t, Decide(in).Statuses["m"]); size > mostTexts+400*entrySize {
		t.Errorf("a status of %d bytes, with %d of blockers at most", size, mostTexts)
	}
}

// However many nodes may be out of service at once, those to whose drains something objects have no more entries, and those that begin do so together.
func TestStatusOfManyNodesAtOnceFits(t *testing.T) {
	for _, atATime := range []int32{1000, 3000, 5000} {
		t.Run(fmt.Sprint(atATime), func(t *testing.T) {
			m := maintenance("m", atOnce(atATime, 1))
			in := Input{Now: noon, Maintenances: []*v1alpha1.NodeMaintenance{m}, Drains: map[string]*Drain{}}
			for i := range MostNodes {
				in.Nodes = append(in.Nodes, realNode(i))
			}
			largest, untouched := 0, 0
			for range 5 {
				decision := Decide(in)
				if status := decision.Statuses["m"]; status != nil {
					largest, untouched, m.Status = max(largest, jsonSize(t, status)), max(untouched, len(status.Nodes)), *status
				}
				in.Drains = map[string]*Drain{}
				for _, o := range decision.Orders {
					in.Drains[o.Node] = lostData(3)
				}
			}
			if largest > mostStatus || untouched > mostUntouched {
				t.Errorf("a status of %d bytes; %d nodes that nothing is done to have an entry, want %d at most", largest, untouched, mostUntouched)
			}
			for name := range in.Drains {
				in.Drains[name] = unobjected
			}
			m.Status = *Decide(in).Statuses["m"]
			begun := 0
			for _, o := range Decide(in).Orders {
				if o.Want == DrainNode {
					begun++
				}
			}
			if want := min(int(atATime), len(m.Status.Nodes)); begun != want || begun < 1000 {
				t.Errorf("%d nodes begin together", begun)
			}
		})
	}
}

// However many may be out of service at once, those that begin when a maintenance is created do so together: pods do not move from one to the other.
func TestManyNodesBeginTogether(t *testing.T) {
	m := maintenance("m", atOnce(300, 1))
	in := Input{Now: noon, Maintenances: []*v1alpha1.NodeMaintenance{m}, Drains: map[string]*Drain{}}
	for i := range 400 {
		in.Nodes = append(in.Nodes, realNode(i))
	}
	for range 4 {
		decision, begun := Decide(in), 0
		for _, o := range decision.Orders {
			in.Drains[o.Node] = unobjected
			if o.Want == DrainNode {
				begun++
			}
		}
		if begun != 0 {
			if begun != 300 {
				t.Errorf("%d nodes begin together", begun)
			}
			return
		}
		if status := decision.Statuses["m"]; status != nil {
			m.Status = *status
		}
	}
	t.Error("no node is begun")
}

// A selection whose names would fill the status is refused.
func TestSelectionOfLongNames(t *testing.T) {
	selection := maintenance("m").Spec.Nodes
	var nodes []*Node
	for i := range MostNodes {
		nodes = append(nodes, realNode(i))
	}
	if names, err := Selected(&selection, nodes); err != nil || len(names) != MostNodes {
		t.Errorf("%d names, %v", len(names), err)
	}
	for _, n := range nodes {
		n.Name += strings.Repeat("x", 100)
	}
	if _, err := Selected(&selection, nodes); err == nil || !strings.Contains(err.Error(), "make several, with narrower selectors") {
		t.Errorf("it says %v", err)
	}
}

// Of more nodes than its status has room for, a maintenance that keeps them has as many in work as there is, drains no other, and says what is to be done.
func TestFullStatus(t *testing.T) {
	for name, long := range map[string]int{"names as clouds give them": 0, "long names": 70} {
		t.Run(name, func(t *testing.T) {
			m := maintenance("m", atOnce(MostNodes, 1))
			in := Input{Now: noon, Maintenances: []*v1alpha1.NodeMaintenance{m}, Drains: map[string]*Drain{}}
			all := map[string]*Node{}
			for i := range MostNodes - 25*long {
				n := realNode(i)
				n.Name += strings.Repeat("x", long)
				in.Nodes, all[n.Name] = append(in.Nodes, n), n
			}
			for range 8 {
				decision := Decide(in)
				for _, o := range decision.Orders {
					run := unobjected
					if o.Want == DrainNode {
						if entryOf(m.Status.Nodes, o.Node) == nil {
							t.Fatalf("node %s is drained without an entry", o.Node)
						}
						taken("drained")(all[o.Node])
						run = outcome(drain.Drained)
					}
					in.Drains[o.Node] = run
				}
				if status := decision.Statuses["m"]; status != nil {
					if size := jsonSize(t, status); size > mostStatus {
						t.Fatalf("a status of %d bytes, with %d entries", size, len(status.Nodes))
					}
					m.Status = *status
				}
			}
			kept := len(m.Status.Nodes)
			if c := m.Status.Counts; int(c.Drained) != kept || int(c.Planned) != len(in.Nodes)-kept || kept < 1000 {
				t.Errorf("%d entries, counts %+v", kept, c)
			}
			stalled, message := standingOf(&m.Status)
			if want := fmt.Sprintf("its status has no room for more nodes than the %d that it has in work, and %d nodes wait", kept, len(in.Nodes)-kept); !stalled || !strings.Contains(message, want) {
				t.Errorf("stalled %v: %s", stalled, message)
			}
		})
	}
}

// A node that another maintenance has drained, and wants no longer, is not kept for one whose status has no room for it.
func TestNodeIsNotKeptForAFullStatus(t *testing.T) {
	m := maintenance("m", atOnce(1, 1))
	in := Input{Now: noon, Maintenances: []*v1alpha1.NodeMaintenance{m}, Nodes: []*Node{node("n1", taken("drained"))}}
	for i := range 4000 {
		n := realNode(i)
		taken("drained")(n)
		in.Nodes = append(in.Nodes, n)
		m.Status.Nodes = append(m.Status.Nodes, entryFor(n, drained))
	}
	decision := Decide(in)
	if orders := decision.Orders; len(orders) != 1 || orders[0].Want != GiveBack || orders[0].Node != "n1" {
		t.Errorf("orders %v", brief(decision))
	}
}

// Whatever stands in it, a status fits.
func TestPropertyStatusFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := maintenance("m", func(m *v1alpha1.NodeMaintenance) {
			m.Annotations = map[string]string{"a": strings.Repeat("<", rapid.IntRange(180_000, 225_000).Draw(t, "annotation"))}
			m.Spec.Nodes.Selection = v1alpha1.SelectionDynamic
		})
		in := Input{Now: noon, Maintenances: []*v1alpha1.NodeMaintenance{m}, Drains: map[string]*Drain{}}
		words := strings.Repeat(rapid.String().Draw(t, "words"), rapid.IntRange(1, 200).Draw(t, "times"))
		pods := rapid.IntRange(0, 8).Draw(t, "blockers")
		suffix := strings.Repeat("x", rapid.IntRange(0, 200).Draw(t, "suffix"))
		limit := min(mostStatus, mostObject-jsonSize(t, m))
		w := &work{status: &m.Status, most: limit}
		step := rapid.SampledFrom([]v1alpha1.MaintenanceStep{draining, v1alpha1.StepDeletingNode}).Draw(t, "step")
		nodes := rapid.SampledFrom([]int{10, 100, 1000}).Draw(t, "nodes")
		for i := 0; i < nodes && !w.crowded(); i++ {
			n := realNode(i)
			n.Name += suffix
			taken("draining")(n)
			m.Status.Nodes = append(m.Status.Nodes, entryFor(n, step))
			w.size += sizeOfEntry(&m.Status.Nodes[i])
			run := &Drain{Begun: true, PodCount: 12345}
			for range pods {
				b := drain.Blocker{Reason: drain.RejectedByServer, Message: words, Remedy: words, Dead: true}
				b.Pod.Namespace, b.Pod.Name = "shop", suffix
				run.Blockers = append(run.Blockers, b)
			}
			in.Nodes, in.Drains[n.Name] = append(in.Nodes, n), run
		}
		status := Decide(in).Statuses["m"]
		if size := jsonSize(t, status); size > limit {
			t.Fatalf("a status of %d bytes for %d nodes, and %d may be", size, len(m.Status.Nodes), limit)
		}
	})
}

// How long a text is in JSON is reckoned as it is.
func TestPropertyEscaped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }), rapid.StringMatching(`[<>&"\\\n\x00-\x1f ]*`)).Draw(t, "text")
		if size := jsonSize(t, s) - len(`""`); escaped(s) < size || escaped(s) > size+5*len(s) {
			t.Fatalf("%q takes %d bytes, reckoned as %d", s, size, escaped(s))
		}
		most := rapid.IntRange(3, 100).Draw(t, "most")
		if short := cut(s, most); escaped(short) > most {
			t.Fatalf("%q is cut to %q, which takes %d bytes of %d", s, short, escaped(short), most)
		}
	})
}

// What a kubelet says of itself is bounded, and it is compared as it is kept.
func TestIDsOfKubeletsAreBounded(t *testing.T) {
	n := node("n1", func(n *Node) { n.BootID = strings.Repeat("b", 1<<20) })
	m := maintenance("m", then(v1alpha1.WhenDrained{Wait: &v1alpha1.MaintenanceWait{For: v1alpha1.WaitBootIDChanged}}))
	in := Input{Now: noon, Maintenances: []*v1alpha1.NodeMaintenance{m}, Nodes: []*Node{n}}
	m.Status = *Decide(in).Statuses["m"]
	if size := jsonSize(t, m.Status); size > entrySize+conditionsSize {
		t.Errorf("a status of %d bytes", size)
	}
	m.Status.Nodes[0].Step = v1alpha1.StepWaiting
	taken("drained")(n)
	if got := steps(Decide(in), "m"); len(got) != 1 || got[0] != "n1 Waiting" {
		t.Errorf("the boot that was is taken for another one: %v", got)
	}
}
