package act

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/text"
)

type heardKey struct {
	policy types.UID
	pod    types.UID
	name   string
	undo   bool
}

func (g *Governed) prepare(ctx context.Context, action eviction.Action) drain.Answer {
	policy, err := g.Book.Policy(ctx, action.Policy)
	if err != nil {
		return AnswerOf(err)
	}
	job, err := g.Keeper.Prepare(ctx, policy, action.Step)
	g.hear(policy, eviction.Heard{Step: action.Step, Job: job}, err)
	return systemAnswer(err)
}

func (g *Governed) undo(ctx context.Context, action eviction.Action) drain.Answer {
	policy, err := g.Book.Policy(ctx, action.Policy)
	if err != nil {
		return AnswerOf(err)
	}
	done, err := g.Keeper.Undo(ctx, policy, action.Step)
	g.hear(policy, eviction.Heard{Step: action.Step, Undo: true, Done: done}, err)
	return systemAnswer(err)
}

func systemAnswer(err error) drain.Answer {
	switch {
	case err == nil:
		return drain.Answer{Code: drain.Accepted}
	case errors.Is(err, system.ErrTerminal):
		return rejected(err.Error())
	}
	return drain.Answer{Code: drain.Unavailable, Message: err.Error()}
}

func (g *Governed) hear(policy *v1alpha1.EvictionPolicy, heard eviction.Heard, err error) {
	if err != nil {
		heard.Error, heard.Terminal, heard.Done = text.Line(err.Error()), errors.Is(err, system.ErrTerminal), false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.heard == nil {
		g.heard = map[heardKey]eviction.Heard{}
	}
	g.heard[heardKey{policy.UID, heard.Step.UID, heard.Step.Name, heard.Undo}] = heard
}

// Heard returns what the policy's system said to the last call for each step that its status still names, and forgets
// the rest.
func (g *Governed) Heard(policy *v1alpha1.EvictionPolicy) []eviction.Heard {
	g.mu.Lock()
	defer g.mu.Unlock()
	var heard []eviction.Heard
	for key, said := range g.heard {
		switch {
		case key.policy != policy.UID:
		case namesStep(policy, said):
			heard = append(heard, said)
		default:
			delete(g.heard, key)
		}
	}
	return heard
}

// Forget drops what the system of a policy that is gone has said.
func (g *Governed) Forget(policy types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for key := range g.heard {
		if key.policy == policy {
			delete(g.heard, key)
		}
	}
}

func namesStep(policy *v1alpha1.EvictionPolicy, said eviction.Heard) bool {
	for i := range policy.Status.Preparations {
		p := &policy.Status.Preparations[i]
		if p.UID == said.Step.UID && p.Name == said.Step.Name {
			return true
		}
	}
	return false
}
