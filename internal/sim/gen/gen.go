// Package gen answers: what does a big, ordinary cluster look like? It makes one of
// any size from a seed, for benchmarks and tests.
package gen

import (
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"usher.sh/usher/internal/snapshot"
)

// Size says how big a cluster is made.
type Size struct {
	Nodes int
	Pods  int // at least; the last workload is made whole
	Zones int // at least 1
	Seed  uint64
}

// Start is when generated clusters are looked at.
var Start = time.Date(2026, time.March, 2, 10, 0, 0, 0, time.UTC)

// Cluster makes nodes in zones, one DaemonSet, and Deployments and StatefulSets of 1
// to 40 pods in namespaces of some forty workloads, most of them under a budget.
func Cluster(size Size) snapshot.View {
	m := &maker{size: size, dice: rand.New(rand.NewPCG(size.Seed, 7)), cluster: snapshot.NewCluster()}
	for i := range size.Nodes {
		m.node(i)
	}
	m.daemons()
	for i := 0; m.cluster.PodCount() < size.Pods; i++ {
		m.workload(i)
	}
	return snapshot.View{Now: Start, Cluster: m.cluster}
}

type maker struct {
	size    Size
	dice    *rand.Rand
	cluster *snapshot.Cluster
	pods    int
}

// Node returns the name of the i-th node. Nodes of one zone are every Zones-th.
func Node(i int) string { return fmt.Sprintf("node-%05d", i) }

func (m *maker) node(i int) {
	m.cluster.SetNode(&snapshot.Node{
		Name: Node(i), UID: types.UID(fmt.Sprintf("uid-%s", Node(i))), ResourceVersion: "1",
		Zone: fmt.Sprintf("zone-%d", i%m.size.Zones), Ready: true,
		Labels:      map[string]string{"kubernetes.io/hostname": Node(i)},
		Allocatable: snapshot.Resources{MilliCPU: 32_000, Memory: 128 << 30, Pods: 110},
	})
}

func (m *maker) daemons() {
	owner := m.owner("kube-system", "DaemonSet", "agent", snapshot.Owner{}, -1)
	for i := range m.size.Nodes {
		p := m.pod("kube-system", fmt.Sprintf("agent-%05d", i), owner, map[string]string{"app": "agent"})
		p.Node, p.Priority = Node(i), 2_000_001_000
		m.cluster.SetPod(p)
	}
}

func (m *maker) workload(i int) {
	space, name := fmt.Sprintf("team-%03d", i/40), fmt.Sprintf("app-%02d", i%40)
	replicas := 1 + m.dice.IntN(10)
	if m.dice.IntN(5) == 0 {
		replicas = 10 + m.dice.IntN(31)
	}
	label := map[string]string{"app": name, "team": space, "tier": "backend"}
	stateful := m.dice.IntN(6) == 0
	var owner snapshot.Owner
	if stateful {
		owner = m.owner(space, "StatefulSet", name, snapshot.Owner{}, replicas)
	} else {
		deployment := m.owner(space, "Deployment", name, snapshot.Owner{}, replicas)
		owner = m.owner(space, "ReplicaSet", name+"-7d9f", deployment, replicas)
	}
	m.budget(space, name, label, replicas)
	needs := snapshot.Resources{MilliCPU: int64(50 + m.dice.IntN(400)), Memory: int64(64+m.dice.IntN(1000)) << 20}
	for r := range replicas {
		p := m.pod(space, fmt.Sprintf("%s-%d", owner.Name, r), owner, label)
		p.Requests, p.Node = needs, m.spot()
		if stateful {
			m.volume(p)
		}
		m.cluster.SetPod(p)
	}
}

// spot deals pods out to the nodes in turn, so that none is overfull.
func (m *maker) spot() string {
	m.pods++
	return Node((m.pods*7919 + m.dice.IntN(3)) % m.size.Nodes)
}

func (m *maker) owner(space, kind, name string, above snapshot.Owner, replicas int) snapshot.Owner {
	uid := types.UID(fmt.Sprintf("%s/%s/%s", kind, space, name))
	m.cluster.SetWorkload(&snapshot.Workload{
		Kind: kind, Namespace: space, Name: name, UID: uid, ResourceVersion: "1",
		Owner: above, Replicas: int32(replicas), Settled: true,
	})
	return snapshot.Owner{APIVersion: "apps/v1", Kind: kind, Name: name, UID: uid}
}

func (m *maker) pod(space, name string, owner snapshot.Owner, label map[string]string) *snapshot.Pod {
	created := Start.Add(-time.Duration(1+m.dice.IntN(500)) * time.Hour)
	return &snapshot.Pod{
		Namespace: space, Name: name, UID: types.UID(space + "/" + name), ResourceVersion: "1",
		Labels: label, Owner: owner, Phase: corev1.PodRunning, Created: created,
		Ready: true, ReadySince: created.Add(time.Duration(5+m.dice.IntN(40)) * time.Second),
		Grace: 30 * time.Second,
	}
}

func (m *maker) volume(p *snapshot.Pod) {
	claim := "data-" + p.Name
	volume := "pv-" + p.Namespace + "-" + p.Name
	p.Claims = []string{claim}
	m.cluster.SetClaim(&snapshot.Claim{Namespace: p.Namespace, Name: claim, Volume: volume})
	m.cluster.SetAttachment(&snapshot.Attachment{Name: "csi-" + volume, Node: p.Node, Volume: volume})
}

// budget puts most workloads under one: mostly maxUnavailable 1, some percentages and
// minimums, and a few that can never allow anything.
func (m *maker) budget(space, name string, label map[string]string, replicas int) {
	b := &snapshot.Budget{
		Namespace: space, Name: name, UID: types.UID("pdb/" + space + "/" + name), ResourceVersion: "1",
		Selector: labels.SelectorFromSet(label), Observed: true,
		Current: int32(replicas), Expected: int32(replicas),
	}
	one, quarter, all := intstr.FromInt32(1), intstr.FromString("25%"), intstr.FromInt32(int32(replicas))
	switch kind := m.dice.IntN(20); {
	case kind < 10:
		b.MaxUnavailable, b.Desired = &one, int32(replicas-1)
	case kind < 14:
		b.MaxUnavailable, b.Desired = &quarter, int32(replicas-(replicas+3)/4)
	case kind == 14:
		b.MinAvailable, b.Desired = &all, int32(replicas)
	default:
		return
	}
	b.Allowed = b.Current - b.Desired
	m.cluster.SetBudget(b)
}
