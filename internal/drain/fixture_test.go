package drain_test

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"usher.sh/usher/internal/snapshot"
)

// start is when every case begins.
var start = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// me is the id of the drain under test.
const me = "me"

// fact puts one thing into a cluster.
type fact func(*snapshot.Cluster)

// cluster has these facts. What owns pods is entered before them only in the reader's
// mind: the order does not matter.
func cluster(facts ...fact) *snapshot.Cluster {
	c := snapshot.NewCluster()
	for _, f := range facts {
		f(c)
	}
	return c
}

func all(facts ...fact) fact {
	return func(c *snapshot.Cluster) {
		for _, f := range facts {
			f(c)
		}
	}
}

// node is ready and schedulable.
func node(name string, options ...func(*snapshot.Node)) fact {
	n := &snapshot.Node{Name: name, UID: types.UID("node-" + name), ResourceVersion: "1", Ready: true}
	for _, o := range options {
		o(n)
	}
	return func(c *snapshot.Cluster) { c.SetNode(n) }
}

func zone(name string) func(*snapshot.Node) { return func(n *snapshot.Node) { n.Zone = name } }

func cordoned(n *snapshot.Node) { n.Unschedulable = true }

func silent(n *snapshot.Node) { n.Ready, n.ReadyWhy = false, "Kubelet stopped posting node status." }

// version sets the resource version of a node, to distinguish two states of it.
func version(v string) func(*snapshot.Node) {
	return func(n *snapshot.Node) { n.ResourceVersion = v }
}

// ours is a node that the drain under test has cordoned and drains.
func ours(n *snapshot.Node) { drainedBy(me, start)(n) }

// drainedBy is a node that this drain has cordoned and works on; beat is its last
// sign of life.
func drainedBy(id string, beat time.Time) func(*snapshot.Node) {
	return func(n *snapshot.Node) {
		n.Unschedulable = true
		n.Drain = &snapshot.DrainRecord{Drainer: drainer(id, beat), Since: start, Cordoned: true, State: "draining"}
	}
}

func state(s string) func(*snapshot.Node) {
	return func(n *snapshot.Node) { n.Drain.State = s }
}

func foundCordoned(n *snapshot.Node) { n.Drain.Cordoned = false }

func cordonedAnew(n *snapshot.Node) { n.CordonedBy, n.CordonLost = "kubectl", true }

func drainer(id string, beat time.Time) snapshot.Drainer {
	return snapshot.Drainer{ID: id, By: id + "@host", Beat: beat}
}

// pod runs, is ready for a minute, and belongs to nothing.
func pod(name string, options ...func(*snapshot.Pod)) fact {
	p := &snapshot.Pod{
		Namespace: "default", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1",
		Phase: corev1.PodRunning, Created: start.Add(-time.Hour), Grace: 30 * time.Second,
	}
	ready(p)
	for _, o := range options {
		o(p)
	}
	return func(c *snapshot.Cluster) { c.SetPod(p) }
}

func ready(p *snapshot.Pod) { p.Ready, p.ReadySince = true, start.Add(-time.Minute) }

func unready(p *snapshot.Pod) { p.Ready, p.ReadySince = false, time.Time{} }

func on(node string) func(*snapshot.Pod) { return func(p *snapshot.Pod) { p.Node = node } }

// of makes the pod one of a Deployment's, by deployment's ReplicaSet, and gives it
// the label app.
func of(name string) func(*snapshot.Pod) { return ownedBy("ReplicaSet", name+"-rs", name) }

func ofSet(name string) func(*snapshot.Pod) { return ownedBy("StatefulSet", name, name) }

func ofDaemon(name string) func(*snapshot.Pod) { return ownedBy("DaemonSet", name, name) }

func ofJob(name string) func(*snapshot.Pod) {
	return func(p *snapshot.Pod) {
		ownedBy("Job", name, name)(p)
		p.Owner.APIVersion = "batch/v1"
	}
}

func ownedBy(kind, owner, app string) func(*snapshot.Pod) {
	return func(p *snapshot.Pod) {
		p.Owner = snapshot.Owner{APIVersion: "apps/v1", Kind: kind, Name: owner, UID: types.UID("uid-" + owner)}
		p.Labels = map[string]string{"app": app}
	}
}

func labelled(key, value string) func(*snapshot.Pod) {
	return func(p *snapshot.Pod) { p.Labels = map[string]string{key: value} }
}

