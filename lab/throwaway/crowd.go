package throwaway

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// parallel is how many objects of a crowd are made at once: the scheduler and the simulator make fewer.
const parallel = 32

// InParallel does it for 0 to n-1, and ends at the first error.
func InParallel(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var hands sync.WaitGroup
	for first := range parallel {
		hands.Go(func() {
			for i := first; i < n && ctx.Err() == nil; i += parallel {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	hands.Wait()
	return context.Cause(ctx)
}

// CreateRunning creates a pod that names its node, and writes the status of one that runs.
func (l *Lab) CreateRunning(ctx context.Context, pod *corev1.Pod) error {
	client := l.Client.CoreV1().Pods(pod.Namespace)
	made, err := client.Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating a pod: %w", err)
	}
	made.Status = Running(made)
	if _, err := client.UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("writing a pod's status: %w", err)
	}
	return nil
}

// Running is the status of a pod that runs and is ready.
func Running(pod *corev1.Pod) corev1.PodStatus {
	status := corev1.PodStatus{Phase: corev1.PodRunning, StartTime: new(metav1.Now()), PodIP: "10.128.12.34", HostIP: "192.0.2.1"}
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
	}
	for _, c := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: c.Image + "@sha256:5f1d2a0c9f9d1f0e", Ready: true, Started: new(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
		})
	}
	return status
}
