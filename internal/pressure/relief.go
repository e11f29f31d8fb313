package pressure

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Requester is the name under which EvictionRequests are made on account of pressure.
const Requester = "pressure.usher.sh"

// Relief is what the agent remembers from one look at its node to the next. The zero value is an agent that has just
// started. It is changed by Next alone and can be kept as JSON.
type Relief struct{}

// ReliefInput is one look at a node.
type ReliefInput struct {
	Now        time.Time
	Node       Node
	Pods       []Pod
	Thresholds []Threshold
	Config     Config
	Order      Order
	// Refused holds the answer to the latest attempt at a pod, until it is tried again.
	Refused map[types.UID]Refusal
	// Leaving are pods that were asked to go and are not gone; pods that are Terminating count as well.
	Leaving []Leaving
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
	// Remove: delete the pod, with the UID as precondition and Grace, past budgets.
	Remove ActionKind = "Remove"
	// KillLocally: kill the processes in the pod's cgroup; then, where the apiserver answers, delete the pod.
	KillLocally ActionKind = "KillLocally"
	// Wait: nothing is to be done now; Message says for what it is waited.
	Wait ActionKind = "Wait"
	// Say: make the node's conditions and taints of Usher those in Conditions.
	Say ActionKind = "Say"
)

// Action is something to be done, in the order in which they are returned.
type Action struct {
	Kind ActionKind `json:"kind"`
	// Pod is set for Evict, Request, Withdraw, Remove and KillLocally.
	Pod *Pod `json:"pod,omitempty"`
	// Grace is how long the pod gets; 0: its own.
	Grace time.Duration `json:"grace,omitempty"`
	// BreakGlass: the pod goes although its policy blocks it; the annotation is to be written first, with Message as reason.
	BreakGlass bool `json:"breakGlass,omitempty"`
	// Threshold is why.
	Threshold *Threshold `json:"threshold,omitempty"`
	// Reason is for machines, Message for people.
	Reason  ReliefReason `json:"reason"`
	Message string       `json:"message"`
	// Conditions are the node's conditions that are true now, all of them; set for Say.
	Conditions []corev1.NodeConditionType `json:"conditions,omitempty"`
	// For is when to look again at the latest; set for Wait.
	For time.Duration `json:"for,omitempty"`
	// Ranking is the order at that moment; set where a pod is to go.
	Ranking []Ranked `json:"ranking,omitempty"`
}

// ReliefReason says for machines why something is done or waited for.
type ReliefReason string

// Next is one look of the agent: what it remembers then, and what is to be done. The Relief given is not changed.
func (r Relief) Next(in ReliefInput) (Relief, []Action) { return r, nil }
