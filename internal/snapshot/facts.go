package snapshot

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Owner is a controller reference.
type Owner struct {
	APIVersion string
	Kind       string
	Name       string
	UID        types.UID
}

// OwnerOf returns the controller of an object, zero where none controls it.
func OwnerOf(object metav1.Object) Owner {
	ref := metav1.GetControllerOfNoCopy(object)
	if ref == nil {
		return Owner{}
	}
	return Owner{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name, UID: ref.UID}
}

// GroupKind is the owner's kind in whatever version. Kinds of one name in two groups are
// two kinds.
func (o Owner) GroupKind() schema.GroupKind {
	return schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).GroupKind()
}

// DaemonSet reports whether the owner is a DaemonSet of Kubernetes' own group apps, in
// whatever version. A controller of that kind in another group is a controller like any
// other: kubectl compares the group as well.
func (o Owner) DaemonSet() bool {
	return o.GroupKind() == schema.GroupKind{Group: "apps", Kind: "DaemonSet"}
}

// Pod is what decisions know of a pod.
type Pod struct {
	Namespace       string
	Name            string
	UID             types.UID
	ResourceVersion string
	Node            string // "" until scheduled
	Labels          map[string]string
	Annotations     map[string]string // only where a policy may ask for them
	IP              string            // "" until it has one
	Hostname        string            // its name within the cluster's DNS, the pod's own where it sets none
	Owner           Owner             // zero where no controller owns it
	Phase           corev1.PodPhase
	Created         time.Time
	Ready           bool
	ReadySince      time.Time // when the Ready condition last became true; zero if it is not
	NotReadyWhy     string    // Unschedulable message, waiting reason … as the API says it
	Unschedulable   bool      // the scheduler has said that no node fits
	Deletion        time.Time // deletionTimestamp: when the grace ends; zero if not terminating
	Grace           time.Duration
	Finalizers      []string
	Priority        int32
	PriorityClass   string
	Mirror          bool     // static pod, run by the kubelet from a file
	EmptyDirs       []string // names of emptyDir volumes
	Claims          []string // names of PersistentVolumeClaims, generic ephemeral ones included
	Requests        Resources
	NodeSelector    map[string]string
	NodeAffinity    *corev1.NodeSelector // required during scheduling; nil where the pod has none
	Tolerations     []corev1.Toleration
	SpreadHosts     bool   // a required anti-affinity to its own kind by hostname
	Order           int    // usher.sh/order; 0 where absent
	OrderInvalid    bool   // the annotation is not an integer, and counts as 0
	DeletionCost    string // controller.kubernetes.io/pod-deletion-cost as found
	CostMark        string // usher.sh/surge-cost: drain id that lowered the cost, and what it was before
}

// Resources is what a pod asks for or a node offers.
type Resources struct {
	MilliCPU int64
	Memory   int64 // bytes
	Pods     int64
}

// Key returns namespace and name.
func (p *Pod) Key() Key { return Key{Namespace: p.Namespace, Name: p.Name} }

// Ordinal is the number at the end of a StatefulSet's pod's name; 0 and false where it has none.
func (p *Pod) Ordinal() (int, bool) {
	n, err := strconv.Atoi(p.Name[strings.LastIndex(p.Name, "-")+1:])
	if err != nil {
		return 0, false
	}
	return n, true
}

// Terminating reports whether the API has accepted the pod's deletion.
func (p *Pod) Terminating() bool { return !p.Deletion.IsZero() }

// Finished reports whether the pod's containers have ended for good.
func (p *Pod) Finished() bool {
	return p.Phase == corev1.PodSucceeded || p.Phase == corev1.PodFailed
}

// Healthy reports whether a disruption controller counts the pod as healthy (countHealthyPods upstream), whatever its phase.
func (p *Pod) Healthy() bool { return p.Ready && !p.Terminating() }

// AvailableAt reports whether the pod has been ready for minReady and is staying.
func (p *Pod) AvailableAt(now time.Time, minReady time.Duration) bool {
	return p.Ready && !p.Terminating() && !p.ReadySince.Add(minReady).After(now)
}

// Node is what decisions know of a node.
type Node struct {
	Name            string
	UID             types.UID
	ResourceVersion string
	Zone            string // topology.kubernetes.io/zone, "" where absent
	Labels          map[string]string
	Annotations     map[string]string // only where a policy may ask for them
	LongAnnotations []string          // keys of those that are too long for that, where they were read
	Taints          []corev1.Taint
	Unschedulable   bool
	CordonedBy      string // the field manager that has cordoned it since Usher did; "" where none has, as far as is known
	CordonLost      bool   // CordonedBy has the cordon alone: the node was schedulable after any cordon of Usher's
	Ready           bool   // the Ready condition is True
	ReadyWhy        string
	Allocatable     Resources
	Drain           *DrainRecord // what a drain wrote on the node; nil where none did
	DrainError      string       // set where the record cannot be read
	Marks           []string     // what NodeMaintenances have set beside drains, by their record
}

