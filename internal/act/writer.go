// Package act answers: how is an action carried out? It holds the writes of what was
// decided, one function per kind of action. Every write carries the UID of what was
// decided upon, and the resource version where the decision rests on the rest of the
// object; each costs one request, which is never repeated here: when to ask again is
// a decision.
package act

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/evictionrequest/client"
	"usher.sh/usher/internal/snapshot"
)

// fieldManager owns the fields that Usher sets.
const fieldManager = snapshot.FieldManager

// How long an answer is waited for. The apiserver itself repeats an eviction for some
// ten seconds when others write to the same budget.
const (
	patience         = 10 * time.Second
	evictionPatience = 30 * time.Second
)

// Writer carries actions out. It implements runner.Writer and may be used by several
// goroutines at once.
type Writer struct {
	Client      kubernetes.Interface
	Evictions   *client.Client // makes eviction requests; nil: none are made
	DryRun      bool           // the server checks everything and changes nothing
	OwnRequests bool           // evictions that are refused leave no request behind: the caller makes its own
}

// Do carries an action out and returns what the cluster said.
func (w *Writer) Do(ctx context.Context, action drain.Action) answers.Answer {
	answer, _ := w.do(ctx, action)
	return answer
}

// DoNode is Do of a write to a node. It also returns the node as the write has left it, nil where the server has not shown that: an answer
// that does is an observation, at the version which the write has made.
func (w *Writer) DoNode(ctx context.Context, action drain.Action) (answers.Answer, *corev1.Node) {
	answer, shown := w.do(ctx, action)
	node, _ := shown.(*corev1.Node)
	return answer, node
}

// do carries an action out and returns what the cluster said, and the object with which it has answered.
func (w *Writer) do(ctx context.Context, action drain.Action) (answers.Answer, runtime.Object) {
	if err := checkPreconditions(action); err != nil {
		return answers.Answer{Code: answers.Rejected, Message: err.Error()}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patienceFor(action.Kind))
	defer cancel()
	request, err := w.request(ctx, action)
	if err != nil {
		return unsent(err), nil
	}
	shown, err := answered(ctx, request)
	if askedBefore(action, err) {
		err = nil
	}
	return answers.Of(err), shown
}

// request returns the one request that an action is.
func (w *Writer) request(ctx context.Context, a drain.Action) (*rest.Request, error) {
	switch a.Kind {
	case drain.Cordon:
		return w.cordon(a)
	case drain.Mark:
		return w.mark(a)
	case drain.Uncordon:
		return w.uncordon(a)
	case drain.Unmark:
		return w.unmark(a)
	case drain.Evict:
		return w.evict(a), nil
	case drain.Delete:
		return w.remove(a), nil
	case drain.LowerCost:
		return w.lowerCost(a)
	case drain.RestoreCost:
		return w.restoreCost(a)
	case drain.Scale:
		return w.scale(a)
	case drain.ScaleMin:
		return w.scaleMin(a)
	case drain.Ask:
		return w.ask(ctx, a)
	case drain.Withdraw:
		return w.withdraw(ctx, a)
	case drain.RenewLease:
		return w.renewLease(a)
	case drain.DeleteLease:
		return w.deleteLease(a), nil
	}
	return nil, fmt.Errorf("acting: unknown action %q", a.Kind)
}

// unsent answers for a request that could not be made. Finding out where to send it may have
// failed at the server, whose words then count, or on the way to it.
func unsent(err error) answers.Answer {
	said, lost := apierrors.APIStatus(nil), (*url.Error)(nil)
	if errors.As(err, &said) || errors.As(err, &lost) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return answers.Of(err)
	}
	return answers.Answer{Code: answers.Rejected, Message: err.Error()}
}

func patienceFor(kind drain.Kind) time.Duration {
	if kind == drain.Evict {
		return evictionPatience
	}
	return patience
}

// checkPreconditions refuses an action whose precondition would be empty: to the
// apiserver an empty UID or resource version is none at all.
func checkPreconditions(a drain.Action) error {
	if a.Target() == "" || a.Kind == drain.DeleteLease && a.Lease.UID == "" {
		return fmt.Errorf("acting: %s without the UID of its target", a.Kind)
	}
	if version, needed := versionOf(a); needed && version == "" {
		return fmt.Errorf("acting: %s without the resource version of its target", a.Kind)
	}
	if (a.Kind == drain.Cordon || a.Kind == drain.Mark) && a.Record == nil {
		return errors.New("acting: cordon or mark without a record")
	}
	return nil
}

// versionOf returns the resource version that an action insists on, and whether it
// does.
func versionOf(a drain.Action) (version string, needed bool) {
	switch a.Kind {
	case drain.Cordon, drain.Uncordon, drain.Unmark:
		return a.Node.ResourceVersion, true
	case drain.Mark:
		return a.Node.ResourceVersion, a.Lapsed
	case drain.Scale:
		return a.Workload.ResourceVersion, true
	case drain.ScaleMin:
		return a.Autoscaler.ResourceVersion, true
	case drain.LowerCost, drain.RestoreCost:
		return a.Pod.ResourceVersion, true
	case drain.RenewLease:
		return a.Lease.ResourceVersion, a.Lease.UID != ""
	case drain.DeleteLease:
		return a.Lease.ResourceVersion, true
	case drain.Evict, drain.Delete, drain.Ask, drain.Withdraw:
	}
	return "", false
}

func (w *Writer) dryRun() []string {
	if w.DryRun {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// once sends a request and never again: client-go would repeat it up to ten times on
// a 429 or 5xx with Retry-After, and the drain would not know what it waits for.
func once(ctx context.Context, request *rest.Request) error {
	_, err := answered(ctx, request)
	return err
}

// answered sends a request as once does, and returns the object with which the server has answered.
func answered(ctx context.Context, request *rest.Request) (runtime.Object, error) {
	return request.MaxRetries(0).Do(ctx).Get()
}
