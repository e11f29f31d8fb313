package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// sender asks question number i and says how it was answered.
type sender func(ctx context.Context, i int) (answer string, err error)

// load is questions that were sent, and what came of them.
type load struct {
	name    string
	began   time.Time
	ended   time.Time
	times   []time.Duration            // sorted once done
	answers map[string][]time.Duration // sorted once done

	observations int64          // questions to the system meanwhile
	requests     map[string]int // of the managers to the apiserver meanwhile, by verb and resource
	before       usage
	after        usage

	mu  sync.Mutex
	err error
}

func (l *load) ask(ctx context.Context, send sender, i int) {
	began := time.Now()
	answer, err := send(ctx, i)
	took := time.Since(began)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.err = err
		return
	}
	l.times = append(l.times, took)
	l.answers[answer] = append(l.answers[answer], took)
}

func (l *load) done() error {
	l.ended = time.Now()
	slices.Sort(l.times)
	for _, times := range l.answers {
		slices.Sort(times)
	}
	if l.err != nil {
		return fmt.Errorf("asking: %w", l.err)
	}
	return nil
}

func newLoad(name string) *load {
	return &load{name: name, began: time.Now(), answers: map[string][]time.Duration{}}
}

const (
	rate   = 200 // questions a second
	length = 30 * time.Second
	// mostWaiting bounds the questions that wait for an answer, as the apiserver does: where that many wait, fewer are
	// sent, which shows in what was reached.
	mostWaiting = 64
)

// paced sends rate questions a second, whether or not the earlier ones are answered.
func paced(ctx context.Context, name string, send sender) (*load, error) {
	l := newLoad(name)
	tick := time.NewTimer(0)
	defer tick.Stop()
	free := make(chan struct{}, mostWaiting)
	var waiting sync.WaitGroup
	for i := range int(length.Seconds() * rate) {
		tick.Reset(time.Until(l.began.Add(time.Duration(i) * time.Second / rate)))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if time.Since(l.began) > length {
			break
		}
		free <- struct{}{}
		waiting.Go(func() {
			l.ask(ctx, send, i)
			<-free
		})
	}
	waiting.Wait()
	return l, l.done()
}

// unpaced keeps so many workers busy.
func unpaced(ctx context.Context, name string, workers int, length time.Duration, send sender) (*load, error) {
	l := newLoad(name)
	var waiting sync.WaitGroup
	for w := range workers {
		waiting.Go(func() {
			for i := w; time.Since(l.began) < length && ctx.Err() == nil; i += workers {
				l.ask(ctx, send, i)
			}
		})
	}
	waiting.Wait()
	return l, l.done()
}

func (l *load) quantile(q float64) time.Duration { return quantile(l.times, q) }

// quantile of sorted times is 0 where nothing was measured.
func quantile(times []time.Duration, q float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	return times[min(len(times)-1, int(q*float64(len(times))))]
}

func (l *load) perSecond() float64 { return float64(len(l.times)) / l.ended.Sub(l.began).Seconds() }
