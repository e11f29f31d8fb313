package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"usher.sh/usher/internal/agent/machine"
	"usher.sh/usher/internal/agent/wake"
	"usher.sh/usher/internal/nodepressure"
)

// startupReport prints what the agent sees at start.
type startupReport struct {
	out         io.Writer
	node        string
	machine     *machine.Machine
	config      Config
	thresholds  []nodepressure.Threshold
	self        types.UID
	offers      []wake.Offer
	protections []protection
}

// say fails where there is nothing to look after: no threshold of any signal that this machine has.
func (g *startupReport) say() error {
	see, err := newEyes(g.node, g.machine)
	if err != nil {
		return err
	}
	s := see.look(time.Now(), true)
	present := s.present(g.thresholds)
	if len(present) == 0 {
		return errors.New("there is nothing to do: no threshold is of anything that this machine has")
	}
	g.line("usher agent looks after node %s: %s of memory, cgroup v%d, pods in %s.",
		g.node, nodepressure.MemoryAvailable.Amount(see.memory), g.machine.CgroupVersion(), g.machine.PodsFolder())
	g.line("Pods go in the order %q.", g.config.Order)
	for _, t := range g.thresholds {
		g.threshold(&s, t)
	}
	for _, t := range neverSoft(s.node, present) {
		g.line("Below its soft threshold of %s it is below the hard one already: no pod is evicted under budgets on account of %s. Raise the soft one above it.", t.Below, t.Signal)
	}
	unread := map[string]bool{} // several signals are read at one place
	for _, err := range s.errs {
		if text := err.Error(); !unread[text] {
			unread[text] = true
			g.line("It cannot read everything: %s.", text)
		}
	}
	for _, offer := range g.offers {
		g.offer("It is woken by "+offer.Name, "It is not woken by "+offer.Name, offer.Err)
	}
	g.line("In any case it looks every %s at the latest, and every %s when something is nearly used up.", wake.Longest, wake.Shortest)
	for _, p := range g.protections {
		g.offer("For itself: "+p.name, "Not for itself: "+p.name, p.err)
	}
	if g.self != "" {
		g.line("It runs in the pod with the UID %s, which it never evicts.", g.self)
	}
	g.offer("Without the apiserver it can kill pods on the node", "Without the apiserver it cannot kill pods on the node", g.machine.CanKill())
	return nil
}

// neverSoft returns the soft thresholds that are not above the hard one of their signal.
func neverSoft(node nodepressure.Node, thresholds []nodepressure.Threshold) []nodepressure.Threshold {
	var found []nodepressure.Threshold
	for _, t := range thresholds {
		reading, ok := node.Readings[t.Signal]
		hard := first(thresholds, t.Signal)
		if ok && !t.Hard() && hard.Hard() && t.Below.Of(reading.Capacity) <= hard.Below.Of(reading.Capacity) {
			found = append(found, t)
		}
	}
	return found
}

func (g *startupReport) line(format string, values ...any) {
	fmt.Fprintf(g.out, format+"\n", values...)
}

func (g *startupReport) offer(yes, no string, err error) {
	if err == nil {
		g.line("%s.", yes)
		return
	}
	g.line("%s: %s.", no, err)
}

func (g *startupReport) threshold(s *sight, t nodepressure.Threshold) {
	verb := "It acts at once"
	if !t.Hard() {
		verb = fmt.Sprintf("It acts after %s", t.Grace)
	}
	reading, ok := s.node.Readings[t.Signal]
	switch {
	case s.absent[t.Signal]:
		g.line("%s below %s of %s, which this machine does not have.", verb, t.Below, t.Signal)
	case !ok:
		g.line("%s below %s of %s, which cannot be read now.", verb, t.Below, t.Signal)
	default:
		g.line("%s below %s of %s, which is %s now.", verb, t.Below, t.Signal, t.Signal.Amount(reading.Available))
	}
}

// compare says when the kubelet would act before the agent.
func (g *startupReport) compare(ctx context.Context, client kubernetes.Interface) {
	see, err := newEyes(g.node, g.machine)
	if err != nil {
		return
	}
	s := see.look(time.Now(), true)
	theirs, from := kubeletThresholds(ctx, client, g.machine, g.node)
	g.line("The kubelet's thresholds are %s.", from)
	fights := fights(s.node, s.present(g.thresholds), s.present(theirs))
	for _, fight := range fights {
		g.line("The two would fight: %s", fight)
	}
	if len(fights) == 0 {
		g.line("The agent acts before the kubelet does.")
	}
}
