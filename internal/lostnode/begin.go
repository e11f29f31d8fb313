package lostnode

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

// Survey is everything that the beginning of fences rests on.
type Survey struct {
	Now      time.Time
	Nodes    []Node // all of the cluster
	Policies []Policy
	Fences   []*v1alpha1.NodeFence
	// Leases are those of the nodes that an earlier look has asked for, by the node's name.
	Leases map[string]Lease
}

// Plan is what follows from a survey.
type Plan struct {
	// Begin are the fences to make.
	Begin []*v1alpha1.NodeFence
	// Ask are the nodes whose Lease decides and was not given: look again with it.
	Ask []string
	// Reports has one for each policy, in the order of the survey.
	Reports []Report
	// NextLook is when to look again if nothing happens before; zero: only when something happens.
	NextLook time.Time
}

// Report is what is seen for one policy.
type Report struct {
	NodeCount   int32
	Unreachable []v1alpha1.UnreachableNode // all of them, by name
	// Stuck has what keeps nodes from being fenced until a person acts.
	Stuck []string
}

// Begin says which nodes are to be fenced.
func Begin(in Survey) Plan {
	b := &beginning{Survey: in, silent: silentByZone(in.Nodes, in.Fences)}
	b.plan.Reports = make([]Report, len(in.Policies))
	for i := range in.Nodes {
		b.look(&in.Nodes[i])
	}
	for i := range b.plan.Reports {
		slices.SortFunc(b.plan.Reports[i].Unreachable, func(x, y v1alpha1.UnreachableNode) int { return cmp.Compare(x.Node, y.Node) })
	}
	return b.plan
}

type beginning struct {
	Survey

	silent map[string][]string
	plan   Plan
}

// silentByZone names the nodes of each zone that are unreachable and not proven off, and those whose fence is not done. What was proven
// off and cleared is known to be off: it says nothing of the zone's network.
func silentByZone(nodes []Node, fences []*v1alpha1.NodeFence) map[string][]string {
	silent := map[string][]string{}
	add := func(zone, node string) {
		if !slices.Contains(silent[zone], node) {
			silent[zone] = append(silent[zone], node)
		}
	}
	zones := map[string]string{}
	for i := range nodes {
		zones[nodes[i].Name] = nodes[i].Zone
		if nodes[i].Unreachable() && !ProvenOff(&nodes[i], fences) {
			add(nodes[i].Zone, nodes[i].Name)
		}
	}
	for _, f := range fences {
		if f.Status.Over() || f.Status.ClearedTime != nil {
			continue
		}
		zone, there := zones[f.Spec.NodeName]
		if !there {
			zone = f.Status.Zone
		}
		add(zone, f.Spec.NodeName)
	}
	for zone := range silent {
		slices.Sort(silent[zone])
	}
	return silent
}

// OthersSilent names the nodes of a zone, beside one, that are unreachable or being fenced.
func OthersSilent(nodes []Node, fences []*v1alpha1.NodeFence, zone, beside string) []string {
	return slices.DeleteFunc(silentByZone(nodes, fences)[zone], func(name string) bool { return name == beside })
}

func (b *beginning) look(node *Node) {
	var selecting []int
	for i := range b.Policies {
		if b.Policies[i].selects(node.Labels) {
			selecting = append(selecting, i)
			b.plan.Reports[i].NodeCount++
		}
	}
	if len(selecting) == 0 || !node.Unreachable() {
		return
	}
	said := b.decide(node, selecting)
	for _, i := range selecting {
		report := &b.plan.Reports[i]
		report.Unreachable = append(report.Unreachable, v1alpha1.UnreachableNode{
			Node: node.Name, Zone: node.Zone, StartTime: metav1.NewTime(node.Since), Fence: said.fence, Message: said.message,
		})
		if said.stuck {
			report.Stuck = append(report.Stuck, "node "+node.Name+": "+said.message)
		}
	}
}

// said is what an unreachable node waits for.
type said struct {
	fence, message string
	stuck          bool // until a person acts
}

func (b *beginning) decide(node *Node, selecting []int) said {
	if fence := b.fenceOf(node); fence != nil {
		return said{fence: fence.Name, message: fenceWords(fence)}
	}
	if len(selecting) > 1 {
		return said{message: "policies " + b.names(selecting) + " select it, and none fences it: let one alone select it", stuck: true}
	}
	policy := &b.Policies[selecting[0]]
	switch why := policy.unusable(); {
	case why != "":
		return said{message: "nothing is begun: " + why, stuck: !policy.Object.Spec.Suspend}
	case node.BootID == "":
		return said{message: "its kubelet has never said which boot it is in (status.nodeInfo.bootID), so its return could not be noticed: nothing is begun; delete the Node if the machine is gone", stuck: true}
	}
	if at := node.Since.Add(policy.window()); at.After(b.Now) {
		b.lookAt(at)
		return said{message: fmt.Sprintf("fenced from %s, when it has been unreachable for %s", at.UTC().Format(time.RFC3339), policy.window())}
	}
	if most := policy.mostPerZone(); len(b.silent[node.Zone]) > most {
		return said{message: crowded(node.Zone, b.silent[node.Zone], most), stuck: true}
	}
	return b.silence(node, policy)
}

// silence begins the fence of a node whose Lease is as old as the policy asks for.
func (b *beginning) silence(node *Node, policy *Policy) said {
	lease, asked := b.Leases[node.Name]
	if !asked {
		b.plan.Ask = append(b.plan.Ask, node.Name)
	}
	silent, known := lease.silence(b.Now)
	switch {
	case !known:
		b.lookAt(b.Now.Add(lookAgain))
		return said{message: "whether its Lease is renewed is not known: " + cmp.Or(lease.Error, "it was not read yet"), stuck: lease.Error != ""}
	case silent < policy.window():
		b.lookAt(b.Now.Add(min(policy.window()-silent, policy.window())))
		return said{message: renewed(node.Name, silent)}
	}
	fence := NewFence(node, policy.Object.Name)
	b.plan.Begin = append(b.plan.Begin, fence)
	return said{fence: fence.Name, message: "its fence is begun"}
}

// fenceOf returns the fence that is under way for the node, or the one of this silence that is over: there is no second.
func (b *beginning) fenceOf(node *Node) *v1alpha1.NodeFence {
	name := FenceName(node)
	at := slices.IndexFunc(b.Fences, func(f *v1alpha1.NodeFence) bool { return of(f, node) && !f.Status.Over() || f.Name == name })
	if at < 0 {
		return nil
	}
	return b.Fences[at]
}

func (b *beginning) lookAt(at time.Time) {
	if b.plan.NextLook.IsZero() || at.Before(b.plan.NextLook) {
		b.plan.NextLook = at
	}
}

func (b *beginning) names(selecting []int) string {
	names := make([]string, len(selecting))
	for i, at := range selecting {
		names[i] = b.Policies[at].Object.Name
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
