package rest

import (
	"context"
	"fmt"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/system"
)

var _ system.Membership = (*web)(nil)

// replaceStep is a request, and what shows that it is done.
type replaceStep struct {
	name string
	do   call
	done *expression.Expression
}

func replaceSteps(l *expression.Language, field string, spec []v1alpha1.ReplaceStep) ([]replaceStep, error) {
	open, err := expression.NewLanguage(expression.Schema{Open: true})
	if err != nil {
		return nil, err
	}
	var all []replaceStep
	for i := range spec {
		do, err := newCall(l, spec[i].Do)
		if err != nil {
			return nil, fmt.Errorf("replace.%s %s: %w", field, spec[i].Name, err)
		}
		done, err := open.Expression(spec[i].Done, expression.Bool)
		if err != nil {
			return nil, fmt.Errorf("replace.%s %s: done: %w", field, spec[i].Name, err)
		}
		all = append(all, replaceStep{name: spec[i].Name, do: do, done: done})
	}
	return all, nil
}

// pending is the first of some steps that is not done, and why that is not known; nil: all are done.
type pending struct {
	step    *replaceStep
	unknown error
}

func (p pending) words() string {
	if p.unknown != nil {
		return fmt.Sprintf("%s is asked for until it is done, and whether it is done is not known: %s", p.step.name, p.unknown)
	}
	return p.step.name + " is asked for, and is not done yet"
}

// Listed implements system.Membership. The system's own list is not known: a member has left, or has joined, when the policy's steps are done.
func (w *web) Listed(ctx context.Context, member system.Member, predecessor *v1alpha1.MemberRegistration) (system.Listing, error) {
	listing := system.Listing{Member: &v1alpha1.MemberRegistration{ID: member.ID}, Joined: true}
	if len(w.leave)+len(w.join) == 0 {
		return listing, nil
	}
	scope, err := w.scope(ctx, member)
	if err != nil {
		return system.Listing{}, err
	}
	listing.Predecessor = predecessor != nil && first(w.leave, scope).step != nil
	listing.Joined = first(w.join, scope).step == nil
	return listing, nil
}

// Leave asks for the first step of the policy's by which a member leaves that is not done.
func (w *web) Leave(ctx context.Context, member system.Member, _ *v1alpha1.MemberRegistration) (missing string, err error) {
	return w.ask(ctx, w.leave, member)
}

// Join asks for the first step of the policy's by which a successor joins that is not done.
func (w *web) Join(ctx context.Context, member system.Member, _ *v1alpha1.MemberRegistration) (missing string, err error) {
	return w.ask(ctx, w.join, member)
}

func (w *web) ask(ctx context.Context, steps []replaceStep, member system.Member) (missing string, err error) {
	if len(steps) == 0 {
		return "", nil
	}
	scope, err := w.scope(ctx, member)
	if err != nil {
		return "", err
	}
	next := first(steps, scope)
	if next.step == nil {
		return "", nil
	}
	if err := w.call(ctx, next.step.do, member); err != nil {
		return "", fmt.Errorf("%s of %s: %w", next.step.name, member.ID, err)
	}
	return next.words(), nil
}

// scope is what the system says of itself and the member.
func (w *web) scope(ctx context.Context, member system.Member) (*expression.Scope, error) {
	e, err := w.observe(ctx, []system.Member{member})
	if err != nil {
		return nil, err
	}
	return &expression.Scope{Member: member.ID, Role: member.Role, Facts: e.Members[member.ID], System: e.System, CostBudget: eviction.NewCostBudget()}, nil
}

func first(steps []replaceStep, scope *expression.Scope) pending {
	for i := range steps {
		done, err := steps[i].done.Eval(scope)
		if is, _ := done.(bool); err != nil || !is {
			return pending{step: &steps[i], unknown: err}
		}
	}
	return pending{}
}
