package replacement

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
)

// StepInput is everything that the next step of one replacement looks at: of a member of a StatefulSet, which makes the successor under
// the member's name, or of one whose successor another controller makes (Delegated). Reads are as fresh as the writes that follow: the shell takes them past its cache.
type StepInput struct {
	Now    time.Time
	Member v1alpha1.MemberRef
	// Namespace is that of the request, and of all that the set has.
	Namespace string
	// Policy is the name of the member's.
	Policy string
	// Repair: no person has asked for it.
	Repair bool
	// Unfounded is why repair, which has asked for it, has no reason to any more; "": it has, or another has asked.
	Unfounded string
	// Cancelled: the request for it is being deleted.
	Cancelled bool
	// PermitTime is when it was written into the policy's status that the member is being replaced; zero: it is not there.
	PermitTime time.Time
	// PermittedFor is the name of another request for which the policy's status says that the member is being replaced; "": there is none.
	PermittedFor string
	// Rules are what keeps it from beginning: the blockers of the verdict on it, and what the policy lacks.
	Rules []Blocker
	// Abandonment is what a person gives up; the zero value is nothing.
	Abandonment Abandonment
	// Retain: volumes are kept when their claims go.
	Retain bool
	// Set makes the successor, unless Delegated says otherwise.
	Set Set
	// Delegated: the pod is deleted, or an object is patched, and what is left is its controller's affair; nil: it is not.
	Delegated *Delegated
	// Pod has the member's name; nil: there is none.
	Pod *NamedPod
	// Places are the nodes on which earlier pods of the member were and may still run, the latest last: a pod that was deleted by force from a
	// node that does not report runs on.
	Places []Place
	// Claims are those that the set's templates name for the member, whether they exist or not, and those that are written down.
	Claims []Claim
	// Unread are blockers for what could not be read of what is removed.
	Unread []Blocker
	// Grace is how long a pod of the member may take to end.
	Grace  time.Duration
	System Membership
	// StepTime is when the phase began.
	StepTime time.Time
	// Progress is what was written down last.
	Progress Progress
}

// Abandonment is a person's word that data of the member is given up which may be nowhere else.
type Abandonment struct {
	Requester string
	Rules     []string // of the member's role: whether they pass decides nothing
}

// Set is the StatefulSet whose pod the member is.
type Set struct {
	Name string
	// Makes: it exists, is not being deleted, and its replicas cover the member's ordinal.
	Makes Tristate
	// After is the first pod before the member's, where it makes them in order, that is not Ready: until that is it makes none after it. "": there is none.
	After string
}

// Delegated is how another controller is asked for a successor.
type Delegated struct {
	// Marked is what the member's MemberSet says of it; nil: it is of none.
	Marked *Marked
	// Patches: Target is patched; else the pod is deleted.
	Patches bool
	Target  Target
	// Unserved: the apiserver serves no objects of the target's kind, so that there is none; Unread says so.
	Unserved bool
	// Successors are pods of the member's role that were made since the predecessor began to go.
	Successors []Successor
	// LastMade is when the last pod of the member's role was made, before the predecessor begins to go; zero: there is none.
	LastMade time.Time
}

// Target is an object that is patched. Its UID is empty where it is not there.
type Target struct {
	TargetRef

	// Asked: it says that the member is to be replaced. Undoable: that can be taken back. Undone: it says so no more.
	Asked, Undone Tristate
	Undoable      bool
}

// TargetRef names an object.
type TargetRef struct {
	APIVersion, Kind, Name string
	UID                    types.UID
}

// Successor is a pod that may have taken over.
type Successor struct {
	Name  string
	UID   types.UID
	Node  string
	Ready bool
	// Reported: its system reports it as a member that does its work.
	Reported Tristate
}

// NamedPod is the pod that has the member's name now.
type NamedPod struct {
	UID         types.UID
	Version     string // its resource version
	Node        Node   // Name "": it is bound to none
	Ready       bool
	Terminating bool
	// DeletionTime is when its deletion began; zero: it has not, or that is not known.
	DeletionTime time.Time
	// Unscheduled is the scheduler's message, where it has found no node.
	Unscheduled string
}

// Place is where a pod of the member was.
type Place struct {
	Node Node
	// GoneTime is when the pod was seen gone from the API; zero: it was not.
	GoneTime time.Time
}

// Node is where a pod is, or was.
type Node struct {
	Name  string
	UID   types.UID // "": there is no such Node, or it was not read
	State NodeState
	// Cordoned: nothing is scheduled there.
	Cordoned bool
	Fence    string    // the name of a fence that is under way and proves nothing yet; "": there is none
	Since    time.Time // that it is alive: its kubelet has reported without a gap
	Until    time.Time // when its kubelet has reported last
}

// NodeState is what is known of a node.
type NodeState string

// The states of a node.
const (
	// NodeUnknown: it could not be read.
	NodeUnknown NodeState = ""
	// NodeAlive: its kubelet reports that it is ready, and removes what the API has no pod for.
	NodeAlive NodeState = "Alive"
	// NodeNotReady: its kubelet reports that it is not ready: it may be unable to end what it runs.
	NodeNotReady NodeState = "NotReady"
	// NodeLost: its kubelet does not report, and the machine is not proven off.
	NodeLost NodeState = "Lost"
	// NodeOff: the machine is proven off in the boot in which the pod was on it.
	NodeOff NodeState = "Off"
	// NodeDeleted: there is no such Node any more. Who deletes it says that the machine is gone, as the pod garbage collector takes it.
	NodeDeleted NodeState = "Deleted"
)

