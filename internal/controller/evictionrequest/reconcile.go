package evictionrequest

import (
	"context"
	"fmt"
	"time"

	api "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/evictionrequest/targets"
)

// reconciler reads for the decisions of internal/evictionrequest, and writes what they say.
type reconciler struct {
	client  client.Client
	live    client.Reader
	options Options
	endings *endings
	others  *others
	made    *made
}

func (s *reconciler) reconcileRequest(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	request := &api.EvictionRequest{}
	if err := s.client.Get(ctx, key.NamespacedName, request); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if evictionrequest.Settled(request) {
		return reconcile.Result{}, nil
	}
	if other, left := s.others.running(s.options.Now()); left > 0 {
		s.others.announce(request, other)
		return reconcile.Result{RequeueAfter: left}, nil
	}
	ref, _ := evictionrequest.RequestRef(request)
	t, err := s.facts(ctx, ref)
	if err != nil {
		return reconcile.Result{}, err
	}
	t.Made = s.made.of(ref, t.Evictions)
	plan := evictionrequest.PlanRequest(t, request)
	if plan.Changed {
		patch, err := evictionrequest.RequestStatusPatch(s.options.Version, request, plan.Status)
		if err := s.applyStatus(ctx, patch, err); err != nil {
			return afterWrite(err)
		}
	}
	if plan.Create != nil {
		return s.create(ctx, request, t, plan)
	}
	return reconcile.Result{RequeueAfter: plan.Again}, nil
}

// create creates the eviction of a plan for a request, unless another worker has created one for the same pod since the plan was made.
func (s *reconciler) create(ctx context.Context, request *api.EvictionRequest, t evictionrequest.Target, plan evictionrequest.RequestPlan) (reconcile.Result, error) {
	if wait := s.others.first(request, s.options.Now()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if stands, err := s.stands(ctx, request); err != nil || !stands {
		return reconcile.Result{}, err
	}
	name := plan.Create.Name
	if !s.made.begin(t.Ref, name, t.Now) {
		return reconcile.Result{RequeueAfter: lostRace}, nil
	}
	shown, err := targets.EvictionsOf(ctx, s.client, client.ObjectKey{Namespace: t.Ref.Namespace, Name: t.Ref.Name})
	if err != nil || shows(shown, t.Ref, name) {
		return reconcile.Result{RequeueAfter: lostRace}, err
	}
	patch, err := evictionrequest.CreationPatch(s.options.Version, plan.Create)
	err = s.apply(ctx, patch, err)
	if s.made.ended(t.Ref, name, time.Now(), err); err != nil {
		return afterWrite(fmt.Errorf("creating eviction %s: %w", name, err))
	}
	return reconcile.Result{RequeueAfter: plan.Again}, nil
}

// stands asks the server whether a request stands. With a pod its requests are collected, and with these its eviction: a cache that shows the
// last before the others has a request, and a pod, that want another eviction.
func (s *reconciler) stands(ctx context.Context, request *api.EvictionRequest) (bool, error) {
	now := &api.EvictionRequest{}
	if err := s.live.Get(ctx, client.ObjectKeyFromObject(request), now); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, fmt.Errorf("reading request %s: %w", request.Name, err)
	}
	return now.UID == request.UID && evictionrequest.Stands(now), nil
}

func (s *reconciler) reconcileEviction(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	eviction, result, err := s.eviction(ctx, key)
	if eviction == nil || evictionrequest.Final(eviction) {
		return result, err
	}
	ref, _ := evictionrequest.EvictionRef(eviction)
	t, err := s.whole(ctx, ref)
	if err != nil {
		return reconcile.Result{}, err
	}
	plan := evictionrequest.PlanEviction(t, eviction)
	if plan.Changed {
		patch, err := evictionrequest.EvictionStatusPatch(s.options.Version, eviction, plan.Status)
		if err := s.applyStatus(ctx, patch, err); err != nil {
			return afterWrite(err)
		}
	}
	return reconcile.Result{RequeueAfter: plan.Again}, nil
}

func (s *reconciler) reconcileMetadata(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	eviction, result, err := s.eviction(ctx, key)
	if eviction == nil {
		return result, err
	}
	t := evictionrequest.Target{Version: s.options.Version}
	t.Ref, _ = evictionrequest.EvictionRef(eviction)
	if t.Requests, err = targets.RequestsOf(ctx, s.client, client.ObjectKey{Namespace: t.Ref.Namespace, Name: t.Ref.Name}); err != nil {
		return reconcile.Result{}, err
	}
	plan := evictionrequest.PlanMetadata(t, eviction)
	if !plan.Changed {
		return reconcile.Result{}, nil
	}
	patch, err := evictionrequest.MetadataPatch(s.options.Version, eviction, plan)
	return afterWrite(s.apply(ctx, patch, err))
}

// eviction returns none when there is nothing to do: it is gone, is going, or another controller serves it.
func (s *reconciler) eviction(ctx context.Context, key reconcile.Request) (*api.Eviction, reconcile.Result, error) {
	eviction := &api.Eviction{}
	if err := s.client.Get(ctx, key.NamespacedName, eviction); err != nil {
		return nil, reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if eviction.DeletionTimestamp != nil {
		return nil, reconcile.Result{}, nil
	}
	if _, left := s.others.running(s.options.Now()); left > 0 {
		return nil, reconcile.Result{RequeueAfter: left}, nil
	}
	return eviction, reconcile.Result{}, nil
}

func (s *reconciler) apply(ctx context.Context, patch *unstructured.Unstructured, err error) error {
	if err != nil {
		return err
	}
	return act.Apply(ctx, s.client, patch, evictionrequest.FieldManager)
}

func (s *reconciler) applyStatus(ctx context.Context, patch *unstructured.Unstructured, err error) error {
	if err != nil {
		return err
	}
	return act.ApplyStatus(ctx, s.client, patch, evictionrequest.FieldManager)
}

// lostRace is how long to wait for the watch to deliver what a write lost against.
const lostRace = time.Second

// afterWrite takes a lost race for what it is: the object has changed or gone, and its event is on the way.
func afterWrite(err error) (reconcile.Result, error) {
	switch {
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: lostRace}, nil
	}
	return reconcile.Result{}, err
}
