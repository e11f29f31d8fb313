package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// FoundationDB is a FoundationDB cluster. It is asked through fdbcli, which the manager has with --fdbcli.
type FoundationDB struct {
	// ClusterFile is where the cluster file stands.
	ClusterFile ClusterFile `json:"clusterFile"`
	// Version is the version of FoundationDB that the cluster runs: 7.3.63. fdbcli must be of the same minor version.
	// +kubebuilder:validation:MaxLength=31
	// +kubebuilder:validation:Pattern=`^[1-9][0-9]*\.[0-9]+\.[0-9]+$`
	Version string `json:"version"`
	// Redundancy is the redundancy mode that the database is to have. With a lower one no member leaves. Default: any.
	// +optional
	Redundancy Redundancy `json:"redundancy,omitempty"`
	// Waits are times that are waited for before something is asked of the cluster.
	// +optional
	// +kubebuilder:default={}
	Waits FoundationDBWaits `json:"waits,omitzero"`
}

// ClusterFile names the entry of an object in the policy's namespace that holds a cluster file, DESCRIPTION:ID@IP:PORT,IP:PORT. Exactly one field
// is set.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:MaxProperties=1
type ClusterFile struct {
	// +optional
	ConfigMap *ConfigMapKey `json:"configMap,omitempty"`
	// +optional
	Secret *SecretKey `json:"secret,omitempty"`
}

// ConfigMapKey names one entry of a ConfigMap in the policy's namespace.
type ConfigMapKey struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
}

// Redundancy is a redundancy mode, as fdbcli's configure takes it.
//
// +kubebuilder:validation:Enum=single;double;triple;three_data_hall
type Redundancy string

// The redundancy modes.
const (
	RedundancySingle        Redundancy = "single"
	RedundancyDouble        Redundancy = "double"
	RedundancyTriple        Redundancy = "triple"
	RedundancyThreeDataHall Redundancy = "three_data_hall"
)

// FoundationDBWaits are times that are waited for before something is asked of a FoundationDB cluster. Each change of a cluster costs a recovery,
// and a recovery is over before it shows what it has left behind.
type FoundationDBWaits struct {
	// ExcludeAfterRecovery is how long the last recovery must be over before a process is excluded, 0s to 1h. Default: 2m.
	// +optional
	// +kubebuilder:default="2m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('1h')",message="must be from 0s to 1h"
	ExcludeAfterRecovery *metav1.Duration `json:"excludeAfterRecovery,omitempty"`
	// IncludeAfterRecovery is the same before a process is included again, 0s to 1h. Default: 10m.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('1h')",message="must be from 0s to 1h"
	IncludeAfterRecovery *metav1.Duration `json:"includeAfterRecovery,omitempty"`
	// Missing is how long a member without a process in the cluster's status may be about to come back, 2m to 1h. Until then no other member of its
	// role is excluded; after it the member counts as lost. Default: 5m.
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('2m') && duration(self) <= duration('1h')",message="must be from 2m to 1h: FoundationDB itself takes a minute to begin to make up for what is lost"
	Missing *metav1.Duration `json:"missing,omitempty"`
}
