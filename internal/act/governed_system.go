package act

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/share"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/text"
)

type replyKey struct {
	policy types.UID
	pod    types.UID
	name   string
	undo   bool
}

// said is what a system replied, and the version of the policy by which it was asked.
type said struct {
	reply   eviction.Reply
	version string
}

// callKey is by the member, to which the system does what it is asked, and not by the pod.
type callKey struct {
	policy       types.UID
	member, name string
}

func (g *Governed) prepare(ctx context.Context, action eviction.Action) answers.Answer {
	return g.call(ctx, action, func(ctx context.Context, policy *v1alpha1.EvictionPolicy) (eviction.Reply, error) {
		job, err := g.Observer.Prepare(ctx, g.Policies.Source(policy), action.Step)
		return eviction.Reply{Step: action.Step, Job: job}, err
	})
}

func (g *Governed) undo(ctx context.Context, action eviction.Action) answers.Answer {
	return g.call(ctx, action, func(ctx context.Context, policy *v1alpha1.EvictionPolicy) (eviction.Reply, error) {
		undone, err := g.Observer.Undo(ctx, g.Policies.Source(policy), action.Step)
		return eviction.Reply{Step: action.Step, Undo: true, Done: undone.Done, Left: undone.Left, Retry: undone.Retry}, err
	})
}

// callsEach is how many calls to the systems of one namespace may be under way.
const callsEach = 4

var errManyCalls = fmt.Errorf("the systems of the policy's namespace have not answered %d calls yet, and no more are made at a time: "+
	"see that they answer (kubectl get evictionpolicy)", callsEach)

// call asks a system beside the worker where Answered is set, in line otherwise. Calls for one step of a member never overlap, whichever pod
// it has: one that is late could begin again what was taken back, or take back what was begun for the pod that follows.
func (g *Governed) call(
	ctx context.Context, action eviction.Action, ask func(context.Context, *v1alpha1.EvictionPolicy) (eviction.Reply, error),
) answers.Answer {
	policy, err := g.Policies.Policy(ctx, action.Policy)
	if err != nil {
		return answers.Of(err)
	}
	if g.Answered == nil {
		reply, err := ask(ctx, policy)
		g.receive(policy, reply, err)
		return systemAnswer(err)
	}
	key := callKey{policy: policy.UID, member: action.Step.Member.ID, name: action.Step.Name}
	end, busy := g.begin(policy.Namespace, key, action.Step)
	switch {
	case busy:
		return answers.Answer{Code: answers.Accepted} // its answer is still to come
	case end == nil:
		g.receive(policy, eviction.Reply{Step: action.Step, Undo: action.Kind == eviction.Undo}, errManyCalls)
		return systemAnswer(errManyCalls)
	}
	ctx = context.WithoutCancel(ctx) // the Observer gives it the policy's time
	go func() {
		defer g.Answered(policy)
		defer end()
		reply, err := ask(ctx, policy)
		g.receive(policy, reply, err)
	}()
	return answers.Answer{Code: answers.Accepted}
}

// begin notes that a call is made, unless the last one of its step is under way (busy) or the namespace has its share (end is nil).
func (g *Governed) begin(namespace string, key callKey, step eviction.Preparation) (end func(), busy bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, busy := g.calling[key]; busy {
		return nil, true
	}
	if g.shares == nil {
		g.shares, g.calling = share.New(callsEach), map[callKey]eviction.Preparation{}
	}
	release, ok := g.shares.Try(namespace)
	if !ok {
		return nil, false
	}
	g.calling[key] = step
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.calling, key)
		release()
	}, false
}

func systemAnswer(err error) answers.Answer {
	switch {
	case err == nil:
		return answers.Answer{Code: answers.Accepted}
	case errors.Is(err, system.ErrTerminal):
		return rejected(err.Error())
	}
	return answers.Answer{Code: answers.Unavailable, Message: err.Error()}
}

func (g *Governed) receive(policy *v1alpha1.EvictionPolicy, reply eviction.Reply, err error) {
	if err != nil {
		reply.Error, reply.Terminal, reply.Done = text.Line(err.Error()), errors.Is(err, system.ErrTerminal), false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.replies == nil {
		g.replies = map[replyKey]said{}
	}
	g.replies[replyKey{policy.UID, reply.Step.Member.PodUID, reply.Step.Name, reply.Undo}] = said{reply, policy.ResourceVersion}
}

// UnderWay returns the calls for steps of the policy that its system has not answered. Read before Replies, so that no call is in neither.
func (g *Governed) UnderWay(policy *v1alpha1.EvictionPolicy) []eviction.Preparation {
	g.mu.Lock()
	defer g.mu.Unlock()
	var calls []eviction.Preparation
	for key, step := range g.calling {
		if key.policy == policy.UID {
			calls = append(calls, step)
		}
	}
	return calls
}

// Replies returns what the policy's system said to the last call for each step that its status names, and forgets what was said of steps
// that have ended. A policy that was read before a call was made does not tell that its step has.
func (g *Governed) Replies(policy *v1alpha1.EvictionPolicy) []eviction.Reply {
	g.mu.Lock()
	defer g.mu.Unlock()
	var replies []eviction.Reply
	for key, last := range g.replies {
		switch {
		case key.policy != policy.UID:
		case namesStep(policy, last.reply):
			replies = append(replies, last.reply)
		case !older(policy.ResourceVersion, last.version):
			delete(g.replies, key)
		}
	}
	return replies
}

// older reports whether one resource version is before another, false where they cannot be compared.
func older(version, other string) bool {
	order, err := resourceversion.CompareResourceVersion(version, other)
	return err == nil && order < 0
}

// Forget drops what the system of a policy that is gone has said.
func (g *Governed) Forget(policy types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for key := range g.replies {
		if key.policy == policy {
			delete(g.replies, key)
		}
	}
}

// namesStep goes by the member: a step of a pod that is gone is undone for the pod that follows it.
func namesStep(policy *v1alpha1.EvictionPolicy, reply eviction.Reply) bool {
	for i := range policy.Status.Preparations {
		p := &policy.Status.Preparations[i]
		if p.ID == reply.Step.Member.ID && p.Name == reply.Step.Name {
			return true
		}
	}
	return false
}
