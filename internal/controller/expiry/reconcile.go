package expiry

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
)

// fieldManager owns the intent of requests that are withdrawn from here.
const fieldManager = "usher-expiry"

// lostRace is how long the watch gets to deliver what a write lost against.
const lostRace = time.Second

func (s *reconciler) reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	request := &api.EvictionRequest{}
	if err := s.client.Get(ctx, key.NamespacedName, request); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	facts := observe.RequestFacts(request)
	who, drains := facts.Drainer()
	if facts.Withdrawn || drains && facts.Ended {
		return reconcile.Result{}, nil
	}
	pod, err := s.pod(ctx, request)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case drains:
		return s.ofDrain(ctx, request, pod, who)
	}
	return s.ofCaller(ctx, request, pod)
}

// ofDrain withdraws the request of a drain that shows no sign of life, unless it keeps a pod empty on a node that was drained and not given
// back since. The events of that node have it looked at again.
func (s *reconciler) ofDrain(ctx context.Context, request *api.EvictionRequest, pod *corev1.Pod, who snapshot.Drainer) (reconcile.Result, error) {
	names, err := s.places(ctx, pod, who)
	if err != nil {
		return reconcile.Result{}, err
	}
	kept, shown := false, false                                // past the cache, and by it
	for _, reader := range []client.Reader{s.client, s.live} { // a cache may lack the last sign of life
		seen, err := read(ctx, reader, names)
		if err != nil {
			return reconcile.Result{}, err
		}
		again := s.readLease(ctx, seen, who)
		now := s.Now()
		if until := drain.LiveUntil(snapshot.View{Now: now, Cluster: seen}, who); until.After(now) {
			return reconcile.Result{RequeueAfter: min(again, until.Sub(now))}, nil
		}
		shown, kept = kept, keeps(seen, pod, who)
	}
	switch {
	case kept && !shown: // a cache that never shows it has no event for when the node is given back
		return reconcile.Result{RequeueAfter: whileHeld}, nil
	case kept:
		return reconcile.Result{}, nil
	}
	return s.withdraw(ctx, request, who)
}

// keeps reports whether the drain has drained the pod's node, which was not given back since.
func keeps(seen *snapshot.Cluster, pod *corev1.Pod, who snapshot.Drainer) bool {
	if pod == nil {
		return false
	}
	node := seen.Node(pod.Spec.NodeName)
	return node != nil && node.KeptDrained(who.ID)
}

// pod returns the pod of a request by the cache, nil where that has it not.
func (s *reconciler) pod(ctx context.Context, request *api.EvictionRequest) (*corev1.Pod, error) {
	ref, ok := evictionrequest.RequestRef(request)
	if !ok {
		return nil, nil
	}
	pod := &corev1.Pod{}
	err := s.client.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, pod)
	switch {
	case apierrors.IsNotFound(err), err == nil && pod.UID != ref.UID:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading pod %s of request %s: %w", ref.Name, request.Name, err)
	}
	return pod, nil
}

// places names the nodes that may carry the drain's record: that of the pod, and those on which the cache shows it.
func (s *reconciler) places(ctx context.Context, pod *corev1.Pod, who snapshot.Drainer) ([]string, error) {
	var list corev1.NodeList
	if err := s.client.List(ctx, &list, client.MatchingFields{drainIndex: who.ID}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the nodes of drain %s: %w", who.ID, err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	if pod != nil && pod.Spec.NodeName != "" {
		names = append(names, pod.Spec.NodeName)
	}
	return names, nil
}

func read(ctx context.Context, reader client.Reader, names []string) (*snapshot.Cluster, error) {
	seen := snapshot.NewCluster()
	for _, name := range names {
		var node corev1.Node
		err := reader.Get(ctx, client.ObjectKey{Name: name}, &node)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading node %s: %w", name, err)
		}
		seen.SetNode(observe.NodeFacts(&node))
	}
	return seen, nil
}

// readLease reads the Lease of a drain from the apiserver, where a node says that it has one, and returns when to read it again at the
// latest. No cache keeps Leases: those of nodes change all the time. While it cannot be read, UnreadFor bounds how long the drain counts as
// running.
func (s *reconciler) readLease(ctx context.Context, seen *snapshot.Cluster, who snapshot.Drainer) (again time.Duration) {
	if !seen.AnyNode(func(n *snapshot.Node) bool { return n.Drain != nil && n.Drain.ID == who.ID && n.Drain.Lease }) {
		return snapshot.UnreadFor
	}
	var lease coordinationv1.Lease
	err := s.live.Get(ctx, client.ObjectKey{Namespace: snapshot.LeaseNamespace, Name: snapshot.LeaseName(who.ID)}, &lease)
	switch {
	case apierrors.IsForbidden(err):
		return snapshot.UnreadFor // the manager may be older than its role
	case client.IgnoreNotFound(err) != nil:
		log.FromContext(ctx).Error(err, "the lease of a drain cannot be read", "drain", who.ID)
		return snapshot.LiveFor
	case err == nil:
		seen.SetLease(observe.LeaseFacts(&lease))
	}
	seen.SetLeasesRead(who.ID, true)
	return snapshot.UnreadFor
}

func (s *reconciler) withdraw(ctx context.Context, request *api.EvictionRequest, who snapshot.Drainer) (reconcile.Result, error) {
	err := act.GiveUp(ctx, s.client, request, fieldManager)
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: lostRace}, nil
	case err != nil:
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	log.FromContext(ctx).Info("the request of a drain that shows no sign of life is withdrawn", "drain", who.ID, "request", request.Name)
	return reconcile.Result{}, nil
}
