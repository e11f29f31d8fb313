// Package snapshot answers: what is true in the cluster, as far as a decision
// needs it? It holds compact facts about pods, nodes, budgets and workloads with
// the indexes that decisions use. It does no I/O; package observe and package sim
// fill it, the pure packages read it.
package snapshot

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Key names a namespaced object.
type Key = types.NamespacedName

// View is one moment of a cluster: everything a decision may look at.
type View struct {
	Now     time.Time
	Cluster *Cluster
	Blind   time.Time // since when pods, nodes or budgets cannot be watched; zero while they can
	Reading time.Time // since when it is read what has turned out to be needed; zero while that has all been read

	HoldLimits map[string]HoldLimit // how long budgets may hold a maintenance, by namespace; none: for ever
}

// ReadingFor is how long a drain waits for what is being read. What has not come by then is a gap.
const ReadingFor = 10 * time.Second

// Whole reports whether the view may be decided upon: nothing is being read, or that takes too long.
func (v View) Whole() bool { return v.Reading.IsZero() || !v.Now.Before(v.Reading.Add(ReadingFor)) }

// Cluster is an indexed store of facts. Facts are replaced, never changed in
// place, so that a reader may keep a pointer. It is not safe for concurrent use.
type Cluster struct {
	nodes       map[string]*Node
	pods        map[types.UID]*Pod
	podsByName  map[Key]*Pod
	podsByNode  map[string]*podSet
	podsByOwner map[OwnerKey]*podSet
	podsBySpace map[string]*podSet
	marked      map[types.UID]*Pod
	surged      map[types.UID]*Workload
	unsettled   map[types.UID]*Workload

	surgedScalers map[Key]*Autoscaler
	budgets       budgetSet
	workloads     map[types.UID]*Workload
	workloadsOf   map[OwnerKey]map[types.UID]*Workload
	scalers       map[Key]*Autoscaler
	claims        map[Key]*Claim
	volumes       map[string]*Volume
	attachments   map[string]*Attachment
	attachedTo    map[string]map[string]*Attachment // by node
	requests      map[Key]*Request
	evictions     map[Key]*Eviction
	policies      map[string]map[string]*Policy // by namespace and name
	leases        map[string]*Lease             // by the id of the drain
	leasesRead    map[string]bool               // so; "" stands for all
	gaps          map[string]Gap
	partial       map[string]bool
	nodesRead     map[string]bool // by label selector
}

// Gap is a kind of object that could not be read. What depends on it is unknown,
// and unknown is unsafe.
type Gap struct {
	Resource string // plural, as in RBAC: "replicasets"
	Reason   string // the server's words
	Final    bool   // it will not be read in this run: forbidden, not served, not in the dump
	Unserved bool   // the apiserver has no such resource, so there are no objects of it
}

// NewCluster returns an empty store.
func NewCluster() *Cluster {
	return &Cluster{
		nodes:       map[string]*Node{},
		pods:        map[types.UID]*Pod{},
		podsByName:  map[Key]*Pod{},
		podsByNode:  map[string]*podSet{},
		podsByOwner: map[OwnerKey]*podSet{},
		podsBySpace: map[string]*podSet{},
		marked:      map[types.UID]*Pod{},
		surged:      map[types.UID]*Workload{},
		unsettled:   map[types.UID]*Workload{},

		surgedScalers: map[Key]*Autoscaler{},
		budgets:       newBudgetSet(),
		workloads:     map[types.UID]*Workload{},
		workloadsOf:   map[OwnerKey]map[types.UID]*Workload{},
		scalers:       map[Key]*Autoscaler{},
		claims:        map[Key]*Claim{},
		volumes:       map[string]*Volume{},
		attachments:   map[string]*Attachment{},
		attachedTo:    map[string]map[string]*Attachment{},
		requests:      map[Key]*Request{},
		evictions:     map[Key]*Eviction{},
		policies:      map[string]map[string]*Policy{},
		leases:        map[string]*Lease{},
		leasesRead:    map[string]bool{},
		gaps:          map[string]Gap{},
		partial:       map[string]bool{},
		nodesRead:     map[string]bool{},
	}
}

// SetPod adds or replaces a pod. A pod of the same name with another UID is
// another pod: the former is removed.
func (c *Cluster) SetPod(p *Pod) {
	if old, ok := c.podsByName[p.Key()]; ok {
		if old.UID == p.UID && old.Node == p.Node && old.OwnerKey() == p.OwnerKey() {
			c.updatePod(old, p)
			return
		}
		c.DeletePod(old.UID)
	}
	c.pods[p.UID] = p
	c.podsByName[p.Key()] = p
	put(c.podsByNode, p.Node, p)
	put(c.podsByOwner, p.OwnerKey(), p)
	put(c.podsBySpace, p.Namespace, p)
	c.budgets.count(p, 1)
	if p.CostMark != "" {
		c.marked[p.UID] = p
	}
}

// updatePod replaces a pod that stays where it is in every index.
func (c *Cluster) updatePod(old, p *Pod) {
	c.pods[p.UID] = p
	c.podsByName[p.Key()] = p
	c.podsByNode[p.Node].replace(old, p)
	c.podsByOwner[p.OwnerKey()].replace(old, p)
	c.podsBySpace[p.Namespace].replace(old, p)
	delete(c.marked, p.UID)
	if p.CostMark != "" {
		c.marked[p.UID] = p
	}
	c.budgets.moved(old, p)
}

// DeletePod forgets a pod; an unknown UID is not an error.
func (c *Cluster) DeletePod(uid types.UID) {
	p, ok := c.pods[uid]
	if !ok {
		return
	}
	delete(c.pods, uid)
	delete(c.podsByName, p.Key())
	delete(c.marked, uid)
	c.budgets.count(p, -1)
	delete(c.budgets.ofPod, p)
	drop(c.podsByNode, p.Node, p)
	drop(c.podsByOwner, p.OwnerKey(), p)
	if c.podsByOwner[p.OwnerKey()] == nil {
		delete(c.budgets.ofKin, p.Owner.UID)
	}
	drop(c.podsBySpace, p.Namespace, p)
}

// Pod returns the pod with this UID, or nil.
func (c *Cluster) Pod(uid types.UID) *Pod { return c.pods[uid] }

// PodNamed returns the pod of this name, or nil.
func (c *Cluster) PodNamed(key Key) *Pod { return c.podsByName[key] }

// PodCount returns how many pods are known.
func (c *Cluster) PodCount() int { return len(c.pods) }

// PodsOn returns the pods bound to a node, sorted by namespace and name. The
// caller must not change the slice.
func (c *Cluster) PodsOn(node string) []*Pod { return c.podsByNode[node].list() }

// PodsOf returns the pods that this controller owns, sorted by namespace and name.
// The caller must not change the slice.
func (c *Cluster) PodsOf(owner OwnerKey) []*Pod {
	if owner.UID == "" {
		return nil
	}
	return c.podsByOwner[owner].list()
}

// PodsIn returns the pods of a namespace, sorted by name. The caller must not
// change the slice.
func (c *Cluster) PodsIn(namespace string) []*Pod { return c.podsBySpace[namespace].list() }

// MarkedPods returns the pods whose deletion cost a surge has lowered, sorted.
func (c *Cluster) MarkedPods() []*Pod { return sortedBy(c.marked, ComparePods) }

// EachPod calls f for every pod in no order.
func (c *Cluster) EachPod(f func(*Pod)) {
	for _, p := range c.pods {
		f(p)
	}
}

// ComparePods orders pods by namespace, name and UID.
func ComparePods(a, b *Pod) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}
