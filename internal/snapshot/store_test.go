package snapshot

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

func named(name, node string, options ...func(*Pod)) *Pod {
	p := &Pod{Namespace: "shop", Name: name, UID: types.UID(name), Node: node, Labels: map[string]string{"app": "web"}}
	for _, o := range options {
		o(p)
	}
	return p
}

func list(pods []*Pod) string {
	var all []string
	for _, p := range pods {
		all = append(all, string(p.UID))
	}
	return strings.Join(all, " ")
}

func want(t *testing.T, what, want, got string) {
	t.Helper()
	if want != got {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func TestPodMovesThroughTheIndexes(t *testing.T) {
	c := NewCluster()
	c.SetPod(named("b", ""))
	c.SetPod(named("a", "n1"))
	want(t, "unscheduled", "b", list(c.PodsOn("")))
	c.SetPod(named("b", "n1", func(p *Pod) { p.CostMark = "d1" }))
	want(t, "unscheduled after binding", "", list(c.PodsOn("")))
	want(t, "on the node, sorted", "a b", list(c.PodsOn("n1")))
	want(t, "marked", "b", list(c.MarkedPods()))
	c.SetPod(named("b", "n1"))
	want(t, "marked no more", "", list(c.MarkedPods()))
	c.DeletePod("b")
	c.DeletePod("never there")
	want(t, "after deletion", "a", list(c.PodsOn("n1")))
	want(t, "in the namespace", "a", list(c.PodsIn("shop")))
}

// A pod of the same name with another UID is another pod; the end of the former must
// not remove it.
func TestPodOfTheSameName(t *testing.T) {
	c := NewCluster()
	c.SetPod(named("db-0", "n1"))
	c.SetPod(named("db-0", "n2", func(p *Pod) { p.UID = "new" }))
	want(t, "old node", "", list(c.PodsOn("n1")))
	want(t, "new node", "new", list(c.PodsOn("n2")))
	c.DeletePod("db-0")
	want(t, "named", "new", string(c.PodNamed(Key{Namespace: "shop", Name: "db-0"}).UID))
}

func TestPodsWithoutOwner(t *testing.T) {
	c := NewCluster()
	c.SetPod(named("bare", "n1"))
	want(t, "of no owner", "", list(c.PodsOf(OwnerKey{})))
}

func TestBudgetsFollowSelectorsAndNames(t *testing.T) {
	c := NewCluster()
	p := named("a", "n1")
	c.SetPod(p)
	budget := func(name, selector string) *Budget {
		parsed, err := labels.Parse(selector)
		if err != nil {
			t.Fatal(err)
		}
		return &Budget{Namespace: "shop", Name: name, Selector: parsed}
	}
	names := func() string {
		var all []string
		for _, b := range c.BudgetsFor(c.PodNamed(p.Key())) {
			all = append(all, b.Name)
		}
		return strings.Join(all, " ")
	}
	want(t, "none", "", names())
	c.SetBudget(budget("z", "app=web"))
	c.SetBudget(budget("b", "app in (web,api)"))
	c.SetBudget(&Budget{Namespace: "other", Name: "a", Selector: labels.Everything()})
	want(t, "sorted, of the namespace", "b z", names())
	c.SetBudget(budget("z", "app=api"))
	want(t, "after its selector changed", "b", names())
	c.DeleteBudget(Key{Namespace: "shop", Name: "b"})
	want(t, "after one went", "", names())
	c.SetBudget(budget("b", "app=web"))
	want(t, "after it came back", "b", names())
	c.SetPod(named("a", "n1", func(p *Pod) { p.Labels = nil }))
	want(t, "after the pod lost its label", "", names())
}

func TestBudgetsStatusIsTheLatest(t *testing.T) {
	c := NewCluster()
	p := named("a", "n1")
	c.SetPod(p)
	for allowed := range int32(3) {
		c.SetBudget(&Budget{Namespace: "shop", Name: "web", Selector: labels.Everything(), Allowed: allowed})
		if got := c.BudgetsFor(p); len(got) != 1 || got[0].Allowed != allowed {
			t.Errorf("budgets %v, want one that allows %d", got, allowed)
		}
	}
}

func TestWorkloadChangesItsOwner(t *testing.T) {
	c := NewCluster()
	c.SetWorkload(&Workload{UID: "rs", Name: "rs", Owner: Owner{UID: "d1"}})
	c.SetWorkload(&Workload{UID: "rs", Name: "rs", Owner: Owner{UID: "d2"}})
	if n, m := len(c.WorkloadsOf(OwnerKey{UID: "d1"})), len(c.WorkloadsOf(OwnerKey{UID: "d2"})); n != 0 || m != 1 {
		t.Errorf("the former owner has %d, the present one %d", n, m)
	}
}

func TestSurgedWorkloads(t *testing.T) {
	c := NewCluster()
	w := &Workload{Kind: "Deployment", UID: "w", Name: "w"}
	surged := *w
	surged.Surge = &SurgeRecord{}
	broken := *w
	broken.SurgeError = "bad"
	for step, s := range []struct {
		w *Workload
		n int
	}{{w, 0}, {&surged, 1}, {w, 0}, {&broken, 1}} {
		c.SetWorkload(s.w)
		if got := len(c.Surged()); got != s.n {
			t.Errorf("step %d: %d surged, want %d", step, got, s.n)
		}
	}
	c.DeleteWorkload("w")
	if len(c.Surged()) != 0 {
		t.Error("a deleted workload is surged")
	}
}

func TestAutoscalerOf(t *testing.T) {
	c := NewCluster()
	w := &Workload{Kind: "Deployment", Namespace: "shop", Name: "web"}
	for _, a := range []*Autoscaler{
		{Namespace: "shop", Name: "z", TargetKind: "Deployment", TargetName: "web"},
		{Namespace: "shop", Name: "b", TargetKind: "Deployment", TargetName: "web"},
		{Namespace: "shop", Name: "a", TargetKind: "StatefulSet", TargetName: "web"},
		{Namespace: "else", Name: "a", TargetKind: "Deployment", TargetName: "web"},
	} {
		c.SetAutoscaler(a)
	}
	want(t, "of two, the first by name", "b", c.AutoscalerOf(w).Name)
	c.DeleteAutoscaler(Key{Namespace: "shop", Name: "b"})
	c.DeleteAutoscaler(Key{Namespace: "shop", Name: "z"})
	if a := c.AutoscalerOf(w); a != nil {
		t.Errorf("ruled by %s", a.Name)
	}
}

func TestAttachmentsOfANode(t *testing.T) {
	c := NewCluster()
	c.SetAttachment(&Attachment{Name: "b", Node: "n1"})
	c.SetAttachment(&Attachment{Name: "a", Node: "n1"})
	c.SetAttachment(&Attachment{Name: "b", Node: "n2"})
	if on1, on2 := c.AttachmentsOn("n1"), c.AttachmentsOn("n2"); len(on1) != 1 || on1[0].Name != "a" || len(on2) != 1 {
		t.Errorf("%v, %v", on1, on2)
	}
	c.DeleteAttachment("a")
	c.DeleteAttachment("never there")
	if on1 := c.AttachmentsOn("n1"); len(on1) != 0 {
		t.Errorf("%v", on1)
	}
}

func TestAvailableAt(t *testing.T) {
	ready := Pod{Ready: true, ReadySince: now, Phase: corev1.PodRunning}
	ending, unready := ready, ready
	ending.Deletion, unready.Ready = now, false
	cases := []struct {
		pod      Pod
		after    time.Duration
		minReady time.Duration
		want     bool
	}{
		{ready, 0, 0, true},
		{ready, 9 * time.Second, 10 * time.Second, false},
		{ready, 10 * time.Second, 10 * time.Second, true},
		{ending, time.Hour, 0, false},
		{unready, time.Hour, 0, false},
	}
	for i, c := range cases {
		if got := c.pod.AvailableAt(now.Add(c.after), c.minReady); got != c.want {
			t.Errorf("case %d: %v", i, got)
		}
	}
}

// However pods come, move and go, every index says the same as a search through all.
func TestIndexesAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := NewCluster()
		nodes, owners, names := []string{"", "n1", "n2"}, []types.UID{"", "o1", "o2"}, []string{"a", "b", "c"}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			uid := types.UID(rapid.SampledFrom([]string{"1", "2", "3", "4"}).Draw(t, "uid"))
			if rapid.IntRange(0, 3).Draw(t, "deletion") == 0 {
				c.DeletePod(uid)
				continue
			}
			name := rapid.SampledFrom(names).Draw(t, "name")
			if old := c.Pod(uid); old != nil {
				name = old.Name // a UID keeps its name
			}
			c.SetPod(&Pod{
				Namespace: "shop", Name: name, UID: uid, Node: rapid.SampledFrom(nodes).Draw(t, "node"),
				Owner: Owner{UID: rapid.SampledFrom(owners).Draw(t, "owner")}, CostMark: rapid.SampledFrom([]string{"", "d"}).Draw(t, "mark"),
			})
			if rapid.Bool().Draw(t, "read in between") {
				c.PodsOn("n1")
			}
		}
		for _, node := range nodes {
			agree(t, c, "node "+node, c.PodsOn(node), func(p *Pod) bool { return p.Node == node })
		}
		for _, owner := range owners[1:] {
			agree(t, c, "owner "+string(owner), c.PodsOf(Owner{UID: owner}.In("shop")), func(p *Pod) bool { return p.Owner.UID == owner })
		}
		agree(t, c, "namespace", c.PodsIn("shop"), func(*Pod) bool { return true })
		agree(t, c, "marked", c.MarkedPods(), func(p *Pod) bool { return p.CostMark != "" })
		for _, name := range names {
			if p := c.PodNamed(Key{Namespace: "shop", Name: name}); p != nil && c.Pod(p.UID) != p {
				t.Fatalf("%s is named and not there", name)
			}
		}
	})
}

