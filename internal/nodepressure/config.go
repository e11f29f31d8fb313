package nodepressure

import (
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Config holds the eviction fields of KubeletConfiguration, under the same names.
type Config struct {
	// EvictionHard maps signals to quantities or percentages of capacity: below them it is acted at once. Absent: the
	// defaults; given but empty: none.
	EvictionHard map[string]string `json:"evictionHard,omitzero"`
	// EvictionSoft maps signals to quantities or percentages: it is acted after being below them for the grace period.
	EvictionSoft map[string]string `json:"evictionSoft,omitempty"`
	// EvictionSoftGracePeriod maps the signals of EvictionSoft to durations ("90s"), longer than 0.
	EvictionSoftGracePeriod map[string]string `json:"evictionSoftGracePeriod,omitempty"`
	// EvictionMinimumReclaim maps signals to how far above its threshold a signal has to come before relief ends.
	EvictionMinimumReclaim map[string]string `json:"evictionMinimumReclaim,omitempty"`
	// EvictionPressureTransitionPeriod is how long a node keeps its condition after the last breach. 0: 5 minutes.
	EvictionPressureTransitionPeriod metav1.Duration `json:"evictionPressureTransitionPeriod,omitzero"`
	// EvictionMaxPodGracePeriod is the longest grace, in seconds, that a pod gets at a soft threshold; below 0: the pod's own.
	EvictionMaxPodGracePeriod int32 `json:"evictionMaxPodGracePeriod,omitempty"`
	// MergeDefaultEvictionSettings fills signals that EvictionHard does not name from the defaults.
	MergeDefaultEvictionSettings *bool `json:"mergeDefaultEvictionSettings,omitempty"`
	// EnforceNodeAllocatable lists what the node enforces its reservations on; "pods" (the default) lets hard memory
	// thresholds count for allocatable memory as well.
	EnforceNodeAllocatable []string `json:"enforceNodeAllocatable,omitzero"`
}

const defaultTransition = 5 * time.Minute

// Default returns what the kubelet of Kubernetes 1.37 does on Linux when nothing is configured.
func Default() Config { return Config{}.withDefaults() }

func defaultHard() map[string]string {
	return map[string]string{
		string(MemoryAvailable):   "100Mi",
		string(NodeFsAvailable):   "10%",
		string(NodeFsInodesFree):  "5%",
		string(ImageFsAvailable):  "15%",
		string(ImageFsInodesFree): "5%",
	}
}

// withDefaults fills what is absent, as the kubelet does.
func (c Config) withDefaults() Config {
	switch {
	case c.EvictionHard == nil:
		c.EvictionHard = defaultHard()
	case c.MergeDefaultEvictionSettings != nil && *c.MergeDefaultEvictionSettings:
		merged := defaultHard()
		maps.Copy(merged, c.EvictionHard)
		c.EvictionHard = merged
	}
	if c.EvictionPressureTransitionPeriod.Duration == 0 {
		c.EvictionPressureTransitionPeriod.Duration = defaultTransition
	}
	if c.EnforceNodeAllocatable == nil {
		c.EnforceNodeAllocatable = []string{"pods"}
	}
	return c
}

// enforcesPods reports whether the pods' cgroup has the limit that allocatable memory is measured against.
func (c Config) enforcesPods() bool { return slices.Contains(c.EnforceNodeAllocatable, "pods") }
