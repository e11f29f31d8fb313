package sim

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/snapshot"
)

// replicaController is the pods of one controller, and what is needed to start more of them.
type replicaController struct {
	owner    snapshot.Owner
	space    string
	template *snapshot.Pod // a pod to copy
	found    int32         // active pods when the controller was first met
	orphaned bool          // its controller is known not to exist
	awake    bool          // the controller will look at it
	first    int           // StatefulSets: the least ordinal
	lost     []string      // DaemonSets: nodes that lost their pod
}

// key names the controller's controller.
func (c *replicaController) key() snapshot.OwnerKey { return c.owner.In(c.space) }

// meet gets to know a pod's controller before anything of it changes.
func (s *Sim) meet(p *snapshot.Pod) {
	key := p.OwnerKey()
	if key.UID == "" || s.controllers[key] != nil {
		return
	}
	s.controllers[key] = s.controllerOf(p.Owner, p.Namespace, p)
}

func (s *Sim) controllerOf(owner snapshot.Owner, space string, sample *snapshot.Pod) *replicaController {
	c := &replicaController{owner: owner, space: space, template: sample}
	pods := s.truth.PodsOf(c.key())
	if len(pods) > 0 {
		c.template = pods[0]
	}
	for i, p := range pods {
		if active(p) {
			c.found++
		}
		if ordinal, _ := p.Ordinal(); i == 0 || ordinal < c.first {
			c.first = ordinal
		}
	}
	c.orphaned = s.truth.WorkloadOf(c.key()) == nil && s.readable(owner)
	return c
}

// templateCost is the deletion cost that a pod has from its template, whatever a drain has made of it since.
func templateCost(p *snapshot.Pod) string {
	if p.CostMark != "" {
		return p.CostToRestore()
	}
	return p.DeletionCost
}

// readable reports whether the owner would be known if it existed: one of another API
// group never is, whatever its kind.
func (s *Sim) readable(owner snapshot.Owner) bool {
	group, _, grouped := strings.Cut(owner.APIVersion, "/")
	if grouped && group != "apps" && group != "batch" {
		return false
	}
	switch owner.Kind {
	case "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Job":
		_, gap := s.truth.Gap(strings.ToLower(owner.Kind) + "s")
		return !gap
	}
	return false
}

// active is IsPodActive upstream.
func active(p *snapshot.Pod) bool { return !p.Finished() && !p.Terminating() }

// wakeCrew lets a pod's controller look at its pods.
func (s *Sim) wakeCrew(p *snapshot.Pod) {
	if c := s.controllers[p.OwnerKey()]; c != nil {
		s.wake(c)
	}
}

func (s *Sim) wake(c *replicaController) {
	if c.awake || c.orphaned {
		return
	}
	c.awake = true
	s.unsettle(c)
	s.after(s.cfg.Controllers, func() {
		c.awake = false
		s.reconcile(c)
	})
}

func (s *Sim) reconcile(c *replicaController) {
	switch {
	case c.owner.Kind == "StatefulSet":
		s.reconcileStateful(c)
	case c.owner.DaemonSet():
		s.reconcileDaemons(c)
	default:
		s.reconcileReplicas(c)
	}
}

// wanted returns how many active pods the controller keeps. One that has no such
// number, or that cannot be read, is taken to keep as many as it had.
func (s *Sim) wanted(c *replicaController) int32 {
	if w := s.truth.WorkloadOf(c.key()); w != nil && w.Replicas >= 0 && c.owner.Kind != "Job" {
		return w.Replicas
	}
	return c.found
}

// create makes a pod of the controller, for the scheduler where node is "".
func (s *Sim) create(c *replicaController, name, node string) {
	t := c.template
	p := &snapshot.Pod{
		Namespace: c.space, Name: name, UID: types.UID("sim-" + s.version()),
		Node: node, Labels: t.Labels, Owner: c.owner,
		Phase: corev1.PodPending, Created: s.now, Grace: t.Grace,
		Priority: t.Priority, PriorityClass: t.PriorityClass,
		EmptyDirs: t.EmptyDirs, Claims: claimsFor(t, name),
		Requests: t.Requests, NodeSelector: t.NodeSelector, NodeAffinity: t.NodeAffinity, Tolerations: t.Tolerations,
		DeletionCost: templateCost(t), SpreadHosts: t.SpreadHosts, Order: t.Order, OrderInvalid: t.OrderInvalid,
	}
	if node == "" && s.cfg.Binds != nil {
		node = s.cfg.Binds(p)
	}
	if node == "" && s.cfg.Schedule == nil {
		s.scheduler.start()
		node, p.NotReadyWhy = s.scheduler.find(p)
		p.Unschedulable = node == ""
	}
	if node != "" {
		s.bind(p, node)
	}
	s.setPod(p)
	switch {
	case node != "":
		s.bring(p)
	case p.Unschedulable:
		s.scheduler.queue = append(s.scheduler.queue, p.UID)
	default:
		s.queue(p)
	}
}

// claimsFor names the claims of a copy: those that carry the pod's name follow it,
// the others are shared.
func claimsFor(template *snapshot.Pod, name string) []string {
	if len(template.Claims) == 0 || name == template.Name {
		return template.Claims
	}
	claims := make([]string, len(template.Claims))
	for i, claim := range template.Claims {
		claims[i] = claim
		if rest, ok := strings.CutPrefix(claim, template.Name+"-"); ok {
			claims[i] = name + "-" + rest
		} else if volume, ok := strings.CutSuffix(claim, "-"+template.Name); ok {
			claims[i] = volume + "-" + name
		}
	}
	return claims
}
