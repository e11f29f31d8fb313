package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
)

// unknownError says in a sentence what was named and is not there.
type unknownError string

func (e unknownError) Error() string { return string(e) }

func unknown(format string, args ...any) error { return unknownError(fmt.Sprintf(format, args...)) }

func isUnknown(err error) bool { return errors.As(err, new(unknownError)) }

// readDump returns what a dump holds, and the pods that are meant.
func (o *whyOptions) readDump(context.Context) (snapshot.View, []*snapshot.Pod, error) {
	view, assumed, err := lookAtDump(o.In, o.dump)
	if err != nil {
		return view, nil, err
	}
	for _, text := range assumed {
		fmt.Fprintln(o.ErrOut, "assumed: "+text)
	}
	pods, err := podsOf(view.Cluster, o.namespace, o.subjects, o.labels, o.commands)
	return view, pods, err
}

// readLive returns what decides about the pods that are meant, and these. It says what killed drains left on what it has read.
func (o *whyOptions) readLive(ctx context.Context) (snapshot.View, []*snapshot.Pod, error) {
	conn, err := connect(o.config, o.ErrOut)
	if err != nil {
		return snapshot.View{}, nil, err
	}
	look := observe.NewLook(conn.client, conn.clock)
	pods, err := o.lookAt(ctx, look)
	view := look.View()
	if err != nil {
		return view, nil, problem(ctx, err)
	}
	for _, line := range show.LeftoverLines(drain.Remains(view, thisHost().dead(view.Cluster))) {
		fmt.Fprintln(o.ErrOut, o.commands.In(line))
	}
	return view, pods, nil
}

// lookAt reads the pods that are meant and what decides about them.
func (o *whyOptions) lookAt(ctx context.Context, look *observe.Look) ([]*snapshot.Pod, error) {
	if err := o.find(ctx, look); err != nil {
		return nil, err
	}
	pods, err := podsOf(look.View().Cluster, o.namespace, o.subjects, o.labels, o.commands)
	if isUnknown(err) {
		if nearErr := o.findNear(ctx, look); nearErr != nil {
			return nil, nearErr
		}
		pods, err = podsOf(look.View().Cluster, o.namespace, o.subjects, o.labels, o.commands)
	}
	if err != nil {
		return nil, err
	}
	if err := look.Around(ctx, o.namespace, pods); err != nil {
		return nil, err
	}
	return pods, o.lookForPlaces(ctx, look, pods)
}

// find reads the pods that are meant.
func (o *whyOptions) find(ctx context.Context, look *observe.Look) error {
	if o.labels != nil {
		return look.Pods(ctx, o.namespace, o.labels)
	}
	for _, s := range o.subjects {
		var err error
		switch {
		case s.kind == podKind:
			err = look.Pod(ctx, snapshot.Key{Namespace: o.namespace, Name: s.name})
		case s.foreign:
			err = look.OwnedBy(ctx, o.namespace, labels.Everything())
		default:
			err = look.Owned(ctx, o.namespace, s.kind, s.name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// findNear reads what may be meant by what is not there.
func (o *whyOptions) findNear(ctx context.Context, look *observe.Look) error {
	for _, s := range o.subjects {
		var err error
		if s.kind == podKind {
			err = look.Near(ctx, snapshot.Key{Namespace: o.namespace, Name: s.name})
		} else {
			err = look.OwnedBy(ctx, o.namespace, labels.Everything())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lookForPlaces reads nodes where it depends on them whether a surge helps: budgets never allow an eviction.
func (o *whyOptions) lookForPlaces(ctx context.Context, look *observe.Look, pods []*snapshot.Pod) error {
	var held []*snapshot.Pod
	for _, p := range pods {
		for _, b := range drain.Why(look.View(), p) {
			if b.Reason == drain.BudgetNeverAllows {
				held = append(held, p)
			}
		}
	}
	if len(held) == 0 {
		return nil
	}
	return look.NodesUntil(ctx, func() bool {
		return !slices.ContainsFunc(held, func(p *snapshot.Pod) bool { return !drain.HasPlace(look.View(), p) })
	})
}
