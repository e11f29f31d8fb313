package histories

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// manner says how a call can go wrong.
type manner int

const (
	plain     manner = iota // it is lost on its way there or back
	canBeLate               // also, it may take effect after its caller has given up
)

// fate is what becomes of a call that waits at the gate.
type fate int

const (
	arrives fate = iota
	slow         // it arrives, and its answer waits at the gate
	lost         // it does not arrive
	unheard      // it arrives, and its answer does not
	late         // for its caller it is lost, and it arrives later
	killed       // its caller is no more
)

var fates = map[fate]string{arrives: "", slow: "answer delayed", lost: "LOST", unheard: "ANSWER LOST", late: "LATE", killed: "KILLED"}

var (
	errLost   = errors.New("connection reset by peer")
	errKilled = errors.New("the process was killed")
)

// waiting is a call at the gate.
type waiting struct {
	label   string
	of      string   // whose it is, where others may say the same
	replica *replica // nil: not one of Usher's
	manner  manner
	resume  chan fate
}

// pass waits at the gate until the scheduler opens it.
func (w *world) pass(ctx context.Context, r *replica, label string, m manner) fate {
	step, _ := ctx.Value(stepKey).(string)
	return w.wait(ctx, &waiting{label: label, of: step, replica: r, manner: m})
}

func (w *world) wait(ctx context.Context, call *waiting) fate {
	call.resume = make(chan fate, 1)
	if !w.enter(call) {
		return killed
	}
	select {
	case f := <-call.resume:
		return f
	case <-ctx.Done():
		w.leave(call)
		return lost
	}
}

func (w *world) enter(call *waiting) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || call.replica != nil && call.replica.dead {
		return false
	}
	w.gate = append(w.gate, call)
	return true
}

func (w *world) leave(call *waiting) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gate = slices.DeleteFunc(w.gate, func(other *waiting) bool { return other == call })
}

// waiters are the calls at the gate in an order that does not depend on which goroutine came first.
func (w *world) waiters() []*waiting {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortStableFunc(w.gate, func(a, b *waiting) int {
		return cmp.Or(strings.Compare(a.label, b.label), strings.Compare(a.of, b.of))
	})
	return slices.Clone(w.gate)
}

// open lets a call go.
func (w *world) open(call *waiting, f fate) {
	w.leave(call)
	if f != arrives || !strings.HasPrefix(call.label, "(") {
		w.note("%s %s", call.label, fates[f])
	}
	call.resume <- f
}

// call is one that leaves a replica.
func (r *replica) call(ctx context.Context, label string, m manner, effect func() error) error {
	if item, ok := ctx.Value(workKey).(work); ok && item.controller == repairController && r.look != nil {
		r.look.looks = true
	}
	err := r.world.call(ctx, r, r.name+" "+taskOf(ctx)+label, m, effect)
	if item, ok := ctx.Value(workKey).(work); ok && (errors.Is(err, errLost) || errors.Is(err, context.DeadlineExceeded) || apierrors.IsConflict(err)) {
		r.world.mu.Lock()
		defer r.world.mu.Unlock()
		r.failed[item] = time.Now()
	}
	return err
}

func (w *world) call(ctx context.Context, r *replica, label string, m manner, effect func() error) error {
	f := w.pass(ctx, r, label, m)
	switch f {
	case killed:
		return errKilled
	case lost:
		return orEnded(ctx, errLost)
	case late:
		w.postpone(label, effect)
		return errLost
	case arrives, slow, unheard:
	}
	err := effect()
	if err != nil {
		w.note("  answered: %v", err)
	}
	switch f {
	case unheard:
		return errLost
	case slow:
		if back := w.pass(ctx, r, "(answer to) "+label, plain); back != arrives {
			return orEnded(ctx, errLost)
		}
	case arrives, lost, late, killed:
	}
	return err
}

func orEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// postpone keeps an effect for later.
func (w *world) postpone(label string, effect func() error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.belated = append(w.belated, belated{label, effect})
}

type belated struct {
	label  string
	effect func() error
}

type contextKey string

const (
	taskKey contextKey = "task"
	// workKey is the entry of a queue that a controller works on.
	workKey contextKey = "work"
	// beganKey is when a controller began to look.
	beganKey contextKey = "began"
	dryKey   contextKey = "dry"
	// stepKey is the step for which a system is called: two may say the same to it at once.
	stepKey contextKey = "step"
	// unwokenKey is of what a controller is made to do that nothing has woken.
	unwokenKey contextKey = "unwoken"

	replicaKey contextKey = "replica"
)

func taskOf(ctx context.Context) string {
	name, _ := ctx.Value(taskKey).(string)
	return name
}

// lookedSince is when the controller began to look that makes a call.
func lookedSince(ctx context.Context) time.Time {
	if began, looks := ctx.Value(beganKey).(time.Time); looks {
		return began
	}
	return time.Now()
}

func dry(ctx context.Context) bool {
	is, _ := ctx.Value(dryKey).(bool)
	return is
}
