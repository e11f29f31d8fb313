package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system"
)

// ErrNotLeader says that a member cannot hand over leadership because it has none.
var ErrNotLeader = errors.New("not the leader")

// ErrLearnerNotReady says that a learner cannot have a vote since it is too far behind the leader.
var ErrLearnerNotReady = errors.New("the learner is too far behind the leader")

// errForbidden says that the user may not do that.
var errForbidden = errors.New("permission denied")

func (c *cluster) Prepare(ctx context.Context, step eviction.Preparation) (eviction.Job, error) {
	if step.Name != MoveLeader {
		return eviction.Job{}, fmt.Errorf("preparing %s: etcd has no step %s: %w", step.Member.ID, step.Name, system.ErrTerminal)
	}
	if err := c.moveLeader(ctx, step.Member.ID); err != nil {
		return eviction.Job{}, fmt.Errorf("moving leadership from %s: %w", step.Member.ID, err)
	}
	return eviction.Job{}, nil
}

// Undo has nothing to take back: any voter may lead.
func (c *cluster) Undo(context.Context, eviction.Preparation) (eviction.Undone, error) {
	return eviction.Undone{Done: true}, nil
}

func (c *cluster) moveLeader(ctx context.Context, from string) error {
	l, err := c.look(ctx)
	if err != nil {
		return err
	}
	v := judge(l)
	member := v.named(from)
	switch {
	case member == nil:
		return errors.New("no member of that name is in the list of members")
	case v.leader == nil:
		return errors.New("no leader that a quorum agrees on")
	case v.leader != member:
		return nil
	case !member.answered():
		return errors.New("it leads, and " + member.why)
	}
	target := v.transferTarget(c.maxLag)
	if target == nil {
		return errors.New("no other voter is healthy and caught up")
	}
	ctx, cancel := context.WithTimeout(ctx, c.share(ctx, 1))
	defer cancel()
	return moved(target, c.api.MoveLeader(ctx, member.url, target.ID))
}

func moved(target *memberState, err error) error {
	switch {
	case errors.Is(err, ErrNotLeader):
		return nil // it went elsewhere in the meantime; the evidence will show where
	case errors.Is(err, errForbidden):
		return fmt.Errorf("to %s: %s (the user needs etcd's role root): %w", target.label(), words(err), system.ErrTerminal)
	case err != nil:
		return fmt.Errorf("to %s: %s", target.label(), words(err))
	}
	return nil
}

// named finds a member by its name, if that is unique, or by its id.
func (v *view) named(name string) *memberState {
	i := slices.IndexFunc(v.members, func(s *memberState) bool { return s.Name == name })
	if i >= 0 && v.unique(name) {
		return v.members[i]
	}
	i = slices.IndexFunc(v.members, func(s *memberState) bool { return hexID(s.ID) == name })
	if i < 0 {
		return nil
	}
	return v.members[i]
}

// transferTarget is the most advanced voter that may lead instead of the leader, nil if none may. Of equals, the one with the lowest
// id, so that two requests at once are for the same.
func (v *view) transferTarget(maxLag int64) *memberState {
	var best *memberState
	for _, s := range v.others(v.leader) {
		if s.healthy() && s.caughtUp(maxLag) && (best == nil || s.status.Applied > best.status.Applied) {
			best = s
		}
	}
	return best
}
