package policycache

import (
	"context"
	"fmt"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/memberset"
	"usher.sh/usher/internal/system"
)

// Kind returns the kind of the source's system; false: it declares none that is known.
func (k *Observer) Kind(source *Source) (system.Kind, bool) { return k.config.Kind(source.System) }

// Listed asks what the list of the source's system has for a member, and for the predecessor that was written down for it.
func (k *Observer) Listed(ctx context.Context, source *Source, member system.Member, predecessor *v1alpha1.MemberRegistration) (listing system.Listing, err error) {
	err = k.membership(ctx, source, func(ctx context.Context, m system.Membership) error {
		listing, err = m.Listed(ctx, member, predecessor)
		return err
	})
	return listing, err
}

// Leave asks the source's system to take an entry off its list. What it has said before decides nothing any more, once it has.
func (k *Observer) Leave(ctx context.Context, source *Source, member system.Member, entry *v1alpha1.MemberRegistration) (missing string, err error) {
	err = k.membership(ctx, source, func(ctx context.Context, m system.Membership) error {
		missing, err = m.Leave(ctx, member, entry)
		return err
	})
	if missing == "" { // also where it is not known whether it has
		k.Outdate(source.UID)
	}
	return missing, err
}

// Join asks the source's system to put a successor on its list. What it has said before decides nothing any more.
func (k *Observer) Join(ctx context.Context, source *Source, member system.Member, predecessor *v1alpha1.MemberRegistration) (missing string, err error) {
	defer k.Outdate(source.UID)
	err = k.membership(ctx, source, func(ctx context.Context, m system.Membership) error {
		missing, err = m.Join(ctx, member, predecessor)
		return err
	})
	return missing, err
}

func (k *Observer) membership(ctx context.Context, source *Source, ask func(context.Context, system.Membership) error) error {
	ctx, end := k.call(ctx, source)
	defer end()
	open, err := k.connect(ctx, k.entry(source))
	if err != nil {
		return err
	}
	m, ok := open.(system.Membership)
	if !ok {
		return fmt.Errorf("asking for the list of members: the system has none: %w", system.ErrTerminal)
	}
	return ask(ctx, m)
}

// SetSource returns a MemberSet as what declares a system. Nothing is observed of it in the background: its policy is for that.
func SetSource(set *v1alpha1.MemberSet) *Source {
	return &Source{
		UID: set.UID, Namespace: set.Namespace, Name: set.Name, Generation: set.Generation, System: &set.Spec.System, Limits: set.Spec.Evidence,
	}
}

// called is the entry of a source whose system is called, which is kept as long as it is: what the system has learned by having been asked goes with it.
func (k *Observer) called(source *Source) *entry {
	e := k.entry(source)
	e.touch(time.Now())
	return e
}

// List reads the list of members of the source's system.
func (k *Observer) List(ctx context.Context, source *Source) (listing memberset.Listing, err error) {
	err = k.resizable(ctx, source, func(ctx context.Context, s system.Resizable) error {
		listing, err = s.List(ctx)
		return err
	})
	return listing, err
}

// Admit asks the source's system to take a member onto its list.
func (k *Observer) Admit(ctx context.Context, source *Source, cluster string, addresses []string) (missing string, err error) {
	err = k.resizable(ctx, source, func(ctx context.Context, s system.Resizable) error {
		missing, err = s.Admit(ctx, cluster, addresses)
		return err
	})
	return missing, err
}

// Expel asks the source's system to take an entry off its list.
func (k *Observer) Expel(ctx context.Context, source *Source, entry *v1alpha1.MemberRegistration) (missing string, err error) {
	err = k.resizable(ctx, source, func(ctx context.Context, s system.Resizable) error {
		missing, err = s.Expel(ctx, entry)
		return err
	})
	return missing, err
}

func (k *Observer) resizable(ctx context.Context, source *Source, ask func(context.Context, system.Resizable) error) error {
	ctx, end := k.call(ctx, source)
	defer end()
	open, err := k.connect(ctx, k.called(source))
	if err != nil {
		return err
	}
	s, ok := open.(system.Resizable)
	if !ok {
		return fmt.Errorf("asking for the list of members: the system has none: %w", system.ErrTerminal)
	}
	return ask(ctx, s)
}

// Contents asks the source's system what there is of all members of its set.
func (k *Observer) Contents(ctx context.Context, source *Source, members []system.Member) (listing memberset.Listing, err error) {
	_, err = k.emptying(ctx, source, func(ctx context.Context, s system.Emptying) (missing string, err error) {
		listing, err = s.Contents(ctx, members)
		return "", err
	})
	return listing, err
}

// Form has the first members begin the source's system.
func (k *Observer) Form(ctx context.Context, source *Source, members []system.Member) (missing string, err error) {
	return k.emptying(ctx, source, func(ctx context.Context, s system.Emptying) (string, error) { return s.Form(ctx, members) })
}

// Lead has others take the place of those by which the source's system is found and that cannot be reached.
func (k *Observer) Lead(ctx context.Context, source *Source) (missing string, err error) {
	return k.emptying(ctx, source, func(ctx context.Context, s system.Emptying) (string, error) { return s.Lead(ctx) })
}

// Empty asks the source's system to move what a member has to others.
func (k *Observer) Empty(ctx context.Context, source *Source, member system.Member) (missing string, err error) {
	return k.emptying(ctx, source, func(ctx context.Context, s system.Emptying) (string, error) { return s.Empty(ctx, member) })
}

// Refill takes back what Empty has asked for.
func (k *Observer) Refill(ctx context.Context, source *Source, member system.Member) (missing string, err error) {
	return k.emptying(ctx, source, func(ctx context.Context, s system.Emptying) (string, error) { return s.Refill(ctx, member) })
}

// Maintain has the source's system wait for what is in a zone.
func (k *Observer) Maintain(ctx context.Context, source *Source, zone string, timeout time.Duration) (missing string, err error) {
	return k.emptying(ctx, source, func(ctx context.Context, s system.Emptying) (string, error) { return s.Maintain(ctx, zone, timeout) })
}

// EndMaintenance has it wait for that zone no more.
func (k *Observer) EndMaintenance(ctx context.Context, source *Source, zone string) (missing string, err error) {
	return k.emptying(ctx, source, func(ctx context.Context, s system.Emptying) (string, error) { return s.EndMaintenance(ctx, zone) })
}

func (k *Observer) emptying(ctx context.Context, source *Source, ask func(context.Context, system.Emptying) (string, error)) (missing string, err error) {
	ctx, end := k.call(ctx, source)
	defer end()
	open, err := k.connect(ctx, k.called(source))
	if err != nil {
		return "", err
	}
	s, ok := open.(system.Emptying)
	if !ok {
		return "", fmt.Errorf("asking what is on members: the system does not say: %w", system.ErrTerminal)
	}
	return ask(ctx, s)
}
