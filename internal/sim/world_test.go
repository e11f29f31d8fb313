package sim_test

import (
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"usher.sh/usher/internal/sim"
	"usher.sh/usher/internal/sim/gen"
	"usher.sh/usher/internal/snapshot"
)

// world builds small clusters for tests.
type world struct {
	cluster *snapshot.Cluster
	now     time.Time
}

func newWorld() *world { return &world{cluster: snapshot.NewCluster(), now: gen.Start} }

// view counts the budgets and returns the world as an observer would see it.
func (w *world) view() snapshot.View {
	s := sim.New(snapshot.View{Now: w.now, Cluster: w.cluster}, sim.Config{})
	s.Recount()
	return s.Truth()
}

type nodeOption func(*snapshot.Node)

func (w *world) node(name, zone string, options ...nodeOption) {
	n := &snapshot.Node{
		Name: name, UID: types.UID("node-" + name), ResourceVersion: "1", Zone: zone, Ready: true,
		Labels:      map[string]string{"zone": zone, corev1.LabelHostname: name},
		Allocatable: snapshot.Resources{MilliCPU: 8000, Memory: 32 << 30, Pods: 110},
	}
	for _, option := range options {
		option(n)
	}
	w.cluster.SetNode(n)
}

type podOption func(*snapshot.Pod)

func (w *world) pod(name, node string, options ...podOption) *snapshot.Pod {
	p := &snapshot.Pod{
		Namespace: "shop", Name: name, UID: types.UID("pod-" + name), ResourceVersion: "1", Node: node,
		Labels: map[string]string{"app": name}, Phase: corev1.PodRunning, Grace: 30 * time.Second,
		Created: w.now.Add(-time.Hour), Ready: true, ReadySince: w.now.Add(-time.Hour + 5*time.Second),
		Requests: snapshot.Resources{MilliCPU: 100, Memory: 64 << 20},
	}
	if node == "" {
		p.Phase, p.Ready, p.ReadySince = corev1.PodPending, false, time.Time{}
	}
	for _, option := range options {
		option(p)
	}
	w.cluster.SetPod(p)
	return p
}

// workload makes a controller with one pod for each node named; a Deployment gets
// its ReplicaSet.
func (w *world) workload(kind, name string, nodes []string, options ...podOption) *snapshot.Workload {
	top := &snapshot.Workload{
		Kind: kind, Namespace: "shop", Name: name, UID: types.UID(kind + "-" + name), ResourceVersion: "1",
		Labels: map[string]string{"app": name}, Replicas: int32(len(nodes)), Settled: true,
	}
	if kind == "DaemonSet" {
		top.Replicas = -1
	}
	w.cluster.SetWorkload(top)
	owner := top
	if kind == "Deployment" {
		set := *top
		set.Kind, set.Name, set.UID = "ReplicaSet", name+"-rs", types.UID("ReplicaSet-"+name)
		set.Owner = snapshot.Owner{APIVersion: "apps/v1", Kind: kind, Name: name, UID: top.UID}
		w.cluster.SetWorkload(&set)
		owner = &set
	}
	for i, node := range nodes {
		options := append([]podOption{func(p *snapshot.Pod) {
			p.Labels = top.Labels
			p.Owner = snapshot.Owner{APIVersion: "apps/v1", Kind: owner.Kind, Name: owner.Name, UID: owner.UID}
			if kind == "Job" {
				p.Owner.APIVersion = "batch/v1"
			}
		}}, options...)
		w.pod(name+"-"+strconv.Itoa(i), node, options...)
	}
	return top
}

type budgetOption func(*snapshot.Budget)

func (w *world) budget(name, app string, options ...budgetOption) {
	b := &snapshot.Budget{
		Namespace: "shop", Name: name, UID: types.UID("pdb-" + name), ResourceVersion: "1",
		Selector: labels.SelectorFromSet(labels.Set{"app": app}),
	}
	for _, option := range options {
		option(b)
	}
	w.cluster.SetBudget(b)
}

func minAvailable(text string) budgetOption {
	v := intstr.Parse(text)
	return func(b *snapshot.Budget) { b.MinAvailable = &v }
}

func maxUnavailable(text string) budgetOption {
	v := intstr.Parse(text)
	return func(b *snapshot.Budget) { b.MaxUnavailable = &v }
}

func (w *world) autoscaler(name string, least, most int32) {
	w.cluster.SetAutoscaler(&snapshot.Autoscaler{
		Namespace: "shop", Name: name, UID: types.UID("hpa-" + name), ResourceVersion: "1",
		TargetKind: "Deployment", TargetName: name, Min: least, Max: most,
	})
}

// volume gives the pod a claim that is attached to its node.
func (w *world) volume(p *snapshot.Pod, shared bool) {
	claim := "data-" + p.Name
	p.Claims = append(p.Claims, claim)
	w.cluster.SetClaim(&snapshot.Claim{Namespace: p.Namespace, Name: claim, Volume: "pv-" + p.Name, Shared: shared})
	if p.Node != "" {
		w.cluster.SetAttachment(&snapshot.Attachment{Name: "va-" + p.Name, Node: p.Node, Volume: "pv-" + p.Name})
	}
}

func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}
