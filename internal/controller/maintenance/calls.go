package maintenance

import (
	"context"
	"maps"
	"sync"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/maintenance"
	"usher.sh/usher/internal/text"
)

// again is how long after a hook or a deletion has failed it is tried again.
const again = 10 * time.Second

const (
	// keepDone is how long it is remembered that a call was successful: longer than it takes to see the status that says so.
	keepDone = 10 * time.Minute
	// deletionPatience is how long the answer to a deletion is waited for.
	deletionPatience = 10 * time.Second
	// replacingPatience is how long it may take to find the members with data on a node, and to make requests for them.
	replacingPatience = time.Minute
)

// calls are the hooks that are called, the requests that are made and the Nodes that are deleted, each in its own goroutine: a hook that does not
// answer holds up nothing else. What is known of them is lost with the process: the next leader calls again.
type calls struct {
	mu    sync.Mutex
	known map[maintenance.Call]*call
}

type call struct {
	maintenance.Attempt

	underWay bool
	next     time.Time
}

func newCalls() *calls { return &calls{known: map[maintenance.Call]*call{}} }

func (c *calls) states() map[maintenance.Call]*maintenance.Attempt {
	c.mu.Lock()
	defer c.mu.Unlock()
	states := make(map[maintenance.Call]*maintenance.Attempt, len(c.known))
	for key, known := range c.known {
		states[key] = new(known.Attempt)
	}
	return states
}

// make begins what is due, forgets what is not wanted any more, and says when something is due next.
func (c *calls) make(ctx context.Context, r *reconciler, decision maintenance.Decision) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	wanted := map[maintenance.Call]bool{}
	var next time.Time
	for _, hook := range decision.Hooks {
		wanted[hook.Call] = true
		next = earlier(next, c.begin(ctx, r, hook.Call, func(ctx context.Context) string {
			if err := r.Act.CallHook(ctx, hook); err != nil {
				return err.Error()
			}
			return ""
		}))
	}
	for _, replacement := range decision.Replacements {
		wanted[replacement.Call] = true
		next = earlier(next, c.begin(ctx, r, replacement.Call, func(ctx context.Context) string {
			ctx, cancel := context.WithTimeout(ctx, replacingPatience)
			defer cancel()
			if err := r.replaceMembers(ctx, replacement); err != nil {
				return text.Line(err.Error())
			}
			return ""
		}))
	}
	for _, deletion := range decision.Deletions {
		wanted[deletion.Call] = true
		next = earlier(next, c.begin(ctx, r, deletion.Call, func(ctx context.Context) string {
			ctx, cancel := context.WithTimeout(ctx, deletionPatience)
			defer cancel()
			answer := r.Act.DeleteNode(ctx, deletion)
			if answer.Code == answers.Accepted || answer.Code == answers.Gone {
				return ""
			}
			return answer.Message
		}))
	}
	return earlier(next, c.forget(wanted, r.Now()))
}

// forget drops what is not wanted any more, and says when to look again: what a call has made may be to be withdrawn, and is seen by then.
func (c *calls) forget(wanted map[maintenance.Call]bool, now time.Time) (next time.Time) {
	maps.DeleteFunc(c.known, func(key maintenance.Call, known *call) bool {
		if wanted[key] || known.underWay {
			return false
		}
		if known.next.After(now) {
			next = earlier(next, known.next)
		}
		return !known.Done || known.next.Add(keepDone).Before(now)
	})
	return next
}

// begin tries a call, unless one is under way or the last has just failed. The caller holds the lock.
func (c *calls) begin(ctx context.Context, r *reconciler, key maintenance.Call, do func(context.Context) string) time.Time {
	known := c.known[key]
	if known == nil {
		known = &call{}
		c.known[key] = known
	}
	now := r.Now()
	if known.underWay || known.next.After(now) {
		return known.next
	}
	known.underWay = true
	go func() {
		failure := do(context.WithoutCancel(ctx))
		c.mu.Lock()
		defer c.mu.Unlock()
		known.underWay, known.Failure, known.next = false, failure, r.Now().Add(again)
		switch {
		case failure == "":
			known.Done, known.Since = true, time.Time{}
		case known.Since.IsZero():
			known.Since = now
		}
		r.drains.notify()
	}()
	return time.Time{}
}
