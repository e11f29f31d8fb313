// Package snapshot answers: what is true in the cluster, as far as a decision
// needs it? It holds compact facts about pods, nodes, budgets and workloads with
// the indexes that decisions use. It does no I/O; package observe and package sim
// fill it, the pure packages read it.
package snapshot

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Key names a namespaced object.
type Key = types.NamespacedName

// View is one moment of a cluster: everything a decision may look at.
type View struct {
	Now     time.Time
	Cluster *Cluster
}

// Cluster is an indexed store of facts. Facts are replaced, never changed in
// place, so that a reader may keep a pointer. It is not safe for concurrent use.
type Cluster struct {
	nodes       map[string]*Node
	pods        map[types.UID]*Pod
	podsByName  map[Key]*Pod
	podsByNode  map[string]map[types.UID]*Pod
	podsByOwner map[types.UID]map[types.UID]*Pod
	budgets     map[string]map[string]*Budget
	workloads   map[types.UID]*Workload
	scalers     map[Key]*Autoscaler
	claims      map[Key]*Claim
	attachments map[string]*Attachment
	gaps        map[string]Gap
}

// Gap is a kind of object that could not be read. What depends on it is unknown,
// and unknown is unsafe.
type Gap struct {
	Resource string // plural, as in RBAC: "replicasets"
	Reason   string // the server's words
}

// NewCluster returns an empty store.
func NewCluster() *Cluster {
	return &Cluster{
		nodes:       map[string]*Node{},
		pods:        map[types.UID]*Pod{},
		podsByName:  map[Key]*Pod{},
		podsByNode:  map[string]map[types.UID]*Pod{},
		podsByOwner: map[types.UID]map[types.UID]*Pod{},
		budgets:     map[string]map[string]*Budget{},
		workloads:   map[types.UID]*Workload{},
		scalers:     map[Key]*Autoscaler{},
		claims:      map[Key]*Claim{},
		attachments: map[string]*Attachment{},
		gaps:        map[string]Gap{},
	}
}

// SetPod adds or replaces a pod. A pod of the same name with another UID is
// another pod: the former is removed.
func (c *Cluster) SetPod(p *Pod) {
	if old, ok := c.podsByName[p.Key()]; ok {
		c.DeletePod(old.UID)
	}
	c.pods[p.UID] = p
	c.podsByName[p.Key()] = p
	put(c.podsByNode, p.Node, p)
	put(c.podsByOwner, p.Owner.UID, p)
}

// DeletePod forgets a pod; an unknown UID is not an error.
func (c *Cluster) DeletePod(uid types.UID) {
	p, ok := c.pods[uid]
	if !ok {
		return
	}
	delete(c.pods, uid)
	delete(c.podsByName, p.Key())
	drop(c.podsByNode, p.Node, uid)
	drop(c.podsByOwner, p.Owner.UID, uid)
}

func put[K comparable](index map[K]map[types.UID]*Pod, key K, p *Pod) {
	if index[key] == nil {
		index[key] = map[types.UID]*Pod{}
	}
	index[key][p.UID] = p
}

func drop[K comparable](index map[K]map[types.UID]*Pod, key K, uid types.UID) {
	delete(index[key], uid)
	if len(index[key]) == 0 {
		delete(index, key)
	}
}

// Pod returns the pod with this UID, or nil.
func (c *Cluster) Pod(uid types.UID) *Pod { return c.pods[uid] }

// PodNamed returns the pod of this name, or nil.
func (c *Cluster) PodNamed(key Key) *Pod { return c.podsByName[key] }

// PodCount returns how many pods are known.
func (c *Cluster) PodCount() int { return len(c.pods) }

// PodsOn returns the pods bound to a node, sorted by namespace and name.
func (c *Cluster) PodsOn(node string) []*Pod { return sorted(c.podsByNode[node]) }

// PodsOf returns the pods that this controller owns, sorted by namespace and name.
func (c *Cluster) PodsOf(owner types.UID) []*Pod {
	if owner == "" {
		return nil
	}
	return sorted(c.podsByOwner[owner])
}

// EachPodOf calls f for the pods of a controller in no order, without allocating.
func (c *Cluster) EachPodOf(owner types.UID, f func(*Pod)) {
	if owner == "" {
		return
	}
	for _, p := range c.podsByOwner[owner] {
		f(p)
	}
}

// EachPodOn calls f for the pods on a node in no order, without allocating.
func (c *Cluster) EachPodOn(node string, f func(*Pod)) {
	for _, p := range c.podsByNode[node] {
		f(p)
	}
}

// EachPod calls f for every pod in no order.
func (c *Cluster) EachPod(f func(*Pod)) {
	for _, p := range c.pods {
		f(p)
	}
}

func sorted(set map[types.UID]*Pod) []*Pod {
	pods := make([]*Pod, 0, len(set))
	for _, p := range set {
		pods = append(pods, p)
	}
	slices.SortFunc(pods, ComparePods)
	return pods
}

// ComparePods orders pods by namespace, name and UID.
func ComparePods(a, b *Pod) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}
