package histories

import (
	"context"
	"math/rand/v2"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/memberset"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/all"
)

// site is a system with its members' processes and disks, and its own truth. The kubelet starts and stops processes, and
// nothing else of the world touches them but strike.
type site interface {
	// spec declares the system, or another of the same kind and with the same names, where all is well.
	spec(staging bool) v1alpha1.EvictionPolicySpec
	members() []planned
	// kind is the real client's kind, opened through the gate.
	kind(r *replica, real system.Kind) system.Kind
	// tick lets a second pass.
	tick()
	start(pod string, wiped bool)
	stop(pod string)
	// wouldLose says what would be lost if the member went now, with those that are away counted as gone; "": nothing.
	wouldLose(pod string, away []string) string
	// lag is for how long the system may report a member of the role that is away as if it were there.
	lag(role string) time.Duration
	// strike lets something go wrong or right again, and says what.
	strike(dice *rand.Rand) string
	// fail lets a preparation that is under way go wrong, and says what; "": there is none.
	fail(dice *rand.Rand) string
	// heal ends everything that strike began.
	heal()
	// lost are acknowledged writes that no disk has any more.
	// leads reports whether the process of a pod acknowledges writes before others have them, and unreplicated whether there is one that no
	// other process has.
	leads(pod string) bool
	unreplicated(pod string) bool
	lost() []string
	// leftovers are preparations that are in force.
	leftovers() []string
}

// planned is a member that ought to be there.
type planned struct {
	pod  string
	role string
	// disposable members may come back with an empty disk after their pod was deleted.
	disposable bool
}

// kind finds a kind of system as all.Kind does.
func (r *replica) kind(spec *v1alpha1.System) (system.Kind, bool) {
	real, ok := all.Kind(spec)
	if !ok {
		return real, false
	}
	kind := r.world.site.kind(r, real)
	open := kind.Open
	kind.Open = func(spec *v1alpha1.System, access system.Access) (system.System, error) {
		opened, err := open(spec, access)
		short := shortDeadline{opened, r, addressee(spec)}
		if resizable, ok := opened.(system.Resizable); ok && r.world.setSite() != nil {
			return shortResizable{short, resizable}, err
		}
		listed, ok := opened.(system.Membership)
		if emptied, empties := opened.(system.Emptying); empties && r.world.setSite() != nil {
			return shortEmptying{shortMembership{short, listed}, emptied}, err
		}
		if ok {
			return shortMembership{short, listed}, err
		}
		return short, err
	}
	return kind, true
}

// shortDeadline is a system that gives up a moment before its caller does: of two deadlines at one instant either could
// comes first.
type shortDeadline struct {
	system.System
	replica *replica
	name    string
}

// shortMembership is one whose list of members is changed by asking for it.
type shortMembership struct {
	shortDeadline
	list system.Membership
}

func (h shortMembership) Listed(ctx context.Context, member system.Member, predecessor *v1alpha1.MemberRegistration) (system.Listing, error) {
	ctx, cancel := sooner(ctx)
	defer cancel()
	return h.list.Listed(ctx, member, predecessor)
}

func (h shortMembership) Leave(ctx context.Context, member system.Member, entry *v1alpha1.MemberRegistration) (missing string, err error) {
	ctx, cancel := sooner(ctx)
	defer cancel()
	return h.list.Leave(ctx, member, entry)
}

func (h shortMembership) Join(ctx context.Context, member system.Member, predecessor *v1alpha1.MemberRegistration) (missing string, err error) {
	ctx, cancel := sooner(ctx)
	defer cancel()
	return h.list.Join(ctx, member, predecessor)
}

// shortResizable is one whose members a MemberSet runs. Each call has the name of who makes it: two may ask the same at once.
type shortResizable struct {
	shortDeadline
	list system.Resizable
}

