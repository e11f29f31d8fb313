package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
)

// settling is a little more than the time after which Go collects garbage even where nothing is allocated.
const settling = 130 * time.Second

// slowest is how long evicted members may take to be gone and to be ready again.
const slowest = 2 * time.Minute

// measureCrowd starts the managers anew in a cluster of allPods, and asks them when no member is on its way any more, and before them a
// server that only reads the pods: an apiserver of so many pods takes its time.
func measureCrowd(ctx context.Context, st *stage, f *figures) error {
	if err := st.regrow(ctx, st.crowd); err != nil {
		return err
	}
	if err := st.awaitLeft(ctx); err != nil {
		return err
	}
	if err := st.measureServer(ctx, &f.crowdedReading, "a server that reads the pods, 20,000 pods", st.readPod); err != nil {
		return err
	}
	return st.measureReplicas(ctx, &f.crowded, func(send sender) (*load, error) { return paced(ctx, "webhook, 20,000 pods", send) })
}

// awaitLeft returns when no member is on its way any more. A pod that the simulator of nodes does not end, as it was seen to do with one of 40,
// is ended here: what is measured is not the simulator.
func (st *stage) awaitLeft(ctx context.Context) error {
	left := func(p *v1alpha1.EvictionPolicy) bool {
		return len(p.Status.Leaving) == 0 && p.Status.MemberCount == members+routers
	}
	patient, cancel := context.WithTimeout(ctx, slowest)
	defer cancel()
	err := st.awaitPolicy(patient, left)
	if err == nil || ctx.Err() != nil {
		return err
	}
	if err := st.endTerminating(ctx); err != nil {
		return err
	}
	patient, cancelAgain := context.WithTimeout(ctx, slowest)
	defer cancelAgain()
	return st.awaitPolicy(patient, left)
}

// endTerminating removes the governed pods whose grace is over, as their kubelet would.
func (st *stage) endTerminating(ctx context.Context) error {
	pods, err := st.lab.Client.CoreV1().Pods(governedNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.DeletionTimestamp == nil || pod.DeletionTimestamp.After(time.Now()) {
			continue
		}
		fmt.Printf("  pod %s is Terminating since %s, and the simulator of nodes does not end it: it is removed\n", pod.Name, pod.DeletionTimestamp.Format(time.TimeOnly))
		options := *metav1.NewPreconditionDeleteOptions(string(pod.UID))
		options.GracePeriodSeconds = new(int64)
		if err := st.lab.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing pod %s: %w", pod.Name, err)
		}
	}
	return nil
}

// measureMemory starts the managers anew in a cluster of mostPods: what they take while they fill their caches, under load
// and at rest.
func measureMemory(ctx context.Context, st *stage, f *figures) error {
	if err := st.regrow(ctx, st.flood); err != nil {
		return err
	}
	var err error
	if f.started, err = usageOf(ctx, st.managers); err != nil {
		return err
	}
	fmt.Printf("  just started: %s resident, at most %s\n", mb(f.started.resident), mb(f.started.peak))
	err = st.measureReplicas(ctx, &f.flooded, func(send sender) (*load, error) { return paced(ctx, "webhook, 150,000 pods", send) })
	if err != nil {
		return err
	}
	select {
	case <-time.After(settling):
	case <-ctx.Done():
		return ctx.Err()
	}
	f.rested, err = usageOf(ctx, st.managers)
	return err
}

// regrow lets the cluster grow while no manager runs.
func (st *stage) regrow(ctx context.Context, grow func(context.Context) error) error {
	if err := st.managers.Stop(); err != nil {
		return err
	}
	if err := grow(ctx); err != nil {
		return err
	}
	return st.managers.Start(ctx)
}
