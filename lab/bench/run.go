package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"usher.sh/usher/lab/throwaway"
)

// tool is one way to drain.
type tool struct {
	name    string
	path    string
	flags   []string
	agent   string // how its user agent begins
	surges  bool
	manager bool // drains by a NodeMaintenance, and not by a command
}

// run is one drain and what was seen of it.
type run struct {
	setup    setup
	tool     tool
	started  time.Time
	ended    time.Time
	ready    *readiness
	requests requests
}

func (r *run) took() time.Duration { return r.ended.Sub(r.started) }

// measure drains a fresh set-up with the tool.
func measure(ctx context.Context, lab *throwaway.Lab, s setup, t tool, name string) (*run, error) {
	st, err := build(ctx, lab, s, name)
	if err != nil {
		return nil, err
	}
	watching, stop := context.WithCancel(ctx)
	seen := make(chan *readiness)
	go func() { seen <- watchReadiness(watching, st.pods()) }()
	r := &run{setup: s, tool: t, started: time.Now()}
	if t.manager {
		err = maintain(ctx, t, st)
	} else {
		err = drain(ctx, t, st)
	}
	r.ended = time.Now()
	stop()
	r.ready = <-seen
	if err != nil {
		return nil, err
	}
	if t.manager {
		if err := endMaintenance(ctx, st); err != nil {
			return nil, err
		}
	}
	return r, st.remove(ctx)
}

func drain(ctx context.Context, t tool, st *stage) error {
	args := slices.Concat([]string{"--kubeconfig", st.lab.Kubeconfig(), "drain"}, st.targets, t.flags)
	output, err := exec.CommandContext(ctx, t.path, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("draining with %s: %w; it ended with:\n%s", t.name, err, lastLines(output))
	}
	return nil
}

func lastLines(text []byte) []byte {
	const n = 20
	lines := bytes.SplitAfter(text, []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-n):], nil)
}
