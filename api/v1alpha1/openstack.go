package v1alpha1

// OpenStack is a region of an OpenStack cloud. A member's id is its host, as `openstack compute service list` and `openstack network agent list` have it, in
// every role: id: pod.node in spec.members, where hosts are called like their nodes. The account must be one of Usher's own that may administrate the region:
// what is on its way in its name is taken for Usher's, and is called off when an eviction is withdrawn.
type OpenStack struct {
	// Clouds is a clouds.yaml, as OpenStack's own clients read it. It may not name files.
	Clouds SecretKey `json:"clouds"`
	// Cloud is the one of its entries that is used. Default: the only one.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Cloud string `json:"cloud,omitempty"`
	// Region is a region of the cloud's catalog. Default: region_name of the entry, or the only one.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Region string `json:"region,omitempty"`
	// CA is the certificate authority (PEM) that signed the certificates of all endpoints. Default: those of the machine.
	// +optional
	CA *SecretKey `json:"ca,omitempty"`
	// Servers says what is done with the servers of a host that is to be empty, by their state.
	// +optional
	// +kubebuilder:default={}
	Servers ServersByState `json:"servers,omitzero"`
	// MigrationsAtOnce is how many servers leave one host at the same time: Nova's max_concurrent_live_migrations. As many again, and two at
	// least, are handed to Nova, which queues them, so that none waits for Usher. Default: 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	MigrationsAtOnce int32 `json:"migrationsAtOnce,omitempty"`
}

// ServersByState says what is done with servers by their state. A server in a state that is not here keeps its host, and is named.
type ServersByState struct {
	// Active servers run. ColdMigrate shuts them down and starts them elsewhere. Default: LiveMigrate.
	// +optional
	// +kubebuilder:default=LiveMigrate
	// +kubebuilder:validation:Enum=LiveMigrate;ColdMigrate;Block
	Active ServerMode `json:"active,omitempty"`
	// Paused servers have their memory on the host. Default: LiveMigrate.
	// +optional
	// +kubebuilder:default=LiveMigrate
	// +kubebuilder:validation:Enum=LiveMigrate;Block
	Paused ServerMode `json:"paused,omitempty"`
	// Stopped servers have at most a disk on the host. Default: ColdMigrate.
	// +optional
	// +kubebuilder:default=ColdMigrate
	// +kubebuilder:validation:Enum=ColdMigrate;Block;Stay
	Stopped ServerMode `json:"stopped,omitempty"`
	// Suspended servers have their memory on the host's disk, and Nova moves none. Default: Block.
	// +optional
	// +kubebuilder:default=Block
	// +kubebuilder:validation:Enum=Block;Stay
	Suspended ServerMode `json:"suspended,omitempty"`
	// Error is the state of servers of which Nova does not know how they are. Default: Block.
	// +optional
	// +kubebuilder:default=Block
	// +kubebuilder:validation:Enum=Block;Stay
	Error ServerMode `json:"error,omitempty"`
	// Resized servers wait for their owner to confirm or to revert a resize. Confirm takes that choice away. Default: Block.
	// +optional
	// +kubebuilder:default=Block
	// +kubebuilder:validation:Enum=Confirm;Block
	Resized ServerMode `json:"resized,omitempty"`
}

// ServerMode says what is done with a server: it is moved while it runs (LiveMigrate) or is down (ColdMigrate), its resize is confirmed (Confirm), it keeps
// its host from being empty (Block), or it does not count, and stays (Stay).
type ServerMode string

// The modes.
const (
	ServerLiveMigrate ServerMode = "LiveMigrate"
	ServerColdMigrate ServerMode = "ColdMigrate"
	ServerConfirm     ServerMode = "Confirm"
	ServerBlock       ServerMode = "Block"
	ServerStay        ServerMode = "Stay"
)
