package nodepressure

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
)

// Pod is what counts of a pod when its node runs short.
type Pod struct {
	Namespace string             `json:"namespace"`
	Name      string             `json:"name"`
	UID       types.UID          `json:"uid"`
	Priority  int32              `json:"priority"`
	QoS       corev1.PodQOSClass `json:"qos"`
	// Exempt says why the pod is never evicted: "mirror pod", which is how the API shows static pods, "critical priority", or "stays by its policy"; "" if it may be.
	Exempt string `json:"exempt,omitempty"`
	// NodeCritical: an exempt pod of priority class system-node-critical, which the kubelet has the kernel spare.
	NodeCritical bool        `json:"nodeCritical,omitempty"`
	Requests     Requests    `json:"requests"`
	Containers   []Container `json:"containers,omitempty"`
	// Terminating: it was deleted and is shutting down.
	Terminating bool `json:"terminating,omitempty"`
	// Grace is how long the pod may take to shut down: its own, or the one it was deleted with.
	Grace time.Duration `json:"grace"`
	// SpecGrace is the grace of the pod's spec, at least a second, where the pod was deleted with more than that; else 0.
	SpecGrace time.Duration `json:"specGrace,omitempty"`
	// DeletedAt is when it was deleted, as far as is known.
	DeletedAt time.Time `json:"deletedAt,omitzero"`
	// Governed: a policy looks after the pod; Policy is that policy's name (cut to 63 characters).
	Governed bool   `json:"governed,omitempty"`
	Policy   string `json:"policy,omitempty"`
	// OnPressure is what the policy says of a hard threshold; "": WhenAllowed.
	OnPressure v1alpha1.PressureMode `json:"onPressure,omitempty"`
	// DaemonSet: its controller starts it again on the same node at once.
	DaemonSet bool `json:"daemonSet,omitempty"`
	// Usage is nil where nothing is known of what the pod uses.
	Usage *Usage `json:"usage,omitempty"`
}

// Key is the pod's namespace and name, for people.
func (p *Pod) Key() string { return p.Namespace + "/" + p.Name }

// setDeletionGrace enters the grace that the pod was deleted with; Grace is that of its spec before.
func (p *Pod) setDeletionGrace(grace time.Duration) {
	if grace > p.Grace {
		p.SpecGrace = max(p.Grace, leastGrace)
	}
	p.Grace = grace
}

// evictionGrace is the longest that the pod gets when it is evicted: the grace of its spec or, if that is shorter, the one that
// it was deleted with. The kubelet goes by the spec, and what it has begun to end gets no more time than before
// (calculateEffectiveGracePeriod in its pod_workers.go).
func (p *Pod) evictionGrace() time.Duration {
	if p.SpecGrace != 0 {
		return p.SpecGrace
	}
	return p.Grace
}

// Requests is what a pod asked for when it was scheduled, its overhead included, in bytes.
type Requests struct {
	Memory int64 `json:"memory"`
	Disk   int64 `json:"disk"` // ephemeral storage
	// PodMemory: the memory request is the pod's own, not the sum of its containers'.
	PodMemory bool `json:"podMemory,omitempty"`
}

// Container is what counts of a container.
type Container struct {
	Name    string `json:"name"`
	Init    bool   `json:"init,omitempty"`
	Sidecar bool   `json:"sidecar,omitempty"` // an init container that keeps running
	// MemoryRequest and DiskRequest are the container's own, in bytes.
	MemoryRequest int64 `json:"memoryRequest"`
	DiskRequest   int64 `json:"diskRequest,omitempty"`
	// OOMRequest is the memory that the kernel's score spares it for, in bytes: its request, its share of what the pod
	// asked for beyond its containers, and for a sidecar not less than the smallest of the main containers.
	OOMRequest int64 `json:"oomRequest,omitempty"`
	// OOMScoreAdj is what the machine shows; nil: what the kubelet would set.
	OOMScoreAdj *int `json:"oomScoreAdj,omitempty"`
	// Restart is the restart policy that applies to the container when the kernel has killed it: its own, that of a rule for
	// the exit code 137, or its pod's. "": unknown.
	Restart corev1.RestartPolicy `json:"restart,omitempty"`
	// Usage is resident memory and swap, in bytes; -1: unknown.
	Usage int64 `json:"usage"`
	// WorkingSet is memory that cannot be dropped, in bytes; Disk is writable layer and logs; 0: unknown or none.
	WorkingSet int64 `json:"workingSet,omitempty"`
	Disk       int64 `json:"disk,omitempty"`
}

// FsPart is a part of what a pod keeps on local disk.
type FsPart string

// The parts.
const (
	WritableLayers FsPart = "writable layers"
	Logs           FsPart = "logs"
	Volumes        FsPart = "volumes" // emptyDir and other volumes on local disk
)

// FsUse is what a part takes up.
type FsUse struct {
	Bytes  int64 `json:"bytes"`
	Inodes int64 `json:"inodes"`
}

// Usage is what a pod used at one moment.
type Usage struct {
	At     time.Time `json:"at"`
	Memory int64     `json:"memory"` // working set, in bytes
	PIDs   int64     `json:"pids"`
	// Disk has no entry for what is not known, which counts as nothing.
	Disk map[FsPart]FsUse `json:"disk,omitempty"`
	// DiskAt is when Disk was measured; zero: At.
	DiskAt time.Time `json:"diskAt,omitzero"`
}
