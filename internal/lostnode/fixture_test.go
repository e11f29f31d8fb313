package lostnode

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
)

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

func lostNode(name string, change ...func(*Node)) Node {
	node := Node{
		Name: name, UID: types.UID("uid-" + name), BootID: "boot-1", Zone: "a", Ready: corev1.ConditionUnknown,
		Since: noon.Add(-10 * time.Minute), ResourceVersion: "7",
	}
	for _, f := range change {
		f(&node)
	}
	return node
}

func policyOf(fence v1alpha1.Fence, change ...func(*v1alpha1.LostNodePolicy)) *Policy {
	object := &v1alpha1.LostNodePolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "all", Generation: 3},
		Spec: v1alpha1.LostNodePolicySpec{
			UnreachableAfter: metav1.Duration{Duration: 5 * time.Minute}, Fence: fence, Then: v1alpha1.ThenOutOfService, MaxPerZone: 1,
		},
	}
	for _, f := range change {
		f(object)
	}
	return &Policy{Object: object}
}

func httpFence(repeat v1alpha1.RepeatMode) v1alpha1.Fence {
	return v1alpha1.Fence{HTTP: &v1alpha1.HTTPFence{Repeat: repeat, ProvenWithin: metav1.Duration{Duration: 10 * time.Minute}}}
}

var ironicFence = v1alpha1.Fence{Ironic: &v1alpha1.IronicFence{ProvenWithin: metav1.Duration{Duration: 10 * time.Minute}}}

// silentLease was renewed last when the node was lost.
func silentLease() Lease { return Lease{Known: true, Renewed: noon.Add(-11 * time.Minute)} }

func conditionOf(status *v1alpha1.NodeFenceStatus, kind string) metav1.ConditionStatus {
	if c := meta.FindStatusCondition(status.Conditions, kind); c != nil {
		return c.Status
	}
	return ""
}

func message(status *v1alpha1.NodeFenceStatus) string {
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady); c != nil {
		return c.Message
	}
	return ""
}

func at(t time.Time) *metav1.Time { return &metav1.Time{Time: t} }

var usherTaint = corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: v1alpha1.OutOfServiceValue, Effect: corev1.TaintEffectNoExecute}
