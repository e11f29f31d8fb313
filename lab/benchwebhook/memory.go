package main

import (
	"context"
	"fmt"
	"time"
)

// settling is a little more than the time after which Go collects garbage even where nothing is allocated.
const settling = 130 * time.Second

// measureMemory starts the managers anew in the grown cluster: what they take while they fill their caches, under load
// and at rest.
func measureMemory(ctx context.Context, st *stage, f *figures) error {
	if err := st.managers.stop(); err != nil {
		return err
	}
	if err := st.crowd(ctx); err != nil {
		return err
	}
	if err := st.managers.start(ctx); err != nil {
		return err
	}
	var err error
	if f.started, err = st.managers.usage(ctx); err != nil {
		return err
	}
	fmt.Printf("  just started: %s resident, at most %s\n", mb(f.started.resident), mb(f.started.peak))
	err = st.measureReplicas(ctx, &f.crowded, func(send sender) (*load, error) {
		return paced(ctx, "webhook, 20,000 pods", send)
	})
	if err != nil {
		return err
	}
	select {
	case <-time.After(settling):
	case <-ctx.Done():
		return ctx.Err()
	}
	f.rested, err = st.managers.usage(ctx)
	return err
}
