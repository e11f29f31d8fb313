package manager

// What the packages that the manager runs need is said beside their Setup. These are the rest: for the controllers of
// evictions, which any program may embed under a role of its own, and for the lease.

// +kubebuilder:rbac:groups=lifecycle.k8s.io;lifecycle.usher.sh,resources=evictionrequests/status,verbs=patch
// +kubebuilder:rbac:groups=lifecycle.k8s.io;lifecycle.usher.sh,resources=evictions,verbs=create;patch
// +kubebuilder:rbac:groups="",namespace=usher-system,resources=events,verbs=create;patch
