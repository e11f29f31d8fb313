package nodepressure

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ReliefInput is one look at a node.
type ReliefInput struct {
	Now  time.Time
	Node Node
	// Pods are those on the node that have not ended: no Failed and no Succeeded ones.
	Pods       []Pod
	Thresholds []Threshold
	// Config gives the transition period and the longest grace at a soft threshold (0 or below: the pod's own).
	Config Config
	// Order is OrderQoS where it is empty.
	Order Order
	// Refused holds the answer to the latest attempt at a pod.
	Refused map[types.UID]Refusal
	// Leaving are pods that were asked to go and are not gone; pods that are Terminating count as well.
	Leaving []Leaving
	// Busy are pods on which an action is under way.
	Busy map[types.UID]bool
	// Written is what may stand of what agents of this node have written for its pods. What is known to be taken back is not
	// among it.
	Written []Written
	// Reachable: the apiserver answers.
	Reachable bool
	// Rates is how fast what is available changes, in units per second; below 0: it shrinks. No entry: not known.
	Rates map[Signal]float64
	// Self is the agent's own pod, "" if it is not one.
	Self types.UID
}

// Refusal is why a pod could not be evicted.
type Refusal struct {
	At        time.Time
	Reason    string
	Message   string
	LookAgain time.Time
	// Never: no waiting and no preparation will change it.
	Never bool
}

// Leaving is a pod on its way.
type Leaving struct {
	UID   types.UID
	Since time.Time
	Grace time.Duration
	// Local: its processes were killed on the node.
	Local bool
}

// ActionKind says what is to be done.
type ActionKind string

// The kinds.
const (
	// Evict: ask the eviction API, with the UID as precondition, and with Grace where it is not 0.
	Evict ActionKind = "Evict"
	// Request: make an EvictionRequest in the name of Requester, so that the pod is prepared to leave.
	Request ActionKind = "Request"
	// Withdraw: take the EvictionRequest back.
	Withdraw ActionKind = "Withdraw"
	// Unbreak: take the annotation that breaks the glass off the pod where its value is Value.
	Unbreak ActionKind = "Unbreak"
	// Remove: delete the pod, with the UID as precondition and Grace, past budgets.
	Remove ActionKind = "Remove"
	// KillLocally: kill the processes in the pod's cgroup; then, where the apiserver answers, delete the pod.
	KillLocally ActionKind = "KillLocally"
	// Wait: nothing is to be done now; Message says for what it is waited.
	Wait ActionKind = "Wait"
	// Say: make the node's conditions and taints of Usher those in Conditions.
	Say ActionKind = "Say"
)

// Action is something to be done. Actions are to be done in the order in which they are returned; those that speed matters
// for come first.
type Action struct {
	Kind ActionKind `json:"kind"`
	// Pod is set for all kinds but Wait and Say. For Withdraw and Unbreak it has a name and UID alone.
	Pod *Pod `json:"pod,omitempty"`
	// Grace is how long the pod gets; 0: its own.
	Grace time.Duration `json:"grace,omitempty"`
	// BreakGlass: the pod goes although its policy blocks it; the annotation is to be written first, with GlassOf Message as value.
	BreakGlass bool `json:"breakGlass,omitempty"`
	// Value is the annotation's that is to be taken back; set for Unbreak.
	Value string `json:"value,omitempty"`
	// Threshold is why; nil for Say, Withdraw and Unbreak.
	Threshold *Threshold `json:"threshold,omitempty"`
	// Reason is for machines, Message for people.
	Reason  ReliefReason `json:"reason"`
	Message string       `json:"message"`
	// Conditions are the node's conditions that are true now, all of them; set for Say.
	Conditions []corev1.NodeConditionType `json:"conditions,omitempty"`
	// For is after what time it is worth looking again; set for Wait, 0: with the next reading.
	For time.Duration `json:"for,omitempty"`
	// Ranking is the order at that moment, with why each pod was passed over; set where a pod is to go, and for Wait if none may.
	Ranking []Ranked `json:"ranking,omitempty"`
}

// ReliefReason says for machines why something is done or waited for.
type ReliefReason string

// The reasons.
const (
	// Why a pod is to go.
	ReasonSoft       ReliefReason = "SoftThreshold" // a soft threshold's grace has passed
	ReasonHard       ReliefReason = "HardThreshold" // below a hard threshold
	ReasonExhaustion ReliefReason = "Exhaustion"    // below a hard threshold, and asking would take too long
	ReasonAlone      ReliefReason = "Alone"         // below a hard threshold, and the apiserver does not answer
	ReasonLastResort ReliefReason = "LastResort"    // below a hard threshold, and no other pod can help
	ReasonOverdue    ReliefReason = "Overdue"       // below a hard threshold, was removed, and has not ended

	// Why something is taken back.
	ReasonRelieved ReliefReason = "Relieved" // no pressure stands behind it any more
	ReasonRefused  ReliefReason = "Refused"  // the pod will never be allowed to go

	// What is waited for.
	ReasonGrace       ReliefReason = "Grace"       // a soft threshold's grace is running
	ReasonLeaving     ReliefReason = "Leaving"     // a pod is on its way
	ReasonSettling    ReliefReason = "Settling"    // a pod has gone and what it used is not seen back
	ReasonPausing     ReliefReason = "Pausing"     // a pod was killed a moment ago
	ReasonNoCandidate ReliefReason = "NoCandidate" // no pod may go or would help
	ReasonUnreachable ReliefReason = "Unreachable" // the apiserver does not answer
	ReasonUnread      ReliefReason = "Unread"      // a reading is missing or too old

	// What is said.
	ReasonPressure   ReliefReason = "Pressure"   // the node has conditions
	ReasonNoPressure ReliefReason = "NoPressure" // it has none
)
