package policycache

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/text"
)

// observation is one observation. Its result is set before done is closed.
type observation struct {
	version   version
	began     time.Time // as evidence is dated
	sent      time.Time // the same by the process's own clock
	patience  time.Duration
	cancel    context.CancelFunc
	over      <-chan struct{} // closed when its time has passed, even if the system's client does not return
	why       func() error    // why it is over
	overtaken chan struct{}   // closed before it is cancelled for a later epoch
	done      chan struct{}
	result    *eviction.Evidence
}

// await returns the result, or nil if another observation is needed: this one was overtaken, or began too early.
func (f *observation) await(ctx context.Context, wanted version, oldest time.Time) *eviction.Evidence {
	select {
	case <-f.done:
	case <-f.over:
	case <-ctx.Done():
	}
	switch {
	case closed(f.overtaken):
		return nil
	case closed(f.done):
		return f.fitting(wanted, oldest)
	case closed(f.over):
		return f.unanswered(f.ending())
	}
	return f.unanswered(unansweredYet)
}

const unansweredYet = "the system has not answered yet"

func (f *observation) fitting(wanted version, oldest time.Time) *eviction.Evidence {
	if !f.version.covers(wanted) || f.sent.Before(oldest) {
		return nil
	}
	return f.result
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// ending says why there is no answer when it is over.
func (f *observation) ending() string {
	switch why := f.why(); {
	case errors.Is(why, system.ErrTooLarge):
		return why.Error()
	case errors.Is(why, context.Canceled):
		return "the policy was deleted while its system was asked"
	}
	return fmt.Sprintf("the system has not answered within %s", f.patience)
}

func (f *observation) unanswered(why string) *eviction.Evidence {
	return &eviction.Evidence{Observed: f.began, Epoch: f.version.epoch, Error: why, TooLarge: errors.Is(f.why(), system.ErrTooLarge)}
}

// shareOrStart returns the observation that is under way if it will do, and begins another if not. One that was begun for an
// earlier epoch or spec is cancelled: nothing may be decided on it any more. One whose client does not return although its time has
// passed is never joined by a second: hung calls would pile up.
func (k *Observer) shareOrStart(ctx context.Context, e *entry, wanted version) *observation {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f := e.inflight; f != nil {
		if f.version.covers(wanted) {
			return f
		}
		close(f.overtaken)
		f.cancel()
	}
	source := e.source
	patience := source.timeout()
	ctx, revoke := context.WithCancelCause(context.WithoutCancel(ctx))
	ctx, cancel := context.WithTimeout(ctx, patience)
	f := &observation{
		version: version{generation: source.Generation, epoch: max(wanted.epoch, source.Epoch)}, began: k.config.Now(), sent: time.Now(), patience: patience,
		cancel: cancel, over: ctx.Done(), why: func() error { return context.Cause(ctx) }, overtaken: make(chan struct{}), done: make(chan struct{}),
	}
	e.inflight = f
	counted := &meter{
		budget: k.budget, namespace: source.Namespace, source: source.UID, need: e.needs(f.sent), over: ctx.Done(), revoke: revoke,
	}
	counted.drop = func() {
		e.release(counted)
		k.wake()
	}
	go k.run(ctx, e, f, source, counted)
	return f
}

func (k *Observer) run(ctx context.Context, e *entry, f *observation, source *Source, counted *meter) {
	defer f.cancel()
	evidence, err := k.observe(system.WithMeter(ctx, counted), e, source)
	if err == nil && errors.Is(ctx.Err(), context.Canceled) {
		err = ctx.Err() // it was broken off, and may have seen half
	}
	kept := int64(0)
	if err == nil {
		kept = evidence.Weight()
	}
	if full := counted.settle(kept); full != nil {
		err = full // some of it may have been read, and what is missing is not known
	}
	if err != nil {
		evidence = &eviction.Evidence{Error: text.Line(f.sentence(err)), TooLarge: errors.Is(err, system.ErrTooLarge)}
		e.connection.invalidate()
	}
	evidence.Observed, evidence.Epoch = f.began, f.version.epoch
	f.result = evidence
	e.count(f, source, k.config.Now())
	news, dropped := e.complete(f, counted, time.Now())
	if dropped != nil {
		_ = dropped.settle(0)
	}
	close(f.done)
	if news && source.Changed != nil {
		source.Changed()
	}
}

// sentence says what went wrong in words that hold without knowing Go's.
func (f *observation) sentence(err error) string {
	switch {
	case errors.Is(err, system.ErrTooLarge):
		return err.Error()
	case errors.Is(f.why(), context.Canceled):
		return f.ending()
	case errors.Is(f.why(), context.DeadlineExceeded):
		return f.ending() + ": " + err.Error()
	}
	return err.Error()
}

// observe asks once. A panic in a system's client fails that observation alone, not the process.
func (k *Observer) observe(ctx context.Context, e *entry, source *Source) (evidence *eviction.Evidence, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			k.config.Log.Error("a system's client has failed", "policy", source.Name, "namespace", source.Namespace,
				"fault", fault, "stack", string(debug.Stack()))
			evidence, err = nil, fmt.Errorf("reading the system's answer: %v (a fault in Usher; its log has the details)", fault)
		}
	}()
	open, err := k.connect(ctx, e)
	if err != nil {
		return nil, err
	}
	members, err := source.Members(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the members: %w", err)
	}
	said, err := open.Observe(ctx, members)
	if err != nil {
		return nil, err
	}
	own := *said
	if source.Uses != nil {
		own.Prune(source.Uses())
	}
	kind, _ := k.Kind(source)
	own.Shared = shared(members, kind.Hosts)
	return &own, nil
}

// shared returns the ids that several pods give which are there to stay: several of one role where ids are those of hosts.
func shared(members []system.Member, hosts bool) map[string][]string {
	type owner struct{ id, role string }
	pods := map[owner][]string{}
	for _, member := range members {
		if member.Pod == nil || member.Pod.Terminating() || member.Pod.Finished() {
			continue
		}
		of := owner{id: member.ID}
		if hosts {
			of.role = member.Role
		}
		pods[of] = append(pods[of], member.Pod.Name)
	}
	found := map[string][]string{}
	for of, names := range pods {
		if len(names) > 1 {
			found[of.id] = append(found[of.id], names...)
		}
	}
	for _, names := range found {
		slices.Sort(names)
	}
	return found
}
