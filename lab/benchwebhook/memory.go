package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"usher.sh/usher/api/v1alpha1"
)

// settling is a little more than the time after which Go collects garbage even where nothing is allocated.
const settling = 130 * time.Second

// slowest is how long evicted members may take to be gone and to be ready again.
const slowest = 2 * time.Minute

// measureCrowd starts the managers anew in a cluster of allPods, once no member is on its way any more, and asks them, and before them a
// server that only reads the pods: an apiserver of so many pods takes its time.
func measureCrowd(ctx context.Context, st *stage, f *figures) error {
	if err := st.awaitLeft(ctx); err != nil {
		return err
	}
	if err := st.regrow(ctx, st.crowd); err != nil {
		return err
	}
	if err := st.measureServer(ctx, &f.crowdedReading, "a server that reads the pods, 20,000 pods", st.readPod); err != nil {
		return err
	}
	return st.measureReplicas(ctx, &f.crowded, func(send sender) (*load, error) { return paced(ctx, "webhook, 20,000 pods", send) })
}

// awaitLeft returns when no member is on its way any more. The simulator of nodes, which is no kubelet to admission, cannot end a pod while no
// manager runs, and does not try again.
func (st *stage) awaitLeft(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, slowest, fmt.Errorf("evicted members were not gone and ready again within %s", slowest))
	defer cancel()
	return st.awaitPolicy(ctx, func(p *v1alpha1.EvictionPolicy) bool {
		return len(p.Status.Leaving) == 0 && p.Status.MemberCount == members+routers
	})
}

// floodMemory is what the machine must have for mostPods: the apiserver alone was seen to take 15 GiB while five clients list them, and a machine
// of 24 GiB stood still for as long as that lasted, until a manager had lost its Lease.
const floodMemory = 30 << 30

// measureMemory starts the managers anew in a cluster of mostPods: what they take while they fill their caches, under load
// and at rest.
func measureMemory(ctx context.Context, st *stage, f *figures) error {
	var machine syscall.Sysinfo_t
	if err := syscall.Sysinfo(&machine); err != nil {
		return fmt.Errorf("reading the machine's memory: %w", err)
	}
	if has := machine.Totalram * uint64(machine.Unit); has < floodMemory {
		fmt.Printf("  SKIPPED, nothing was measured: %d pods take a machine with %s of memory, and this one has %s\n", mostPods, mb(floodMemory), mb(float64(has)))
		return nil
	}
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