func phase(ph corev1.PodPhase) func(*snapshot.Pod) {
	return func(p *snapshot.Pod) { p.Phase = ph; unready(p) }
}

func uid(u string) func(*snapshot.Pod) { return func(p *snapshot.Pod) { p.UID = types.UID(u) } }

func grace(d time.Duration) func(*snapshot.Pod) { return func(p *snapshot.Pod) { p.Grace = d } }

// endsAt is a pod on its way out whose grace ends then.
func endsAt(t time.Time) func(*snapshot.Pod) { return func(p *snapshot.Pod) { p.Deletion = t } }

func priority(n int32) func(*snapshot.Pod) { return func(p *snapshot.Pod) { p.Priority = n } }

func order(n int) func(*snapshot.Pod) { return func(p *snapshot.Pod) { p.Order = n } }

func emptyDir(names ...string) func(*snapshot.Pod) {
	return func(p *snapshot.Pod) { p.EmptyDirs = names }
}

func claims(names ...string) func(*snapshot.Pod) { return func(p *snapshot.Pod) { p.Claims = names } }

func finalizer(names ...string) func(*snapshot.Pod) {
	return func(p *snapshot.Pod) { p.Finalizers = names }
}

func mirror(p *snapshot.Pod) { p.Mirror = true }

func marked(mark string) func(*snapshot.Pod) { return func(p *snapshot.Pod) { p.CostMark = mark } }

func readySince(t time.Time) func(*snapshot.Pod) {
	return func(p *snapshot.Pod) { p.Ready, p.ReadySince = true, t }
}

// pods are several pods of a Deployment on one node: web-a1, web-a2 …
func pods(app, node string, n int, options ...func(*snapshot.Pod)) fact {
	var facts []fact
	for i := range n {
		name := app + "-" + node + strconv.Itoa(i+1)
		facts = append(facts, pod(name, slices.Concat([]func(*snapshot.Pod){of(app), on(node)}, options)...))
	}
	return all(facts...)
}

// deployment has one ReplicaSet and is settled.
func deployment(name string, replicas int32, options ...func(*snapshot.Workload)) fact {
	w := workload("Deployment", name, replicas)
	for _, o := range options {
		o(w)
	}
	rs := workload("ReplicaSet", name+"-rs", w.Replicas)
	rs.NodeName = w.NodeName
	rs.Owner = snapshot.Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: name, UID: w.UID}
	return func(c *snapshot.Cluster) { c.SetWorkload(w); c.SetWorkload(rs) }
}

func workload(kind, name string, replicas int32) *snapshot.Workload {
	return &snapshot.Workload{
		Kind: kind, Namespace: "default", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1",
		Replicas: replicas, Settled: true,
	}
}

func statefulSet(name string, replicas int32) fact { return controller("StatefulSet", name, replicas) }

func daemonSet(name string) fact { return controller("DaemonSet", name, -1) }

func controller(kind, name string, replicas int32) fact {
	w := workload(kind, name, replicas)
	return func(c *snapshot.Cluster) { c.SetWorkload(w) }
}

func rolling(w *snapshot.Workload) { w.Settled = false }

func noOverlap(w *snapshot.Workload) { w.NoOverlap = true }

func minReady(d time.Duration) func(*snapshot.Workload) {
	return func(w *snapshot.Workload) { w.MinReady = d }
}

func at(version string) func(*snapshot.Workload) {
	return func(w *snapshot.Workload) { w.ResourceVersion = version }
}

// surgedBy is a Deployment that this drain has scaled from was to its present number.
func surgedBy(id string, was int32, step time.Time) func(*snapshot.Workload) {
	return func(w *snapshot.Workload) {
		w.Surge = &snapshot.SurgeRecord{Drainer: drainer(id, step), Was: was, To: w.Replicas, Since: step, Step: step}
	}
}

// ownerWants is what the owner of a surged Deployment has set since.
func ownerWants(replicas int32) func(*snapshot.Workload) {
	return func(w *snapshot.Workload) { w.Replicas = replicas }
}

// autoscaler rules the Deployment of the same name.
func autoscaler(name string, least, most int32, options ...func(*snapshot.Autoscaler)) fact {
	a := &snapshot.Autoscaler{
		Namespace: "default", Name: name, UID: types.UID("hpa-" + name), ResourceVersion: "1",
		TargetKind: "Deployment", TargetName: name, Min: least, Max: most,
	}
	for _, o := range options {
		o(a)
	}
	return func(c *snapshot.Cluster) { c.SetAutoscaler(a) }
}

