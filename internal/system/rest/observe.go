package rest

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
)

const (
	parallel = 8 // questions at a time
	maxNotes = 3 // silent members that a summary names
)

// asked is one question to one member, or to the system, and what came of it.
type asked struct {
	question
	member string // "" for the system
	urls   []string
	answer any
	err    error
}

func (w *web) Observe(ctx context.Context, members []system.Member) (*eviction.Evidence, error) {
	w.remember(members)
	return w.observe(ctx, members)
}

// observe asks the system about itself and the members, and does not remember them.
func (w *web) observe(ctx context.Context, members []system.Member) (*eviction.Evidence, error) {
	effort := eviction.NewCostBudget()
	all := w.questions(members, effort)
	w.askAll(ctx, all)
	e := &eviction.Evidence{System: expression.Facts{}, Members: map[string]expression.Facts{}}
	for _, m := range members {
		e.Members[m.ID] = expression.Facts{}
	}
	var failures, silent lines
	for _, q := range all {
		switch {
		case q.member == "" && q.err != nil:
			failures = append(failures, fmt.Errorf("fact %s: %w", q.name, q.err))
		case q.member == "":
			e.System[q.name] = q.answer
		case q.err != nil:
			silent = append(silent, fmt.Errorf("%s has no %s: %w", q.member, q.name, q.err))
		default:
			e.Members[q.member][q.name] = q.answer
		}
	}
	if len(failures) > 0 {
		return nil, failures
	}
	e.Summary = w.line(&expression.Scope{System: e.System, CostBudget: effort}, silent)
	return e, nil
}

func (w *web) questions(members []system.Member, effort *expression.CostBudget) []*asked {
	var all []*asked
	add := func(q question, member string, scope *expression.Scope) {
		urls, err := q.url.at(w.endpoints, scope)
		all = append(all, &asked{question: q, member: member, urls: urls, err: err})
	}
	for _, q := range w.facts {
		add(q, "", &expression.Scope{CostBudget: effort})
	}
	for _, m := range members {
		for _, q := range w.memberFacts {
			add(q, m.ID, &expression.Scope{Member: m.ID, Role: m.Role, Pod: m.Pod, CostBudget: effort})
		}
	}
	return all
}

func (w *web) askAll(ctx context.Context, all []*asked) {
	var wait sync.WaitGroup
	in, slots := newIntake(ctx, maxAll), make(chan struct{}, parallel)
	for _, q := range all {
		if q.err != nil {
			continue
		}
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			q.answer, q.err = w.get(ctx, in, q.urls)
		})
	}
	wait.Wait()
}

// line is the policy's summary, and after it the questions without an answer.
func (w *web) line(scope *expression.Scope, silent lines) string {
	var parts []string
	if w.summary != nil {
		value, err := w.summary.Eval(scope)
		if err != nil {
			parts = append(parts, "no summary: "+err.Error())
		} else {
			parts = append(parts, excerpt([]byte(expression.Print(value))))
		}
	}
	for i, err := range silent {
		if i == maxNotes {
			parts = append(parts, fmt.Sprintf("and %d more", len(silent)-maxNotes))
			break
		}
		parts = append(parts, err.Error())
	}
	return strings.Join(parts, "; ")
}

// remember keeps the pods for the steps, which get only the member's reference.
func (w *web) remember(members []system.Member) {
	pods := map[types.UID]*snapshot.Pod{}
	for _, m := range members {
		if m.Pod != nil {
			pods[m.Pod.UID] = m.Pod
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods = pods
}
