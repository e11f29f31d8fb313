package notices

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	writerCount = 3
	writeEvery  = 50 * time.Millisecond // of each writer, at most
	writeLimit  = time.Second
)

// writers write keys of their own, each once, and remember what was acknowledged. A write that failed may have happened or not.
type writers struct {
	endpoints []string
	cancel    context.CancelFunc
	running   sync.WaitGroup

	mu       sync.Mutex
	revision map[string]int64 // of what was acknowledged, by key
	failed   int
}

func startWriters(t *testing.T, endpoints []string) *writers {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &writers{endpoints: endpoints, cancel: cancel, revision: map[string]int64{}}
	for i := range writerCount {
		client := etcdClient(t, endpoints...)
		w.running.Go(func() { w.write(ctx, client, i) })
	}
	t.Cleanup(w.stop)
	return w
}

// stop returns when no write is under way.
func (w *writers) stop() {
	w.cancel()
	w.running.Wait()
}

// value is what is written of a key.
func value(key string) string { return "the value of " + key }

func (w *writers) write(ctx context.Context, client *clientv3.Client, i int) {
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		key := fmt.Sprintf("w/%d/%06d", i, n)
		limited, cancel := context.WithTimeout(ctx, writeLimit)
		answer, err := client.Put(limited, key, value(key))
		cancel()
		if ctx.Err() != nil {
			return // broken off by stop
		}
		w.mu.Lock()
		if err != nil {
			w.failed++
		} else {
			w.revision[key] = answer.Header.Revision
		}
		w.mu.Unlock()
	}
}

// check reads back all that was acknowledged up to now, through a quorum, and fails the test for what is not there as it was.
func (w *writers) check(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	acknowledged := maps.Clone(w.revision)
	failed := w.failed
	w.mu.Unlock()
	client, lost := etcdClient(t, w.endpoints...), len(acknowledged)
	const page = 5000
	for from, more := "w/", true; more; {
		answer, err := client.Get(t.Context(), from, clientv3.WithRange(clientv3.GetPrefixRangeEnd("w/")), clientv3.WithLimit(page))
		if err != nil {
			t.Fatalf("reading back: %v", err)
		}
		for _, kv := range answer.Kvs {
			key := string(kv.Key)
			from = key + "\x00"
			if revision, is := acknowledged[key]; is && revision == kv.ModRevision && string(kv.Value) == value(key) {
				lost--
			}
		}
		more = answer.More
	}
	t.Logf("%d writes acknowledged, %d failed, %d lost", len(acknowledged), failed, lost)
	if lost > 0 || len(acknowledged) == 0 {
		t.Errorf("%d of %d acknowledged writes are lost", lost, len(acknowledged))
	}
}