func (h shortResizable) List(ctx context.Context) (memberset.Listing, error) {
	ctx, cancel := sooner(context.WithValue(ctx, stepKey, taskOf(ctx)))
	defer cancel()
	return h.list.List(ctx)
}

func (h shortResizable) Admit(ctx context.Context, cluster string, addresses []string) (missing string, err error) {
	ctx, cancel := sooner(context.WithValue(ctx, stepKey, taskOf(ctx)))
	defer cancel()
	return h.list.Admit(ctx, cluster, addresses)
}

func (h shortResizable) Expel(ctx context.Context, entry *v1alpha1.MemberRegistration) (missing string, err error) {
	ctx, cancel := sooner(context.WithValue(ctx, stepKey, taskOf(ctx)))
	defer cancel()
	return h.list.Expel(ctx, entry)
}

// shortEmptying is one whose members a MemberSet runs and are emptied before they go.
type shortEmptying struct {
	shortMembership
	contents system.Emptying
}

// Resume implements system.Resumer.
func (h shortEmptying) Resume(before system.System) {
	former, is := before.(shortEmptying)
	if resumer, resumes := h.System.(system.Resumer); is && resumes {
		resumer.Resume(former.System)
	}
}

func named(ctx context.Context) (context.Context, context.CancelFunc) {
	return sooner(context.WithValue(ctx, stepKey, taskOf(ctx)))
}

func (h shortEmptying) Contents(ctx context.Context, members []system.Member) (memberset.Listing, error) {
	ctx, cancel := named(ctx)
	defer cancel()
	return h.contents.Contents(ctx, members)
}

func (h shortEmptying) Form(ctx context.Context, members []system.Member) (missing string, err error) {
	ctx, cancel := named(ctx)
	defer cancel()
	return h.contents.Form(ctx, members)
}

func (h shortEmptying) Lead(ctx context.Context) (missing string, err error) {
	ctx, cancel := named(ctx)
	defer cancel()
	return h.contents.Lead(ctx)
}

func (h shortEmptying) Empty(ctx context.Context, member system.Member) (missing string, err error) {
	ctx, cancel := named(ctx)
	defer cancel()
	return h.contents.Empty(ctx, member)
}

func (h shortEmptying) Refill(ctx context.Context, member system.Member) (missing string, err error) {
	ctx, cancel := named(ctx)
	defer cancel()
	return h.contents.Refill(ctx, member)
}

func (h shortEmptying) Maintain(ctx context.Context, zone string, timeout time.Duration) (missing string, err error) {
	ctx, cancel := named(ctx)
	defer cancel()
	return h.contents.Maintain(ctx, zone, timeout)
}

func (h shortEmptying) EndMaintenance(ctx context.Context, zone string) (missing string, err error) {
	ctx, cancel := named(ctx)
	defer cancel()
	return h.contents.EndMaintenance(ctx, zone)
}

const moment = 50 * time.Millisecond

func sooner(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline.Add(-moment))
}

func (h shortDeadline) Observe(ctx context.Context, members []system.Member) (*eviction.Evidence, error) {
	ctx, cancel := sooner(ctx)
	defer cancel()
	said, err := h.System.Observe(ctx, members)
	if l := h.replica.look; l != nil {
		l.asked = true
	}
	if err == nil {
		h.replica.remember(said, h.name)
	}
	return said, err
}

func (h shortDeadline) Prepare(ctx context.Context, step eviction.Preparation) (eviction.Job, error) {
	ctx, cancel := sooner(context.WithValue(ctx, stepKey, "prepare "+step.Name+" of "+step.Member.ID))
	defer cancel()
	return h.System.Prepare(ctx, step)
}

func (h shortDeadline) Undo(ctx context.Context, step eviction.Preparation) (eviction.Undone, error) {
	ctx, cancel := sooner(context.WithValue(ctx, stepKey, "undo "+step.Name+" of "+step.Member.ID))
	defer cancel()
	return h.System.Undo(ctx, step)
}
