// Command benchwebhook answers: what does an answer of Usher's admission cost, and how much memory does its manager
// take? It asks two replicas about a thousand governed pods, then grows the cluster around them to a thousand nodes with
// 20,000 and with 150,000 pods.
package main

import (
	"context"
	"fmt"
	"os"

	"usher.sh/usher/lab/throwaway"
)

func main() {
	throwaway.Main("benchwebhook", "bench-webhook", os.Args[1:], func(ctx context.Context, lab *throwaway.Lab, usher string) error {
		f, err := measureAll(ctx, lab, usher)
		if err != nil {
			return err
		}
		return finish(lab, f)
	})
}

// finish ends the apiserver before its log is read: a watch is in the log only once it has ended.
func finish(lab *throwaway.Lab, f *figures) error {
	if err := lab.StopAPIServer(); err != nil {
		return err
	}
	if err := count(lab.AuditLog(), f.loads()); err != nil {
		return err
	}
	return report(os.Stdout, f)
}

// measureAll makes the set-up and measures, what needs little first.
func measureAll(ctx context.Context, lab *throwaway.Lab, usher string) (*figures, error) {
	st, err := build(ctx, lab, usher)
	if err != nil {
		return nil, err
	}
	defer st.close()
	f := &figures{}
	for _, step := range []struct {
		doing string
		do    func(context.Context, *stage, *figures) error
	}{
		{"asking servers that decide nothing", measureFloor},
		{"asking the webhook", measureWebhook},
		{"asking through the apiserver", measureAPIServer},
		{"asking at full speed", measureFullSpeed},
		{"evicting", measureEvictions},
		{"growing the cluster and asking in it", measureCrowd},
		{"growing the cluster further and weighing the managers in it", measureMemory},
	} {
		fmt.Println(step.doing, "...")
		if err := step.do(ctx, st, f); err != nil {
			return nil, fmt.Errorf("%s: %w", step.doing, err)
		}
	}
	return f, nil
}
