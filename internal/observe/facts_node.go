package observe

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/text"
)

// NodeFacts returns what decisions know of a node. The facts share maps and slices
// with the object, which must not be changed afterwards.
func NodeFacts(node *corev1.Node) *snapshot.Node {
	facts := &snapshot.Node{
		Name:            node.Name,
		UID:             node.UID,
		ResourceVersion: node.ResourceVersion,
		Zone:            zone(node.Labels),
		Labels:          node.Labels,
		Taints:          node.Spec.Taints,
		Unschedulable:   node.Spec.Unschedulable,
		Allocatable: snapshot.Resources{
			MilliCPU: node.Status.Allocatable.Cpu().MilliValue(),
			Memory:   node.Status.Allocatable.Memory().Value(),
			Pods:     node.Status.Allocatable.Pods().Value(),
		},
	}
	facts.Ready, facts.ReadyWhy = nodeReady(node)
	record, err := snapshot.ParseDrainRecord(node.Annotations[snapshot.DrainAnnotation])
	facts.Drain = record
	if err != nil {
		facts.DrainError = err.Error()
	}
	facts.Marks = snapshot.ParseMarks(node.Annotations[snapshot.MarksAnnotation])
	if facts.Unschedulable && (record != nil || facts.KeepsCordon()) {
		facts.CordonedBy, facts.CordonLost = cordonedBy(node)
	}
	return facts
}

// cordonFacts returns what is known of a node by its metadata, and by whether it is schedulable.
func cordonFacts(node *metav1.PartialObjectMetadata, unschedulable bool) *snapshot.Node {
	facts := NodeFacts(&corev1.Node{ObjectMeta: node.ObjectMeta, Spec: corev1.NodeSpec{Unschedulable: unschedulable}})
	facts.ReadyWhy = "its status was not read"
	return facts
}

// Field managers that the apiserver makes up: for its oldest entries, which it merges where more than ten clients have updated
// an object, and for what was there before the first apply. Usher's own writes may be among them.
const (
	ancientChanges   = "ancient-changes"
	beforeFirstApply = "before-first-apply"
)

// cordonedBy returns the field manager that owns the node's cordon where that is known not to be Usher, and whether Usher owns it no
// more. What sets a field to the value that it has does not own it, unless by server-side apply, and takes it from no other owner: a
// manager that has it alone has set it after the node was schedulable.
func cordonedBy(node *corev1.Node) (by string, alone bool) {
	alone = true
	for i := range node.ManagedFields {
		m := &node.ManagedFields[i]
		switch {
		case m.FieldsV1 == nil || !ownsCordon(m.FieldsV1.GetRawBytes()):
		case m.Manager == snapshot.FieldManager, m.Manager == ancientChanges, m.Manager == beforeFirstApply:
			alone = false
		case by == "":
			by = text.Line(m.Manager)
		}
	}
	return by, alone && by != ""
}

func ownsCordon(fields []byte) bool {
	var owned struct {
		Spec struct {
			Unschedulable *struct{} `json:"f:unschedulable"`
		} `json:"f:spec"`
	}
	return json.Unmarshal(fields, &owned) == nil && owned.Spec.Unschedulable != nil
}

// zone prefers the label of today; clouds that began before Kubernetes 1.17 may
// still set only the one of then.
func zone(set map[string]string) string {
	if name, ok := set[corev1.LabelTopologyZone]; ok {
		return name
	}
	return set[corev1.LabelFailureDomainBetaZone]
}

// NodeReady reports whether the kubelet of a node reports that it is Ready, as far as the cluster knows.
func NodeReady(node *corev1.Node) bool {
	ready, _ := nodeReady(node)
	return ready
}

func nodeReady(node *corev1.Node) (ready bool, why string) {
	for i := range node.Status.Conditions {
		condition := &node.Status.Conditions[i]
		if condition.Type != corev1.NodeReady {
			continue
		}
		if condition.Status == corev1.ConditionTrue {
			return true, ""
		}
		return false, words(condition.Reason, condition.Message)
	}
	return false, "the node has not reported yet"
}
