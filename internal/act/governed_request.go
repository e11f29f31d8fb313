package act

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	api "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/evictionrequest/targets"
	"usher.sh/usher/internal/snapshot"
)

// askedRenewal is how often it is renewed at most: callers ask every few seconds.
const askedRenewal = time.Minute

const notServed = "the cluster serves no eviction requests: install the CustomResourceDefinitions of lifecycle.usher.sh, or turn on lifecycle.k8s.io/v1alpha1"

// request asks for a pod's eviction in the caller's name, or renews the request that is there.
func (g *Governed) request(ctx context.Context, action eviction.Action) error {
	wanted := g.newRequest(action)
	existing := &api.EvictionRequest{}
	err := g.Client.Get(ctx, client.ObjectKeyFromObject(wanted), existing)
	if apierrors.IsNotFound(err) {
		err = g.Client.Create(ctx, wanted, client.FieldOwner(fieldManager))
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		return nil // another caller of the same name a moment ago
	}
	if err == nil {
		err = evictionrequest.CheckRequest(existing, wanted)
	}
	if err != nil {
		return fmt.Errorf("reading the request for pod %s: %w", action.Pod.Name, err)
	}
	asked, refused := evictionrequest.LastRequestTime(existing)
	if existing.Spec.Intent == api.EvictionRequestIntentEviction && (!refused || g.Now().Sub(asked).Abs() < askedRenewal) {
		return nil // one that the caller made by hand does not end when it stops asking
	}
	body, err := evictionrequest.RepeatPatch(existing, g.Now())
	return g.patchRequest(ctx, existing, body, err)
}

// newRequest returns a request that says when the caller asked last.
func (g *Governed) newRequest(action eviction.Action) *api.EvictionRequest {
	ref := evictionrequest.Ref{Namespace: action.Pod.Namespace, Name: action.Pod.Name, UID: action.UID}
	wanted := evictionrequest.NewRequest(ref, evictionrequest.Requester(action.Requester))
	wanted.Annotations = map[string]string{evictionrequest.LastRequestTimeAnnotation: g.Now().UTC().Format(time.RFC3339)}
	return wanted
}

// withdraw takes back what admission asked for a pod in a requester's name; what is not there needs no taking back, and what
// the requester made itself is its own.
func (g *Governed) withdraw(ctx context.Context, action eviction.Action) error {
	requests, err := targets.RequestsOf(ctx, g.Client, action.Pod)
	if err != nil {
		return err
	}
	for _, request := range requests {
		pod := request.Spec.Target.Pod
		if _, refused := evictionrequest.LastRequestTime(request); !refused || pod == nil || pod.UID != action.UID || request.Spec.Requester != action.Requester || request.Spec.Intent == api.EvictionRequestIntentWithdrawn {
			continue
		}
		if err := GiveUp(ctx, g.Client, request.DeepCopy(), fieldManager); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// Withdrew reports whether a request is withdrawn, and by the manager alone. A person's word is found in the managed fields.
func Withdrew(request *api.EvictionRequest) bool {
	return request.Spec.Intent == api.EvictionRequestIntentWithdrawn && evictionrequest.IntentBy(request, fieldManager)
}

// patchRequest takes what lifecycle makes of the request.
func (g *Governed) patchRequest(ctx context.Context, request *api.EvictionRequest, body []byte, err error) error {
	if err != nil {
		return err
	}
	return g.Client.Patch(ctx, request, client.RawPatch(types.MergePatchType, body), client.FieldOwner(fieldManager))
}

// respond writes Usher's entry in the evictions of a pod in which it is Usher's turn. Words are written ten seconds apart at least, but for the
// last one: each costs a write, and wakes who watches. One that is held back is to be written when RetryAfter of the answer is over, if it still
// holds then. So is one that was written a moment ago and that the cache does not show: it may be behind, or an earlier write has come late.
func (g *Governed) respond(ctx context.Context, action eviction.Action) answers.Answer {
	evictions, err := g.evictions(ctx, action.Pod, action.UID)
	if err != nil {
		return answers.Of(err)
	}
	report := evictionrequest.Report{Message: action.Report.Message, Expected: action.Report.Expected, Done: action.Report.Completed}
	answer := answers.Answer{Code: answers.Accepted}
	for _, e := range evictions {
		now, known := g.Now(), e
		last, age, said := g.reports.written(e.UID, now)
		if said {
			known = evictionrequest.WithEntry(e, last)
		}
		entry, write, _ := evictionrequest.NextEntry(known, evictionrequest.Responder, report, now)
		_, lacks, _ := evictionrequest.NextEntry(e, evictionrequest.Responder, report, now)
		switch final := write && report.Done; {
		case said && (write || lacks) && !final:
			answer.RetryAfter = sooner(answer.RetryAfter, betweenWords-age)
			continue
		case !write:
			continue
		}
		patch, err := evictionrequest.ReportPatch(g.Lifecycle, e, entry)
		if err != nil {
			return answers.Of(err)
		}
		err = ApplyStatus(ctx, g.Client, patch, responderManager)
		if client.IgnoreNotFound(err) != nil {
			return answers.Of(err)
		}
		g.reports.wrote(e.UID, entry, g.Now())
	}
	return answer
}

// sooner is the shorter of two waits, of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// reports remembers for a moment what was written into Evictions, by UID: a cache that is behind shows what was there before, and the same
// word would be written again, with another time.
type reports struct {
	mu   sync.Mutex
	last map[types.UID]written
}

type written struct {
	entry api.ResponderStatus
	at    time.Time
}

// betweenWords is the least time between two words in an Eviction, and how far the cache of Evictions is expected to be behind at most.
const betweenWords = 10 * time.Second

// written returns the entry that was written into an Eviction a moment ago, and how long ago, false where none was.
func (r *reports) written(eviction types.UID, now time.Time) (entry api.ResponderStatus, age time.Duration, said bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, ok := r.last[eviction]
	age = now.Sub(last.at)
	return last.entry, age, ok && age >= 0 && age < betweenWords
}

func (r *reports) wrote(eviction types.UID, entry api.ResponderStatus, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = map[types.UID]written{}
	}
	maps.DeleteFunc(r.last, func(_ types.UID, w written) bool { return now.Sub(w.at).Abs() >= betweenWords })
	r.last[eviction] = written{entry: entry, at: now}
}

// evictions returns the Evictions of exactly this pod. They must not be changed.
func (g *Governed) evictions(ctx context.Context, pod snapshot.Key, uid types.UID) ([]*api.Eviction, error) {
	all, err := targets.EvictionsOf(ctx, g.Client, pod)
	if err != nil {
		return nil, err
	}
	var found []*api.Eviction
	for _, e := range all {
		if ref, ok := evictionrequest.EvictionRef(e); ok && ref.UID == uid {
			found = append(found, e)
		}
	}
	return found, nil
}