// KeepsCordon reports whether a NodeMaintenance keeps the node cordoned beside drains, which leave the cordon then.
func (n *Node) KeepsCordon() bool { return slices.Contains(n.Marks, CordonMark) }

// UsherCordon reports whether a drain has cordoned the node, and nothing else did so since.
func (n *Node) UsherCordon() bool { return n.Drain != nil && n.Drain.Cordoned && n.CordonedBy == "" }

// KeptDrained reports whether the drain of this id has drained the node, which was not given back since.
func (n *Node) KeptDrained(drain string) bool {
	return n.Drain != nil && n.Drain.ID == drain && n.Drain.State == Drained && n.Unschedulable && !n.CordonedAnew()
}

// CordonedAnew reports whether the node was made schedulable after a drain had cordoned it, and cordoned by another client.
func (n *Node) CordonedAnew() bool {
	return n.Drain != nil && n.Drain.Cordoned && n.Unschedulable && n.CordonLost
}

// OutOfService reports whether the node is tainted as one that is off: the pod garbage collector removes what is terminating there.
func (n *Node) OutOfService() bool {
	return slices.ContainsFunc(n.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
}

// Budget is a PodDisruptionBudget.
type Budget struct {
	Namespace       string
	Name            string
	UID             types.UID
	ResourceVersion string
	Selector        labels.Selector
	MinAvailable    *intstr.IntOrString
	MaxUnavailable  *intstr.IntOrString
	AlwaysAllow     bool // unhealthyPodEvictionPolicy: AlwaysAllow
	Observed        bool // the controller has seen the current spec
	Allowed         int32
	Current         int32 // healthy pods
	Desired         int32 // healthy pods wanted
	Expected        int32 // pods counted
	Disrupted       map[string]time.Time
	BlockedSince    time.Time // when DisruptionAllowed last became false; zero if unknown
}

// Key returns namespace and name.
func (b *Budget) Key() Key { return Key{Namespace: b.Namespace, Name: b.Name} }

// Matches reports whether the budget counts the pod.
func (b *Budget) Matches(p *Pod) bool {
	return b.Namespace == p.Namespace && b.Selector.Matches(labels.Set(p.Labels))
}

// RolloutPaused is why a rollout does not go on that was paused.
const RolloutPaused = "its rollout is paused"

// Workload is a controller of pods.
type Workload struct {
	Kind            string // Deployment, ReplicaSet, StatefulSet, DaemonSet, ReplicationController, Job, or one of Group
	Group           string // API group of a kind that is not Kubernetes' own; "" for those of the list above
	Namespace       string
	Name            string
	UID             types.UID
	ResourceVersion string
	Owner           Owner
	Labels          map[string]string // of the pod template
	Selector        string            // a label selector of its pods; "": all of the namespace
	NodeName        string            // that the pod template names; "" where the scheduler decides
	Replicas        int32             // wanted; -1 where the kind has no such number
	MinReady        time.Duration
	Settled         bool   // the controller has seen the spec and no rollout is under way
	RolloutStuck    string // why a rollout that is under way does not go on; "" if it does, or none is
	PodsRefused     string // why its controller may not create pods, as the server has refused the last one; "" where it may
	NoOverlap       bool   // its rollouts never start a pod before one has ended: Recreate, or maxSurge 0
	Surge           *SurgeRecord
	SurgeError      string // set where the record cannot be read
	// Members are those of a MemberSet, by the names of their pods; nil: it is none.
	Members map[string]SetMember
}

// SetMember is a member of a MemberSet.
type SetMember struct {
	Group    string
	Replicas int32 // that its group is to have
	Stays    bool  // it does its work, and is not to be replaced or removed
}

// Key returns namespace and name.
func (w *Workload) Key() Key { return Key{Namespace: w.Namespace, Name: w.Name} }

// Autoscaler is a HorizontalPodAutoscaler.
type Autoscaler struct {
	Namespace       string
	Name            string
	UID             types.UID
	ResourceVersion string
	TargetKind      string
	TargetName      string
	Min             int32
	Max             int32
	Surge           *SurgeRecord
	SurgeError      string
}

// Key returns namespace and name.
func (a *Autoscaler) Key() Key { return Key{Namespace: a.Namespace, Name: a.Name} }

// Rules reports whether the autoscaler sets the workload's replicas.
func (a *Autoscaler) Rules(w *Workload) bool {
	return a.Namespace == w.Namespace && a.TargetKind == w.Kind && a.TargetName == w.Name
}

// Claim is a PersistentVolumeClaim.
type Claim struct {
	Namespace       string
	Name            string
	UID             types.UID
	ResourceVersion string
	Volume          string // PersistentVolume, "" until bound
	OfPod           bool   // it was made for one pod, and goes with that
	Shared          bool   // can be mounted on several nodes (ReadWriteMany, ReadOnlyMany)
}

// Key returns namespace and name.
func (v *Claim) Key() Key { return Key{Namespace: v.Namespace, Name: v.Name} }

// Attachment is a VolumeAttachment.
type Attachment struct {
	Name   string
	Node   string
	Volume string // PersistentVolume
}
