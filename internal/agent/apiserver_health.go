package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// apiserverHealth knows whether the apiserver answers.
type apiserverHealth struct {
	probe   func(ctx context.Context) error
	changed func(reachable bool)

	mu   sync.Mutex
	away bool
}

// How often an apiserver that is away is asked whether it is back, and how long that may take.
const (
	probeEvery   = time.Second
	probePatient = time.Second
)

// heard enters how a request ended. An answer is an answer, whatever it says.
func (r *apiserverHealth) heard(err error) {
	var answer apierrors.APIStatus
	away := err != nil && !errors.As(err, &answer)
	if errors.Is(err, context.Canceled) {
		return // it was us who hung up
	}
	r.mu.Lock()
	before := r.away
	r.away = away
	r.mu.Unlock()
	if before != away {
		r.changed(!away)
	}
}

func (r *apiserverHealth) reachable() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.away
}

// run asks an apiserver that is away until it is back.
func (r *apiserverHealth) run(ctx context.Context) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if r.reachable() {
			continue
		}
		asked, cancel := context.WithTimeout(ctx, probePatient)
		r.heard(r.probe(asked))
		cancel()
	}
}