func agree(t *rapid.T, c *Cluster, what string, got []*Pod, belongs func(*Pod) bool) {
	count := 0
	c.EachPod(func(p *Pod) {
		if belongs(p) {
			count++
		}
	})
	if count != len(got) {
		t.Fatalf("%s: the index has %d pods, there are %d", what, len(got), count)
	}
	for i, p := range got {
		if c.Pod(p.UID) != p || !belongs(p) {
			t.Fatalf("%s: %s does not belong", what, p.UID)
		}
		if i > 0 && ComparePods(got[i-1], p) >= 0 {
			t.Fatalf("%s: not sorted", what)
		}
	}
}

// TestPropertyHealthyUnder: counting healthy pods as they change gives what counting them all gives.
func TestPropertyHealthyUnder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := NewCluster()
		apps := rapid.SampledFrom([]string{"web", "db"})
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				c.SetBudget(&Budget{Namespace: "shop", Name: name, Selector: labels.SelectorFromSet(labels.Set{"app": apps.Draw(t, "app")})})
			case 1:
				c.DeleteBudget(Key{Namespace: "shop", Name: name})
			case 2:
				c.DeletePod(types.UID(name))
			default:
				p := named(name, rapid.SampledFrom([]string{"", "n1"}).Draw(t, "node"))
				p.Labels, p.Owner.UID = labels.Set{"app": apps.Draw(t, "app")}, types.UID(apps.Draw(t, "owner"))
				p.Ready, p.Phase = rapid.Bool().Draw(t, "ready"), rapid.SampledFrom([]corev1.PodPhase{"Running", "Failed"}).Draw(t, "phase")
				if rapid.Bool().Draw(t, "terminates") {
					p.Deletion = time.Unix(1, 0)
				}
				c.SetPod(p)
			}
			for _, b := range c.Budgets() {
				n := int32(0)
				for _, p := range c.PodsIn("shop") {
					if b.Matches(p) && p.Healthy() {
						n++
					}
				}
				if got := c.HealthyUnder(b); got != n {
					t.Fatalf("%d healthy under %s, want %d", got, b.Name, n)
				}
			}
		}
	})
}

// A disruption controller looks at no phase.
func TestHealthyWhateverThePhase(t *testing.T) {
	for _, phase := range []corev1.PodPhase{corev1.PodRunning, corev1.PodFailed, corev1.PodPending} {
		if p := (&Pod{Phase: phase, Ready: true}); !p.Healthy() {
			t.Errorf("a ready pod of phase %s is not healthy", phase)
		}
	}
}

// TestNothingIsKeptOfOwnersWithoutPods: who may write a pod gives it another owner at any time.
func TestNothingIsKeptOfOwnersWithoutPods(t *testing.T) {
	c := NewCluster()
	for _, uid := range []types.UID{"one", "two", "three"} {
		p := named("a", "n", func(p *Pod) { p.Owner = Owner{APIVersion: "example.com/v1", Kind: "Web", Name: "web", UID: uid} })
		c.SetPod(p)
		c.BudgetsFor(p)
	}
	if len(c.budgets.ofKin) != 1 {
		t.Errorf("labels are kept of the pods of %d owners, want one", len(c.budgets.ofKin))
	}
	c.DeletePod("a")
	if len(c.budgets.ofKin) != 0 {
		t.Errorf("labels are kept of the pods of %d owners, want none", len(c.budgets.ofKin))
	}
}
