package sim_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/sim"
	"usher.sh/usher/internal/snapshot"
)

// settle lets everything happen that will.
func settle(s *sim.Sim) {
	for {
		next, some := s.Next()
		if !some {
			return
		}
		s.Advance(next)
	}
}

// names lists the pods of the namespace with their nodes.
func names(s *sim.Sim) []string {
	var all []string
	for _, p := range s.Truth().Cluster.PodsIn("shop") {
		all = append(all, p.Name+"@"+p.Node)
	}
	return all
}

// TestDismissalOrder follows ActivePodsWithRanks upstream: each row beats all later ones.
func TestDismissalOrder(t *testing.T) {
	w := newWorld()
	for _, n := range []string{"a", "b", "c", "d"} {
		w.node(n, "z1")
	}
	age := func(d time.Duration) podOption {
		return func(p *snapshot.Pod) { p.Created, p.ReadySince = w.now.Add(-d), w.now.Add(-d) }
	}
	w.workload("Deployment", "web", nil)
	owner := snapshot.Owner{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-rs", UID: "ReplicaSet-web"}
	add := func(name, node string, options ...podOption) {
		w.pod(name, node, append(options, func(p *snapshot.Pod) { p.Owner, p.Labels = owner, map[string]string{"app": "web"} })...)
	}
	add("0-no-node", "")
	add("1-pending", "d", func(p *snapshot.Pod) { p.Phase, p.Ready = corev1.PodPending, false })
	add("2-unready", "d", func(p *snapshot.Pod) { p.Ready = false })
	add("3-cheap", "d", func(p *snapshot.Pod) { p.DeletionCost = "-5" })
	add("4-together-young", "b", age(time.Minute))
	add("5-together-old", "b", age(10*time.Hour))
	add("6-alone-young", "c", age(time.Minute))
	add("7-alone-old", "a", age(40*time.Hour))
	add("8-dear", "b", func(p *snapshot.Pod) { p.DeletionCost = "5" })

	for keep := 8; keep >= 0; keep-- {
		s := sim.New(w.view(), sim.Config{Schedule: after(time.Hour), Boot: after(time.Hour), Ready: after(time.Hour)})
		s.SetReplicas("Deployment-web", int32(keep))
		s.Advance(w.now.Add(time.Minute))
		var got []string
		for _, p := range s.Truth().Cluster.PodsIn("shop") {
			got = append(got, p.Name[:1])
		}
		want := strings.Split("012345678", "")[9-keep:]
		if !slices.Equal(got, want) {
			t.Errorf("scaled to %d: %v stay, want %v", keep, got, want)
		}
	}
}

func TestStatefulSetInOrder(t *testing.T) {
	w := newWorld()
	w.node("a", "z1")
	w.node("b", "z1")
	w.workload("StatefulSet", "db", []string{"a", "a", "b"})
	s := sim.New(w.view(), sim.Config{Ready: after(10 * time.Second), Stop: after(4 * time.Second)})
	former := podNamed(s, "db-0").UID
	evict(s, podNamed(s, "db-1"))
	evict(s, podNamed(s, "db-0"))
	s.Cordon("a", true)
	s.Advance(w.now.Add(3 * time.Second))
	if p := podNamed(s, "db-0"); p.UID != former || !p.Terminating() {
		t.Error("the name was given away before its bearer was gone")
	}
	s.Advance(w.now.Add(5 * time.Second))
	if p := podNamed(s, "db-0"); p == nil || p.UID == former || p.Node != "b" {
		t.Errorf("db-0 is %+v", p)
	}
	if podNamed(s, "db-1") != nil {
		t.Error("db-1 was started before db-0 was ready")
	}
	settle(s)
	if diff := cmp.Diff([]string{"db-0@b", "db-1@b", "db-2@b"}, names(s)); diff != "" {
		t.Error(diff)
	}
}

func TestDaemonSetIgnoresTheCordon(t *testing.T) {
	w := newWorld()
	w.node("a", "z1")
	w.node("b", "z1")
	w.workload("DaemonSet", "agent", []string{"a", "b"})
	s := sim.New(w.view(), sim.Config{})
	s.Cordon("a", true)
	former := podNamed(s, "agent-0").UID
	evict(s, podNamed(s, "agent-0"))
	settle(s)
	pods := s.Truth().Cluster.PodsOn("a")
	if len(pods) != 1 || pods[0].UID == former || !pods[0].Ready {
		t.Errorf("on the cordoned node: %v", names(s))
	}
}

func TestWhoIsReplaced(t *testing.T) {
	for _, c := range []struct {
		kind string
		gap  bool // the kind cannot be read
		gone bool // the controller is known not to exist
		want int
	}{
		{kind: "ReplicaSet", want: 1},
		{kind: "Job", want: 1},
		{kind: "CloneSet", gone: true, want: 1}, // an unknown kind is taken to replace its pods
		{kind: "StatefulSet", gone: true, want: 0},
		{kind: "ReplicaSet", gone: true, gap: true, want: 1},
	} {
		w := newWorld()
		w.node("a", "z1")
		top := w.workload(c.kind, "x", []string{"a"})
		if c.gone {
			w.cluster.DeleteWorkload(top.UID)
		}
		if c.gap {
			w.cluster.SetGap(snapshot.Gap{Resource: "replicasets", Reason: "forbidden"})
		}
		s := sim.New(w.view(), sim.Config{})
		evict(s, podNamed(s, "x-0"))
		settle(s)
		if got := len(s.Truth().Cluster.PodsIn("shop")); got != c.want {
			t.Errorf("%+v: %d pods afterwards", c, got)
		}
	}
}

// TestForgedOwner: a pod that names the controller of another namespace is none of its pods.
func TestForgedOwner(t *testing.T) {
	w := newWorld()
	w.node("a", "z1")
	w.workload("ReplicaSet", "web", []string{"a"})
	of := w.cluster.PodNamed(snapshot.Key{Namespace: "shop", Name: "web-0"}).Owner
	forged := w.pod("forged", "a", func(p *snapshot.Pod) { p.Namespace, p.Owner = "tenant", of })
	s := sim.New(w.view(), sim.Config{})
	evict(s, forged)
	evict(s, podNamed(s, "web-0"))
	settle(s)
	c := s.Truth().Cluster
	if shop, tenant := len(c.PodsIn("shop")), len(c.PodsIn("tenant")); shop != 1 || tenant != 0 {
		t.Errorf("%d pods are in the namespace of the controller, want 1; %d in that of the forged pod, want none", shop, tenant)
	}
}

// TestControllerThatKeepsAll: what is scaled down stays, and its Deployment is not settled.
func TestControllerThatKeepsAll(t *testing.T) {
	w := newWorld()
	w.node("a", "z1")
	w.workload("Deployment", "web", []string{"a", "a"})
	s := sim.New(w.view(), sim.Config{Faults: sim.Faults{KeepsAll: true}})
	s.SetReplicas("Deployment-web", 1)
	settle(s)
	if n, settled := len(names(s)), s.Truth().Cluster.Workload("Deployment-web").Settled; n != 2 || settled {
		t.Errorf("%d pods, want 2; settled: %v", n, settled)
	}
}

func TestAutoscalerRaisesAndReleases(t *testing.T) {
	w := newWorld()
	w.node("a", "z1")
	w.workload("Deployment", "web", []string{"a"})
	w.autoscaler("web", 1, 5)
	s := sim.New(w.view(), sim.Config{Scaler: 15 * time.Second, ScaleDown: time.Minute})
	replicas := func() int32 { return s.Truth().Cluster.Workload("Deployment-web").Replicas }
	setMin := func(n int32) {
		a := s.Truth().Cluster.Autoscalers()[0]
		if got := s.Do(drain.Action{Kind: drain.ScaleMin, Autoscaler: a, Replicas: n}); got.Code != answers.Accepted {
			t.Fatalf("setting the minimum: %+v", got)
		}
	}
	setMin(3)
	s.Advance(w.now.Add(14 * time.Second))
	if replicas() != 1 {
		t.Error("the autoscaler acted before its period was over")
	}
	s.Advance(w.now.Add(15 * time.Second))
	if replicas() != 3 {
		t.Errorf("%d replicas after a period", replicas())
	}
	setMin(1)
	s.Advance(w.now.Add(60 * time.Second))
	if replicas() != 3 {
		t.Error("scaled down within the stabilisation window")
	}
	settle(s)
	if replicas() != 1 || len(s.Truth().Cluster.PodsIn("shop")) != 1 {
		t.Errorf("%d replicas, pods %v", replicas(), names(s))
	}
}

func TestVolumesFollow(t *testing.T) {
	w := newWorld()
	w.node("a", "z1")
	w.volume(w.pod("one", "a"), false)
	w.volume(w.pod("two", "a"), false)
	for _, name := range []string{"one", "two"} {
		p := *w.cluster.PodNamed(snapshot.Key{Namespace: "shop", Name: name})
		p.Claims = []string{"data-" + name}
		w.cluster.SetPod(&p)
	}
	s := sim.New(w.view(), sim.Config{Stop: after(2 * time.Second), Detach: 5 * time.Second})
	evict(s, podNamed(s, "one"))
	s.Advance(w.now.Add(6 * time.Second))
	if n := len(s.Truth().Cluster.AttachmentsOn("a")); n != 2 {
		t.Errorf("%d volumes attached before their time", n)
	}
	s.Advance(w.now.Add(7 * time.Second))
	left := s.Truth().Cluster.AttachmentsOn("a")
	if len(left) != 1 || left[0].Volume != "pv-two" {
		t.Errorf("attached: %+v", left)
	}
}

func TestLostAndDeletedNodes(t *testing.T) {
	w := newWorld()
	w.node("a", "z1")
	w.workload("Deployment", "web", []string{"a"})
	s := sim.New(w.view(), sim.Config{Stop: after(time.Second), PodGC: 40 * time.Second})
	s.SetNodeReady("a", false)
	evict(s, podNamed(s, "web-0"))
	s.Advance(w.now.Add(time.Hour))
	if podNamed(s, "web-0") == nil {
		t.Error("a pod ended without its kubelet")
	}
	s.DeleteNode("a")
	s.Advance(w.now.Add(time.Hour + 41*time.Second))
	if podNamed(s, "web-0") != nil {
		t.Error("the garbage collector left the pod of a node that is gone")
	}
}

// TestViewLags: what is seen comes late, but in order and in the end.
func TestViewLags(t *testing.T) {
	w := newWorld()
	w.node("a", "z1")
	cfg := sim.Config{Seed: 5, Stop: after(time.Second), Lag: sim.Lag{Pods: 10 * time.Second}}
	s := w.webIn(cfg, "a", "a")
	evict(s, podNamed(s, "web-0"))
	if p := s.View().Cluster.PodNamed(snapshot.Key{Namespace: "shop", Name: "web-0"}); p.Terminating() {
		t.Error("seen at once")
	}
	settle(s)
	seen, truth := s.View().Cluster, s.Truth().Cluster
	if seen.PodCount() != truth.PodCount() {
		t.Errorf("%d pods seen, %d are true", seen.PodCount(), truth.PodCount())
	}
	truth.EachPod(func(p *snapshot.Pod) {
		if seen.Pod(p.UID) != p {
			t.Errorf("%s is not seen as it is", p.Name)
		}
	})
}

// TestStartIsKept: a simulation changes nothing of the view that it starts from.
func TestStartIsKept(t *testing.T) {
	w := newWorld()
	w.node("a", "z1")
	w.node("b", "z1")
	w.workload("Deployment", "web", []string{"a", "a"})
	w.budget("web", "web", maxUnavailable("1"))
	view := w.view()
	before := *view.Cluster.PodNamed(snapshot.Key{Namespace: "shop", Name: "web-0"})
	sim.Forecast(view, request("a"))
	after := view.Cluster.PodNamed(snapshot.Key{Namespace: "shop", Name: "web-0"})
	if diff := cmp.Diff(&before, after); diff != "" || view.Cluster.PodCount() != 2 || view.Cluster.Node("a").Unschedulable {
		t.Errorf("changed: %s", diff)
	}
}

// TestSystemsAreNotForecast: what a system will say is not known, and a plan says so.
func TestSystemsAreNotForecast(t *testing.T) {
	for name, policy := range map[string]string{"governed": "db", "ungoverned": ""} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.node("a", "z1")
			w.node("b", "z1")
			w.workload("StatefulSet", "db", []string{"a", "b"}, func(p *snapshot.Pod) {
				p.Labels = maps.Clone(p.Labels)
				p.Labels[v1alpha1.PolicyLabel] = policy
			})
			said := strings.Join(sim.Forecast(w.view(), request("a")).Unknown, "\n")
			if got := strings.Contains(said, "governed pods (1) may go"); got != (policy != "") {
				t.Errorf("it assumes %q", said)
			}
		})
	}
}
