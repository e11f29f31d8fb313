package realetcd

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/connectivity"
)

const (
	sampleEvery = 50 * time.Millisecond
	// readLimit is far above what a read takes while leadership moves, and below what a member's pod takes to come back.
	readLimit = 2 * time.Second
	// slowLimit is that of reads through a member that is connected: it is there, and a busy machine may hold it up.
	slowLimit = 10 * time.Second
	// backLimit is that of reads through a member that did not serve: to be seen soon when it does again.
	backLimit = 300 * time.Millisecond
)

// sampler asks the members, each by itself, whether they serve and which one leads.
type sampler struct {
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu    sync.Mutex
	down  [size][]span // a linearizable read through the member failed
	slow  time.Duration
	votes [size]vote
	leads []lead
	first chan struct{} // closed when the leader is known
}

// vote is what a member reports as its leader.
type vote struct{ leader, term uint64 }

// lead is that a quorum has begun to call a member leader.
type lead struct {
	at     time.Time // no later than when they were asked
	member int
	term   uint64
}

// startSampler returns when the leader is known.
func (e *etcd) startSampler(t *testing.T) *sampler {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &sampler{cancel: cancel, first: make(chan struct{})}
	ids := e.ids(t)
	for i := range size {
		reads, asks := e.asker(t, i), e.asker(t, i)
		s.running.Go(func() { s.read(ctx, reads, i) })
		s.running.Go(func() { s.ask(ctx, asks, i, ids) })
	}
	t.Cleanup(s.stop)
	select {
	case <-s.first:
	case <-time.After(5 * time.Minute):
		t.Fatal("no quorum agrees on a leader")
	}
	return s
}

// ids are the members' places by their ids.
func (e *etcd) ids(t *testing.T) map[uint64]int {
	t.Helper()
	found := map[uint64]int{}
	for i := range size {
		answer, err := e.asker(t, i).Status(t.Context(), e.url(i, clientPort))
		if err != nil {
			t.Fatal(err)
		}
		found[answer.Header.MemberId] = i
	}
	return found
}

// stop returns when no member is asked any more; then what was seen may be read.
func (s *sampler) stop() {
	s.cancel()
	s.running.Wait()
}

func (s *sampler) read(ctx context.Context, client *clientv3.Client, i int) {
	var since time.Time
	end := func(at time.Time) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !since.IsZero() {
			s.down[i] = append(s.down[i], span{since, at})
		}
		since = time.Time{}
	}
	each(ctx, func() {
		begin := time.Now()
		limit := readLimit
		if !since.IsZero() {
			limit = backLimit
		}
		serves := begin
		err := readOnce(ctx, client, limit)
		if err != nil && client.ActiveConnection().GetState() == connectivity.Ready {
			err = readOnce(ctx, client, slowLimit)
			serves = time.Now()
		}
		switch {
		case ctx.Err() != nil:
		case err == nil:
			end(serves)
			s.took(time.Since(begin))
		case since.IsZero():
			since = begin
		}
	})
	end(time.Now())
}

// readOnce reads through a quorum. It asks again while the answer is that leadership moves: the member is there.
func readOnce(ctx context.Context, client *clientv3.Client, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		_, err := client.Get(ctx, "any")
		if !errors.Is(err, rpctypes.ErrLeaderChanged) && !errors.Is(err, rpctypes.ErrNoLeader) {
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

func (s *sampler) took(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slow = max(s.slow, d)
}

func (s *sampler) ask(ctx context.Context, client *clientv3.Client, i int, ids map[uint64]int) {
	each(ctx, func() {
		begin := time.Now()
		limited, cancel := context.WithTimeout(ctx, readLimit)
		defer cancel()
		answer, err := client.Status(limited, client.Endpoints()[0])
		if err != nil {
			s.count(i, vote{}, ids, begin)
			return
		}
		s.count(i, vote{answer.Leader, answer.RaftTerm}, ids, begin)
	})
}

// count counts a member's vote, the last of each.
func (s *sampler) count(i int, v vote, ids map[uint64]int, asked time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.votes[i] = v
	same := 0
	for _, other := range s.votes {
		if other == v {
			same++
		}
	}
	leader, known := ids[v.leader]
	if same < quorum || !known {
		return
	}
	last := len(s.leads) - 1
	if last < 0 {
		close(s.first)
	}
	if last < 0 || s.leads[last].term < v.term {
		s.leads = append(s.leads, lead{asked, leader, v.term})
	}
}

// leader returns the member that led at that time; false if none was known to.
func (s *sampler) leader(at time.Time) (int, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	member, known := 0, false
	for _, l := range s.leads {
		if !l.at.After(at) {
			member, known = l.member, true
		}
	}
	return member, known
}

func each(ctx context.Context, do func()) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			do()
		case <-ctx.Done():
			return
		}
	}
}
