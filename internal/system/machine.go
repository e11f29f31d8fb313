package system

import (
	"context"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/snapshot"
)

// Machine is the node whose machine is meant, as the apiserver has it.
type Machine struct {
	Node       *snapshot.Node // without annotations: any client may write those
	ProviderID string
	Addresses  map[string]string // the first of each type
}

// Scope is what a fence's templates may speak of, with what was answered about the machine.
func (m Machine) Scope(answer any) *expression.Scope {
	return &expression.Scope{
		Node: m.Node, Machine: &expression.Machine{ProviderID: m.ProviderID, Addresses: m.Addresses, Answer: answer}, CostBudget: eviction.NewCostBudget(),
	}
}

// Fence turns machines off, and looks whether they are.
type Fence interface {
	// Off asks for a machine to be turned off, once. It says what became of the request: what may have been received is Unknown.
	Off(ctx context.Context, machine Machine) (v1alpha1.RequestResult, string)
	// State says whether a machine is off, and what says so. Whatever is no clear answer is Unknown.
	State(ctx context.Context, machine Machine) (v1alpha1.PowerState, string)
	// Close lets go of connections.
	Close()
}
