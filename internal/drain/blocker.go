package drain

import (
	"time"

	"usher.sh/usher/internal/snapshot"
)

// Reason says what keeps a pod or a node. The set is closed.
type Reason string

// The reasons.
const (
	// Objections of the four filters (source 004, "Special pods to delete").
	DaemonSetPod     Reason = "DaemonSetPod"
	OrphanedDaemon   Reason = "OrphanedDaemonSetPod"
	UnreplicatedPod  Reason = "UnreplicatedPod"
	LocalStorage     Reason = "LocalStorage"
	UnreadableRecord Reason = "UnreadableRecord"

	// Budgets.
	BudgetExhausted   Reason = "BudgetExhausted"
	BudgetNeverAllows Reason = "BudgetNeverAllows"
	BudgetNotObserved Reason = "BudgetNotObserved"
	TwoBudgets        Reason = "SeveralBudgets"

	// Answers of the server.
	DeniedByAdmission   Reason = "DeniedByAdmission"
	NamespaceEnding     Reason = "NamespaceTerminating"
	ServerAskedToWait   Reason = "ServerAskedToWait"
	NoPermission        Reason = "NoPermission"
	ServerUnavailable   Reason = "ServerUnavailable"
	RejectedByServer    Reason = "RejectedByServer"
	ChangedMeanwhile    Reason = "ChangedMeanwhile"
	EvidenceUnavailable Reason = "EvidenceUnavailable" // something needed could not be read

	// Governed pods.
	AskedFor      Reason = "AskedFor"      // an EvictionRequest was made and no responder has taken it up yet
	SystemDecides Reason = "SystemDecides" // the system that the pod belongs to has not let it go yet

	// Pods on their way out.
	Leaving          Reason = "Terminating"
	HeldByFinalizers Reason = "HeldByFinalizers"
	NodeUnreachable  Reason = "NodeUnreachable"
	OverdueOnNode    Reason = "OverdueOnNode"
	VolumeAttached   Reason = "VolumeAttached"

	// Order.
	EarlierWave Reason = "EarlierWave"
	EarlierRole Reason = "EarlierRole" // by the policy that governs it
	// StartedAfterCordon is of a pod that does not tolerate the cordon and is not evicted, lest that go on without end.
	StartedAfterCordon Reason = "StartedAfterCordon"
	NodeWaitsTurn      Reason = "NodeWaitsItsTurn"
	AnotherDrain       Reason = "AnotherDrain"
	NodeNotCordoned    Reason = "NodeNotCordoned"
	NodeReplaced       Reason = "NodeReplaced"
	DrainEnded         Reason = "DrainEnded"

	// Surge.
	SurgeStarting      Reason = "SurgeStarting"
	ReplacementPending Reason = "ReplacementPending"
	RolloutUnderway    Reason = "RolloutUnderway"
	NotReplaced        Reason = "NotReplaced"

	// Warnings. UnreplicatedPod, OrphanedDaemon and LocalStorage are such once they are accepted.
	WillBeLost  Reason = "WillBeLost"  // as things stand, it will not have left when its node goes
	NotInTime   Reason = "NotInTime"   // … by the deadline, after which its node stays
	FitsNowhere Reason = "FitsNowhere" // as things stand, no other node takes what is made in its place
	GraceCut    Reason = "GraceCut"    // it gets less time to end than it asks for
)

// Blocker is one thing that keeps a pod on its node, or a drain from being done.
type Blocker struct {
	Reason  Reason
	Pod     snapshot.Key // zero for a blocker of a node
	Node    string
	Message string    // what is wrong and what it waits for
	Remedy  string    // what would unblock it; a command where there is one
	Since   time.Time // zero if unknown
	Retry   time.Time // when it is looked at again without an event; zero: only on an event
	Dead    bool      // it cannot clear by itself
}