func raisedBy(id string, was int32) func(*snapshot.Autoscaler) {
	return func(a *snapshot.Autoscaler) {
		a.Surge = &snapshot.SurgeRecord{Drainer: drainer(id, start), Was: was, To: a.Min, Since: start, Step: start}
	}
}

// fromBase is how many replicas the Deployment had before the minimum was raised.
func fromBase(replicas int32) func(*snapshot.Autoscaler) {
	return func(a *snapshot.Autoscaler) { a.Surge.Base = replicas }
}

// budget counts the pods with label app; its status is that of a controller that has
// looked at it: allowed = current - desired.
func budget(app string, current, desired, expected int32, options ...func(*snapshot.Budget)) fact {
	b := &snapshot.Budget{
		Namespace: "default", Name: app, UID: types.UID("pdb-" + app), ResourceVersion: "1", Observed: true,
		Selector: labels.SelectorFromSet(labels.Set{"app": app}),
		Allowed:  max(current-desired, 0), Current: current, Desired: desired, Expected: expected,
	}
	for _, o := range options {
		o(b)
	}
	return func(c *snapshot.Cluster) { c.SetBudget(b) }
}

func named(name string) func(*snapshot.Budget) {
	return func(b *snapshot.Budget) { b.Name, b.UID = name, types.UID("pdb-"+name) }
}

func minAvailable(v string) func(*snapshot.Budget) {
	return func(b *snapshot.Budget) { x := intstr.Parse(v); b.MinAvailable = &x }
}

func maxUnavailable(v string) func(*snapshot.Budget) {
	return func(b *snapshot.Budget) { x := intstr.Parse(v); b.MaxUnavailable = &x }
}

func unobserved(b *snapshot.Budget) { b.Observed = false }

func alwaysAllow(b *snapshot.Budget) { b.AlwaysAllow = true }

func budgetVersion(v string) func(*snapshot.Budget) {
	return func(b *snapshot.Budget) { b.ResourceVersion = v }
}

// allowing is a status that allows so many, whatever it counts.
func allowing(n int32) func(*snapshot.Budget) { return func(b *snapshot.Budget) { b.Allowed = n } }

func disrupted(pods ...string) func(*snapshot.Budget) { return disruptedAt(start, pods...) }

func disruptedAt(at time.Time, pods ...string) func(*snapshot.Budget) {
	return func(b *snapshot.Budget) {
		b.Disrupted = map[string]time.Time{}
		for _, p := range pods {
			b.Disrupted[p] = at
		}
	}
}

func claim(name, volume string, shared bool) fact {
	return func(c *snapshot.Cluster) {
		c.SetClaim(&snapshot.Claim{Namespace: "default", Name: name, Volume: volume, Shared: shared})
	}
}

func attached(volume, node string) fact {
	return func(c *snapshot.Cluster) {
		c.SetAttachment(&snapshot.Attachment{Name: "va-" + volume, Node: node, Volume: volume})
	}
}

func detached(volume string) fact {
	return func(c *snapshot.Cluster) { c.DeleteAttachment("va-" + volume) }
}

func gone(pods ...string) fact {
	return func(c *snapshot.Cluster) {
		for _, p := range pods {
			c.DeletePod(types.UID("uid-" + p))
		}
	}
}

func unreadable(resource string) fact {
	return func(c *snapshot.Cluster) {
		c.SetGap(snapshot.Gap{Resource: resource, Reason: "may not list", Final: true})
	}
}

// Names for facts that are changed in place of a case's own words.
type (
	clusterOf = snapshot.Cluster
	nodeOf    = snapshot.Node

	autoscalerOf = snapshot.Autoscaler
)

func scalerVersion(v string) func(*snapshot.Autoscaler) {
	return func(a *snapshot.Autoscaler) { a.ResourceVersion = v }
}

func createdAt(t time.Time) func(*snapshot.Pod) {
	return func(p *snapshot.Pod) { p.Created = t }
}

func in(namespace string) func(*snapshot.Pod) {
	return func(p *snapshot.Pod) { p.Namespace = namespace }
}

func toleratesAll(p *snapshot.Pod) {
	p.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
}

// needs is a node selector.
func needs(key, value string) func(*snapshot.Pod) {
	return func(p *snapshot.Pod) { p.NodeSelector = map[string]string{key: value} }
}

func hostname(name string) func(*snapshot.Node) {
	return func(n *snapshot.Node) { n.Labels = map[string]string{corev1.LabelHostname: name} }
}
