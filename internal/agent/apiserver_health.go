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

// record notes the error of a request. Any answer, also a refusal, shows that the apiserver is reachable.
func (r *apiserverHealth) record(err error) {
	var answer apierrors.APIStatus
	away := err != nil && !errors.As(err, &answer)
	if errors.Is(err, context.Canceled) {
		return // the agent itself gave the request up
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
		r.record(r.probe(asked))
		cancel()
	}
}
