package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	nethttp "net/http"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
)

// step is a request, and the one that takes it back.
type step struct {
	do   call
	undo *call
}

type call struct {
	method string
	url    *address
	body   *expression.Template // nil: none
}

func newStep(l *expression.Language, spec v1alpha1.Step) (step, error) {
	do, err := newCall(l, spec.Do)
	if err != nil || spec.Undo == nil {
		return step{do: do}, err
	}
	undo, err := newCall(l, *spec.Undo)
	if err != nil {
		return step{}, fmt.Errorf("undo: %w", err)
	}
	return step{do: do, undo: &undo}, nil
}

func newCall(l *expression.Language, spec v1alpha1.Call) (call, error) {
	url, err := newAddress(l, spec.URL)
	if err != nil || spec.Body == "" {
		return call{method: spec.Method, url: url}, err
	}
	body, err := l.Template(spec.Body)
	if err != nil {
		return call{}, fmt.Errorf("body: %w", err)
	}
	return call{method: spec.Method, url: url, body: body}, nil
}

func (w *web) Prepare(ctx context.Context, p eviction.Preparation) (eviction.Job, error) {
	s, ok := w.steps[p.Name]
	if !ok {
		return eviction.Job{}, fmt.Errorf("preparing %s: the policy has no step %s: %w", p.Member.ID, p.Name, system.ErrTerminal)
	}
	if err := w.call(ctx, s.do, w.member(p)); err != nil {
		return eviction.Job{}, fmt.Errorf("%s of %s: %w", p.Name, p.Member.ID, err)
	}
	return eviction.Job{}, nil
}

func (w *web) Undo(ctx context.Context, p eviction.Preparation) (eviction.Undone, error) {
	s, ok := w.steps[p.Name]
	if !ok || s.undo == nil { // a step that its owner has taken out of the policy says nothing of how to take it back
		return eviction.Undone{Done: true}, nil
	}
	err := w.call(ctx, *s.undo, w.member(p))
	if said, ok := errors.AsType[*refusal](err); ok && said.code == nethttp.StatusNotFound && s.undo.method == nethttp.MethodDelete {
		return eviction.Undone{Done: true}, nil // it is gone, which is what was asked for
	}
	if err != nil {
		return eviction.Undone{}, fmt.Errorf("undoing %s of %s: %w", p.Name, p.Member.ID, err)
	}
	return eviction.Undone{Done: true}, nil
}

func (w *web) call(ctx context.Context, c call, m system.Member) error {
	scope := &expression.Scope{Member: m.ID, Role: m.Role, Pod: m.Pod, CostBudget: eviction.NewCostBudget()}
	urls, err := c.url.at(w.endpoints, scope)
	if err != nil {
		return err
	}
	r := request{method: c.method}
	if c.body != nil {
		if r.body, err = c.body.ExpandJSON(scope); err != nil {
			return fmt.Errorf("body: %w", err)
		}
		if !json.Valid([]byte(r.body)) {
			return fmt.Errorf("body is not JSON: %s: %w", excerpt([]byte(r.body)), system.ErrTerminal)
		}
	}
	return w.do(ctx, r, urls)
}

// member is a step's, with its pod as it was observed last; of one that was not, no more is known than the step says. It is nil where the
// member has none.
func (w *web) member(p eviction.Preparation) system.Member {
	return system.Member{MemberRef: p.Member, Pod: w.pod(p)}
}

func (w *web) pod(p eviction.Preparation) *snapshot.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	if pod := w.pods[p.Member.PodUID]; pod != nil {
		return pod
	}
	if p.Member.PodName == "" {
		return nil
	}
	return &snapshot.Pod{Namespace: p.Namespace, Name: p.Member.PodName, UID: p.Member.PodUID}
}