// Claim is a PersistentVolumeClaim that the set's template names for the member.
type Claim struct {
	Name        string
	UID         types.UID // "": it does not exist
	Terminating bool
	// Volume is the one that it is bound to; "": none. Known: the volume was read, and Retained says what becomes of it.
	Volume    string
	VolumeUID types.UID
	Known     bool
	Retained  bool
}

// Order is when a predecessor leaves its system's list of members, and when its successor joins.
//
// Of the orders only BySteps has both under one id, so that the system does not tell them apart.
type Order string

// The orders.
const (
	// LeavesFirst: the predecessor leaves before anything else of it goes, and its successor is on the list before it can start.
	LeavesFirst Order = "LeavesFirst"
	// LeavesLast: the successor joins by itself, and the predecessor leaves once it has.
	LeavesLast Order = "LeavesLast"
	// BySteps: the predecessor leaves before anything else of it goes, by steps that its policy has, and its successor joins by others once it is
	// Ready.
	BySteps Order = "BySteps"
)

// Membership is what the system says of the member, where it is asked to change its list of members.
type Membership struct {
	// Order is when the predecessor leaves and the successor joins; "": nothing is asked of the system, and both are Yes.
	Order Order
	// Unread is why the list is not known; "": it is.
	Unread string
	// Elsewhere: another system answers than the one whose list has what is written down, as Unread says: that one is not known again.
	Elsewhere bool
	// Member is its entry under the member's id; nil: there is none.
	Member *v1alpha1.MemberRegistration
	// MemberFailed: the system says that the one that Member is about has failed; another may be at its address.
	MemberFailed bool
	// Left: the predecessor is not in it. Joined: the successor has its whole part there, and Successor is its entry, nil: it has none.
	Left, Joined Tristate
	Successor    *v1alpha1.MemberRegistration
	// Reported: the system reports the successor as a member that does its work.
	Reported Tristate
}

// Progress is what is written down of a replacement, before anything is done that rests on it.
type Progress struct {
	Phase Phase
	// Node is the predecessor's; no successor is accepted there. PodUID and Claims are what goes, and nothing else: what has another UID
	// was made later.
	Node    string
	NodeUID types.UID // "": there was no such Node any more
	PodUID  types.UID
	Claims  []ClaimRef
	// StartTime is when it began to go. Target is the object that is patched; empty: none is.
	StartTime time.Time
	Target    TargetRef
	// Registration is the predecessor's entry in its system's list; nil: there is no such list.
	Registration *v1alpha1.MemberRegistration
	// LeftTime is when the steps BySteps were seen to be done by which the predecessor leaves; zero: they were not. From then on its system is
	// not asked whether it has left: under its id it may have the successor.
	LeftTime time.Time
}

// ClaimRef is a claim that goes, and the volume that it is bound to.
type ClaimRef struct {
	Name   string
	UID    types.UID
	Volume string
}

// Phase is how far a replacement is.
type Phase string

// The phases.
const (
	// Waiting: nothing was done that a cancellation would have to undo.
	Waiting Phase = ""
	// Removing: what is left of the predecessor goes. There is no way back.
	Removing Phase = "Removing"
	// Joining: nothing is left of it, and the successor is waited for.
	Joining Phase = "Joining"
	// Complete: the successor does its work.
	Complete Phase = "Complete"
	// Cancelled: the request was withdrawn before anything was done, or when the set made no successor any more.
	Cancelled Phase = "Cancelled"
)

// Over reports whether nothing more happens.
func (p Phase) Over() bool { return p == Complete || p == Cancelled }

// StepResult is what follows. Actions are carried out in their order; when one is refused, the rest is dropped and everything is looked at
// again.
type StepResult struct {
	Actions  []Action
	Blockers []Blocker
	// Waived are what would be Blockers, if the rules that they are about were not given up.
	Waived []Blocker
	// NextLook is when to look again if nothing happens before; zero: only when something happens.
	NextLook time.Time
	// Successor is the pod that takes over, of those in Delegated; nil: none does yet.
	Successor *Successor
}

// Action is one thing to do.
type Action struct {
	Kind ActionKind
	// Progress is what Write writes down.
	Progress Progress
	// Name and UID are of the object that goes or is changed, Version is the pod's: one that was bound meanwhile has another.
	Name    string
	UID     types.UID
	Version string
	// Registration is the entry that leaves, or whose place the successor takes.
	Registration *v1alpha1.MemberRegistration
}

// ActionKind says what an Action does.
type ActionKind string

// The kinds.
const (
	Permit       ActionKind = "permit"       // the policy's status says that the member is being replaced
	Release      ActionKind = "release"      // it says so no more
	Write        ActionKind = "write"        // Progress, at the version of the request that was read
	Leave        ActionKind = "leave"        // Registration: the system takes it off its list
	RetainVolume ActionKind = "retainVolume" // Name, UID: the reclaim policy of the PersistentVolume becomes Retain
	DeletePod    ActionKind = "deletePod"    // Name, UID, Version
	DeleteClaim  ActionKind = "deleteClaim"  // Name, UID
	Patch        ActionKind = "patch"        // the target of Delegated asks for the successor
	Undo         ActionKind = "undo"         // that is taken back
	Join         ActionKind = "join"         // Registration: the system puts its successor on its list, or gives that its part there
)

// Blocker is one thing that a replacement waits for.
type Blocker struct {
	Reason  Reason
	Message string
	Remedy  string
	// Rule is the rule of the role that does not pass; "": it is no rule's.
	Rule string
	// Never: nothing that is only waited for helps.
	Never bool
	// WaivedBy are the rules that have to be given up for it to hold no longer; nil: nothing that is given up helps.
	WaivedBy []string
}
