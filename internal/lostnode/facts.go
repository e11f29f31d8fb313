package lostnode

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
)

// Node is what decisions know of a node.
type Node struct {
	Name            string
	UID             types.UID
	ResourceVersion string
	BootID          string // "" where its kubelet has not said
	Zone            string
	Labels          map[string]string
	Ready           corev1.ConditionStatus // "" where it has no such condition
	Since           time.Time              // since when Ready is what it is
	Taints          []corev1.Taint
}

// Unreachable reports whether the node's kubelet has sent no heartbeat for the grace period of Kubernetes.
func (n *Node) Unreachable() bool { return n.Ready == corev1.ConditionUnknown }

// outOfService returns the node's taint, nil where it has none.
func (n *Node) outOfService() *corev1.Taint {
	at := slices.IndexFunc(n.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeOutOfService && t.Effect == corev1.TaintEffectNoExecute
	})
	if at < 0 {
		return nil
	}
	return &n.Taints[at]
}

// Lease is what is known of a node's Lease in kube-node-lease.
type Lease struct {
	Known   bool      // it was read, or is known not to be there
	Renewed time.Time // by the kubelet's clock; zero: there is none, so nothing renews it
	Error   string    // why it is not known
}

// silence returns for how long the Lease was not renewed. A time in the future is no silence: unknown is unsafe.
func (l Lease) silence(now time.Time) (time.Duration, bool) {
	if !l.Known {
		return 0, false
	}
	if l.Renewed.IsZero() {
		return 1<<63 - 1, true
	}
	return now.Sub(l.Renewed), true
}

// Policy is a LostNodePolicy as it stands in the cluster.
type Policy struct {
	Object *v1alpha1.LostNodePolicy
	// Problem says why it cannot be used, "" where it can.
	Problem string
}

// selects reports whether the policy is for nodes with these labels. A selector that cannot be read selects all: the node may be meant.
func (p *Policy) selects(set map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(&p.Object.Spec.NodeSelector)
	return err != nil || selector.Matches(labels.Set(set))
}

// window is how long a node must be silent. What the schema would refuse counts as its limit.
func (p *Policy) window() time.Duration {
	return max(v1alpha1.MinUnreachableAfter, p.Object.Spec.UnreachableAfter.Duration)
}

func (p *Policy) mostPerZone() int { return int(max(1, p.Object.Spec.MaxPerZone)) }

// version tells one spec of the policy from another, also where it was deleted and made anew.
func (p *Policy) version() string { return fmt.Sprintf("%s/%d", p.Object.UID, p.Object.Generation) }

// unusable says why the policy does nothing, "" where it works.
func (p *Policy) unusable() string {
	switch {
	case p.Object.DeletionTimestamp != nil:
		return "policy " + p.Object.Name + " is being deleted"
	case p.Problem != "":
		return "policy " + p.Object.Name + " cannot be used: " + p.Problem
	case p.Object.Spec.Suspend:
		return "policy " + p.Object.Name + " is suspended; unset spec.suspend to go on"
	}
	return ""
}

// FenceName names the fence of one silence of one boot of one node: whoever makes it, a second one cannot be made.
func FenceName(node *Node) string {
	const longest = 253 - 11
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %d", node.UID, node.BootID, node.Since.Unix()))
	name := node.Name
	if len(name) > longest {
		name = strings.TrimRight(name[:longest], "-.")
	}
	return name + "-" + hex.EncodeToString(sum[:5])
}

// NewFence returns the fence of a node that is unreachable now.
func NewFence(node *Node, policy string) *v1alpha1.NodeFence {
	return &v1alpha1.NodeFence{
		ObjectMeta: metav1.ObjectMeta{Name: FenceName(node), Finalizers: []string{v1alpha1.FenceFinalizer}},
		Spec: v1alpha1.NodeFenceSpec{
			NodeName: node.Name, NodeUID: node.UID, BootID: node.BootID, UnreachableSince: metav1.NewTime(node.Since), Policy: policy,
		},
	}
}

// of reports whether a fence is of this Node, whatever its boot.
func of(fence *v1alpha1.NodeFence, node *Node) bool {
	return fence.Spec.NodeName == node.Name && fence.Spec.NodeUID == node.UID
}

// sameSilence reports whether the node has not answered since the fence was begun.
func sameSilence(fence *v1alpha1.NodeFence, node *Node) bool {
	return of(fence, node) && node.BootID == fence.Spec.BootID && node.Unreachable() && node.Since.Unix() == fence.Spec.UnreachableSince.Unix()
}

// ProvenOff reports whether one of the fences proves that the node, in the boot in which it was lost, is off: no process runs on it.
// One that answers, has booted anew or is another of the name is not.
func ProvenOff(node *Node, fences []*v1alpha1.NodeFence) bool {
	return slices.ContainsFunc(fences, func(f *v1alpha1.NodeFence) bool {
		return f.DeletionTimestamp == nil && !f.Status.Over() && f.Status.ProvenTime != nil && f.Status.Taint != "" && sameSilence(f, node)
	})
}
