package observe

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"usher.sh/usher/internal/evictionrequest/client"
	"usher.sh/usher/internal/snapshot"
)

// End is how an eviction that was followed ended.
type End struct {
	Gone   bool   // the pod was seen gone, by UID
	Failed string // why its request comes to nothing
	// Emptied: the pod stays by its policy, and carries nothing any more. The request stands.
	Emptied bool
}

// Follow calls said with what becomes of a requester's demand that a pod goes, until the pod is gone or emptied, or the request has
// failed. An error is the context's, or says what cannot be read.
func Follow(ctx context.Context, kube kubernetes.Interface, evictions *client.Client, pod *snapshot.Pod, requester string, said func(*snapshot.Eviction)) (End, error) {
	f := follower{kube: kube, evictions: evictions, pod: pod, requester: requester, said: said}
	for {
		end, err := f.look(ctx)
		if err != nil || end != (End{}) {
			return end, err
		}
		if err := f.wait(ctx); err != nil {
			return End{}, err
		}
	}
}

type follower struct {
	kube      kubernetes.Interface
	evictions *client.Client
	pod       *snapshot.Pod
	requester string
	said      func(*snapshot.Eviction)

	podsAt, evictionsAt string // resource versions that were seen
}

// look reads how things stand.
func (f *follower) look(ctx context.Context) (End, error) {
	if gone, err := f.gone(ctx); gone || err != nil {
		return End{Gone: gone}, err
	}
	seen := snapshot.NewCluster()
	all, err := f.evictions.Evictions(f.pod.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return End{}, fmt.Errorf("reading evictions: %w", err)
	}
	f.evictionsAt = all.ResourceVersion
	for i := range all.Items {
		seen.SetEviction(EvictionFacts(&all.Items[i]))
	}
	if e := seen.EvictionOf(f.pod); e != nil {
		f.said(e)
		return End{Emptied: e.Emptied}, nil
	}
	return f.failure(ctx, seen)
}

// gone reports whether the pod is no longer there.
func (f *follower) gone(ctx context.Context) (bool, error) {
	pods, err := f.kube.CoreV1().Pods(f.pod.Namespace).List(ctx, f.options(""))
	if err != nil {
		return false, fmt.Errorf("reading pod %s: %w", f.pod.Key(), err)
	}
	f.podsAt = pods.ResourceVersion
	return len(pods.Items) == 0 || pods.Items[0].UID != f.pod.UID, nil
}

// failure says whether the request has come to nothing.
func (f *follower) failure(ctx context.Context, seen *snapshot.Cluster) (End, error) {
	all, err := f.evictions.Requests(f.pod.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return End{}, fmt.Errorf("reading eviction requests: %w", err)
	}
	for i := range all.Items {
		seen.SetRequest(RequestFacts(&all.Items[i]))
	}
	switch r := seen.RequestBy(f.requester, f.pod); {
	case r == nil:
		if gone, err := f.gone(ctx); gone || err != nil {
			return End{Gone: gone}, err // and the request with it
		}
		return End{Failed: "the request was withdrawn"}, nil
	case r.Failed != "":
		return End{Failed: r.Failed}, nil
	}
	return End{}, nil
}

func (f *follower) options(version string) metav1.ListOptions {
	return metav1.ListOptions{ResourceVersion: version, FieldSelector: fields.OneTermEqualSelector("metadata.name", f.pod.Name).String()}
}

// lookAgain bounds how long a lost event can hide something.
const lookAgain = time.Minute

// wait returns when something may have changed.
func (f *follower) wait(ctx context.Context) error {
	pods, err := f.kube.CoreV1().Pods(f.pod.Namespace).Watch(ctx, f.options(f.podsAt))
	if err != nil {
		return expired(fmt.Errorf("watching pod %s: %w", f.pod.Key(), err))
	}
	defer pods.Stop()
	evictions, err := f.evictions.Evictions(f.pod.Namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: f.evictionsAt})
	if err != nil {
		return expired(fmt.Errorf("watching evictions: %w", err))
	}
	defer evictions.Stop()
	again := time.NewTimer(lookAgain)
	defer again.Stop()
	return anyOf(ctx, pods.ResultChan(), evictions.ResultChan(), again.C)
}

func anyOf(ctx context.Context, pods, evictions <-chan watch.Event, again <-chan time.Time) error {
	select {
	case <-pods:
	case <-evictions:
	case <-again:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// expired forgives a version that the server no longer has: the next look begins with a new one.
func expired(err error) error {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return nil
	}
	return err
}
