package maintenance

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
)

// Want is what is to become of a node.
type Want string

// What may be wanted of a node. Of one that is not in the orders nothing is: a drain that has ended is forgotten.
const (
	// DrainNode: a drain runs under the order's terms, unless one under these has come to its end.
	DrainNode Want = "drain"
	// CheckNode: what objects to a drain under the order's terms is looked for, and nothing is done to the node.
	CheckNode Want = "check"
	// StopDrain: a drain ends, with what it asked for withdrawn and its surges reverted; the cordon stays.
	StopDrain Want = "stop"
	// GiveBack: a drain ends so, and what Usher cordoned is uncordoned.
	GiveBack Want = "give-back"
	// KeepDrain: nothing is done, and what is known of a drain stays so: what was decided by it is not in the API before its write is accepted, and is decided
	// anew where that is not.
	KeepDrain Want = "keep"
)

// Order is what is to be done about one node.
type Order struct {
	Node  string
	Want  Want
	Terms Terms
}

// Hook is a hook to be called.
type Hook struct {
	Call

	URL     string
	Timeout time.Duration
	Body    HookBody
}

// HookBody is what a hook is sent, as JSON.
type HookBody struct {
	Maintenance string `json:"maintenance"`
	Requester   string `json:"requester"`
	Reason      string `json:"reason,omitempty"`
	Node        string `json:"node"`
	NodeUID     string `json:"nodeUID"`
	ProviderID  string `json:"providerID,omitempty"`
}

// Replacement is a node for whose members ReplacementRequests are to be made: those whose data is on it alone.
type Replacement struct {
	Call

	Node      string
	Requester string
	Gone      bool // only for those whose pods have left it
}

// Deletion is a Node to be deleted, as it was seen: one that was uncordoned since is not.
type Deletion struct {
	Call

	Node            string
	ResourceVersion string
}

// NodeConditions are conditions to be set on a node, and types of such to be taken off it.
type NodeConditions struct {
	Node   string
	Set    []corev1.NodeCondition
	Remove []corev1.NodeConditionType
}

// Decision is what to do now, and how things stand.
type Decision struct {
	Orders       []Order
	Hooks        []Hook
	Replacements []Replacement
	Deletions    []Deletion
	Conditions   []NodeConditions
	Marks        []Marks
	// Statuses are those that are to change, by the name of the maintenance.
	Statuses map[string]*v1alpha1.NodeMaintenanceStatus
	// Adopt are the names of maintenances that get the finalizer, Release of those that lose it.
	Adopt, Release []string
	// Next is when to look again without an event; zero: only on one.
	Next time.Time
}
