package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// measureAPIServer asks by dry runs of evictions, of members and of pods in whose namespace there is no webhook.
func measureAPIServer(ctx context.Context, st *stage, f *figures) error {
	for _, run := range []struct {
		place           **load
		namespace, role string
	}{
		{&f.free, freeNamespace, freeName},
		{&f.governed, governedNamespace, memberRole},
	} {
		pods, err := st.listPods(ctx, run.namespace, run.role)
		if err != nil {
			return err
		}
		send := func(ctx context.Context, i int) (string, error) {
			return st.evict(ctx, &pods[i%len(pods)], metav1.DryRunAll)
		}
		err = st.watched(ctx, run.place, func() (*load, error) {
			return paced(ctx, "apiserver, "+run.namespace+" namespace", send)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// accepted is the answer to an eviction that is let through.
const accepted = "accepted"

// evict asks the apiserver for a pod's eviction. Whatever it says is an answer, and also that it says nothing.
func (st *stage) evict(ctx context.Context, pod *corev1.Pod, dryRun ...string) (string, error) {
	err := st.requestEviction(ctx, pod, dryRun...)
	if err == nil {
		return accepted, nil
	}
	if reason := apierrors.ReasonForError(err); reason != metav1.StatusReasonUnknown {
		return string(reason), nil
	}
	return "no answer", ctx.Err()
}

func (st *stage) requestEviction(ctx context.Context, pod *corev1.Pod, dryRun ...string) error {
	return st.lab.Client.CoreV1().Pods(pod.Namespace).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{DryRun: dryRun, Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
	})
}
