package maintenance

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
)

// conditionTypes are the conditions of KEP-5683 that maintenances set on nodes.
var conditionTypes = []corev1.NodeConditionType{
	corev1.NodeMaintenancePlanned, corev1.NodeDrainInProgress, corev1.NodeDrained, corev1.NodeMaintenanceInProgress,
}

// Sets reports whether maintenances set conditions of this type on nodes.
func Sets(kind corev1.NodeConditionType) bool { return slices.Contains(conditionTypes, kind) }

// messagePrefix begins the message of every condition that maintenances set: those of other clients are left alone.
const messagePrefix = "NodeMaintenance "

// conditionReason is KEP-5683's for what a requester has asked for.
const conditionReason = "AdminRequested"

// noteConditions has the conditions of nodes say where they are in their maintenance, and taken off once none wants them.
func (d *decider) noteConditions() {
	for _, n := range d.Nodes {
		wanted, by := d.conditionsOf(n)
		change := NodeConditions{Node: n.Name}
		for _, kind := range conditionTypes {
			now := n.condition(kind)
			own := now != nil && strings.HasPrefix(now.Message, messagePrefix)
			status, some := wanted[kind]
			switch {
			case !some && own:
				change.Remove = append(change.Remove, kind)
			case some && (now == nil || own && (now.Status != status || now.Message != messagePrefix+by)):
				change.Set = append(change.Set, corev1.NodeCondition{Type: kind, Status: status, Reason: conditionReason, Message: messagePrefix + by})
			}
		}
		if len(change.Set)+len(change.Remove) > 0 {
			d.out.Conditions = append(d.out.Conditions, change)
		}
	}
}

// conditionsOf returns the conditions that a node is to have, and the names of the maintenances that it has them for.
func (d *decider) conditionsOf(n *Node) (map[corev1.NodeConditionType]corev1.ConditionStatus, string) {
	var names []string
	planned, draining, drained := false, false, false
	for _, w := range d.works {
		e := w.stored(n.Name)
		switch {
		case !w.live():
			continue
		case e == nil && !w.waitsFor(n.Name):
			continue
		case e == nil, e.Step == v1alpha1.StepDraining && (!w.active() || !d.touched(n) && !d.turns[n.Name]):
			planned = true
		case e.Step == v1alpha1.StepDraining:
			draining = true
		default:
			drained = true
		}
		names = append(names, w.m.Name)
	}
	by := strings.Join(names, ", ")
	status := func(on bool) corev1.ConditionStatus {
		if on {
			return corev1.ConditionTrue
		}
		return corev1.ConditionFalse
	}
	switch {
	case draining || drained:
		return map[corev1.NodeConditionType]corev1.ConditionStatus{
			corev1.NodeDrainInProgress:       status(draining),
			corev1.NodeDrained:               status(!draining),
			corev1.NodeMaintenanceInProgress: status(drained),
		}, by
	case planned:
		return map[corev1.NodeConditionType]corev1.ConditionStatus{corev1.NodeMaintenancePlanned: corev1.ConditionTrue}, by
	}
	return nil, ""
}
