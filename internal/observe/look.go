package observe

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	"usher.sh/usher/internal/snapshot"
)

// Look reads once what decisions need: about single pods by small requests of which there are few, whose cost does not grow with the
// cluster. What may not be read is a gap. Every request is a list, so that the rights to list suffice. One goroutine uses it.
type Look struct {
	client   kubernetes.Interface
	clock    *Clock
	cluster  *snapshot.Cluster
	family   siblings
	made     map[string]bool // requests
	answered atomic.Bool     // the apiserver has answered at least once
}

// NewLook makes a Look that has read nothing. The clock is that of the client.
func NewLook(client kubernetes.Interface, clock *Clock) *Look {
	l := &Look{client: client, clock: clock, cluster: snapshot.NewCluster(), family: siblings{}, made: map[string]bool{}}
	l.cluster.SetPartial(nodes.name, true)
	l.cluster.SetPartial(pods.name, true)
	return l
}

// View is what has been read.
func (l *Look) View() snapshot.View { return snapshot.View{Now: l.clock.Now(), Cluster: l.cluster} }

// What ends reading: the apiserver has answered nothing, or not all within the time that there is.
var (
	errNoAnswer = errors.New("no answer")
	errTooLong  = errors.New("too long")
)

// bounded gives the apiserver 30 s for its first answer, if none has come before, and two minutes for all.
func (l *Look) bounded(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	all := time.AfterFunc(firstRead, func() { cancel(errTooLong) })
	first := time.AfterFunc(firstAnswer, func() {
		if !l.answered.Load() && !l.clock.Answered() {
			cancel(errNoAnswer)
		}
	})
	return ctx, func() { all.Stop(); first.Stop(); cancel(nil) }
}

// explained says why a resource could not be read, if it was not the server that said so.
func (l *Look) explained(ctx context.Context, r resource, err error) error {
	switch cause := context.Cause(ctx); {
	case err == nil || isAnswer(err):
		return err
	case errors.Is(cause, errNoAnswer):
		return noAnswer(l.client, firstAnswer)
	case errors.Is(cause, errTooLong):
		return fmt.Errorf("reading the cluster: not done after %s: %s have not all come", firstRead, r)
	case cause != nil:
		return fmt.Errorf("reading the cluster: %w", cause)
	}
	return Explained("reading "+r.String(), err)
}

// once makes a request that is named by what it reads, unless it was made before.
func (l *Look) once(ctx context.Context, r resource, what string, do request) error {
	name := r.name + " " + what
	if l.made[name] {
		return nil
	}
	ctx, end := l.bounded(ctx)
	defer end()
	err := l.explained(ctx, r, do(ctx))
	l.made[name] = err == nil || isAnswer(err)
	return err
}

// need makes a request without which nothing can be decided. The namespace is "" for what is of the cluster.
func (l *Look) need(ctx context.Context, r resource, namespace, what string, do request) error {
	err := l.once(ctx, r, namespace+"/"+what, do)
	if namespace != "" && apierrors.IsForbidden(err) {
		return fmt.Errorf("reading %s in namespace %s: %w; %s", r, namespace, err, howToGetLook(namespace, err))
	}
	return refused(r, err)
}

// refused says what to do about a server that refuses what every decision needs.
func refused(r resource, err error) error {
	if err == nil || !isAnswer(err) {
		return err
	}
	if said := refusal(question{resource: r}, "list", err); said != nil {
		return said
	}
	return Explained("reading "+r.String(), err)
}

// want makes a request without which less can be said: what cannot be read is a gap.
func (l *Look) want(ctx context.Context, r resource, namespace, what string, do request) error {
	return l.orGap(r, l.once(ctx, r, namespace+"/"+what, do))
}

// orGap makes a gap of what the server refused.
func (l *Look) orGap(r resource, err error) error {
	if err == nil || !isAnswer(err) {
		return err
	}
	unserved := apierrors.IsNotFound(err)
	l.cluster.SetGap(snapshot.Gap{Resource: r.name, Reason: err.Error(), Final: unserved || apierrors.IsForbidden(err), Unserved: unserved})
	return nil
}

// request reads something from the apiserver.
type request func(context.Context) error

// list makes a request that lists objects, in parts of 500, and hands each to set.
func list[O, L runtime.Object](l *Look, by func(context.Context, metav1.ListOptions) (L, error), options metav1.ListOptions, set func(O)) request {
	return func(ctx context.Context) error {
		parts := pager.New(func(ctx context.Context, options metav1.ListOptions) (part runtime.Object, err error) {
			err = retried(ctx, func() error {
				part, err = by(ctx, options)
				return err
			})
			if err == nil || isAnswer(err) {
				l.answered.Store(true)
			}
			return part, err
		})
		parts.PageBufferSize = 1
		return parts.EachListItem(ctx, options, func(object runtime.Object) error {
			if typed, ok := object.(O); ok {
				set(typed)
			}
			return nil
		})
	}
}

// named makes a request that reads the object of a name, if there is one, and hands it to set. Of a name that is longer than any may be, as
// that of an owner or a claim can be, there is none.
func named[O, L runtime.Object](l *Look, by func(context.Context, metav1.ListOptions) (L, error), name string, set func(O)) request {
	if len(name) > validation.DNS1123SubdomainMaxLength {
		return func(context.Context) error { return nil }
	}
	return list(l, by, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}, set)
}

// retried does something again, a few times, that the server could not do at that moment.
func retried(ctx context.Context, do func() error) error {
	backoff := reconnect()
	for {
		err := do()
		transient := apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsServerTimeout(err) ||
			apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) || utilnet.IsTimeout(err)
		if !transient || backoff.Steps == 0 || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(backoff.Step()):
		case <-ctx.Done():
			return err
		}
	}
}
