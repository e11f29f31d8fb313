package observe

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	"usher.sh/usher/internal/snapshot"
)

// Look reads once what decisions about single pods need, by small requests of which there are few: their cost does not grow
// with the cluster. What it has not read is a gap: of nodes it reads those of the pods, unless it is asked for more.
// One goroutine uses it.
type Look struct {
	client   kubernetes.Interface
	now      func() time.Time
	cluster  *snapshot.Cluster
	family   siblings
	made     map[string]bool // requests
	answered atomic.Bool     // the apiserver has answered at least once
}

// NewLook makes a Look that has read nothing.
func NewLook(client kubernetes.Interface, now func() time.Time) *Look {
	l := &Look{client: client, now: now, cluster: snapshot.NewCluster(), family: siblings{}, made: map[string]bool{}}
	l.cluster.SetPartial(nodes.name, true)
	return l
}

// View is what has been read.
func (l *Look) View() snapshot.View { return snapshot.View{Now: l.now(), Cluster: l.cluster} }

// lookFor bounds a request: an apiserver that is busy answers late.
const lookFor = 30 * time.Second

// once makes a request that is named by what it reads, unless it was made before.
func (l *Look) once(ctx context.Context, name string, do request) error {
	if l.made[name] {
		return nil
	}
	patience := lookFor
	if !l.answered.Load() {
		patience = firstAnswer
	}
	bounded, cancel := context.WithTimeoutCause(ctx, patience, errNoAnswer)
	defer cancel()
	err := do(bounded)
	switch {
	case err == nil || isAnswer(err):
		l.answered.Store(true)
		l.made[name] = true
	case ctx.Err() == nil && errors.Is(context.Cause(bounded), errNoAnswer):
		return noAnswer(l.client, patience)
	}
	return err
}

var errNoAnswer = errors.New("no answer")

// need makes a request without which nothing can be decided.
func (l *Look) need(ctx context.Context, r resource, namespace, what string, do request) error {
	switch err := l.once(ctx, r.name+" "+namespace+"/"+what, do); {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err) && namespace == "":
		return fmt.Errorf("reading %s: %s: %w", r, howToGetAccess(err), err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("reading %s in namespace %s: %s: %w", r, namespace, howToGetLook(namespace, err), err)
	case unserved(err):
		return notServed(r, err)
	default:
		return Explained("reading "+r.String(), err)
	}
}

// want makes a request without which less can be said: what cannot be read is a gap.
func (l *Look) want(ctx context.Context, r resource, namespace, what string, do request) error {
	err := l.once(ctx, r.name+" "+namespace+"/"+what, do)
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return nil
	case !isAnswer(err):
		return Explained("reading "+r.String(), err)
	}
	l.cluster.SetGap(snapshot.Gap{Resource: r.name, Reason: err.Error(), Final: apierrors.IsForbidden(err)})
	return nil
}

// request reads something from the apiserver.
type request func(context.Context) error

// list makes a request that lists objects, in parts of 500, and hands each to set.
func list[O, L runtime.Object](l *Look, by func(context.Context, metav1.ListOptions) (L, error), options metav1.ListOptions, set func(O)) request {
	return func(ctx context.Context) error {
		parts := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			part, err := by(ctx, options)
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

// get makes a request that reads one object and hands it to set.
func get[O runtime.Object](by func(context.Context, string, metav1.GetOptions) (O, error), name string, set func(O)) request {
	return func(ctx context.Context) error {
		found, err := by(ctx, name, metav1.GetOptions{})
		if err == nil {
			set(found)
		}
		return err
	}
}
