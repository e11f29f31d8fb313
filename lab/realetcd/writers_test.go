package realetcd

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

const (
	writerCount = 3
	writeEvery  = 20 * time.Millisecond // of each writer, at most
	writeLimit  = time.Second
)

// write is one that was acknowledged.
type write struct {
	key, value string
	revision   int64
	at         time.Time // when the acknowledgement came
}

// failure is a write that was not.
type failure struct {
	span
	err error
}

// writers write keys of their own, each once, and remember what was acknowledged. A write that failed may have happened
// or not, and is not checked.
type writers struct {
	cancel  context.CancelFunc
	running sync.WaitGroup
	began   time.Time
	ended   time.Time
	written [writerCount][]write
	failed  [writerCount][]failure
}

func (e *etcd) startWriters(t *testing.T) *writers {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &writers{cancel: cancel, began: time.Now()}
	for i := range writerCount {
		client := e.client(t, e.endpoints()...)
		w.running.Go(func() { w.write(ctx, client, i) })
	}
	t.Cleanup(w.stop)
	return w
}

// client gives every part of a test connections of its own. It makes lost ones anew at once: how long a client keeps away
// is not what is measured.
func (e *etcd) client(t *testing.T, endpoints ...string) *clientv3.Client {
	t.Helper()
	return e.clientWith(t, clientv3.Config{Endpoints: endpoints})
}

// asker is a client of one member that takes its first answer, and no answer for one.
func (e *etcd) asker(t *testing.T, i int) *clientv3.Client {
	t.Helper()
	return e.clientWith(t, clientv3.Config{Endpoints: []string{e.url(i, clientPort)}, MaxUnaryRetries: 1})
}

func (e *etcd) clientWith(t *testing.T, config clientv3.Config) *clientv3.Client {
	t.Helper()
	config.Logger = zap.NewNop()
	config.DialKeepAliveTime, config.DialKeepAliveTimeout = 2*time.Second, time.Second
	config.DialOptions = []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1, MaxDelay: 50 * time.Millisecond},
		MinConnectTimeout: backLimit,
	})}
	client, err := clientv3.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func (w *writers) write(ctx context.Context, client *clientv3.Client, i int) {
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		key, value := fmt.Sprintf("w/%d/%06d", i, n), fmt.Sprintf("value %d of writer %d", n, i)
		begin := time.Now()
		limited, cancel := context.WithTimeout(ctx, writeLimit)
		answer, err := client.Put(limited, key, value)
		cancel()
		if err != nil && ctx.Err() != nil {
			return // broken off by stop
		}
		if err != nil {
			w.failed[i] = append(w.failed[i], failure{span{begin, time.Now()}, err})
			continue
		}
		w.written[i] = append(w.written[i], write{key, value, answer.Header.Revision, time.Now()})
	}
}

// stop returns when no write is under way; then what they have written may be read.
func (w *writers) stop() {
	w.cancel()
	w.running.Wait()
	if w.ended.IsZero() {
		w.ended = time.Now()
	}
}

// pause is the longest time in which no write was acknowledged.
func (w *writers) pause() span {
	var all []time.Time
	for _, each := range w.written {
		for _, one := range each {
			all = append(all, one.at)
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	longest, last := span{}, w.began
	for _, at := range append(all, w.ended) {
		if at.Sub(last) > longest.length() {
			longest = span{last, at}
		}
		last = at
	}
	return longest
}

// check reads all back, through a quorum, and returns what is not there as it was acknowledged.
func (w *writers) check(ctx context.Context, client *clientv3.Client) (acknowledged int, lost []string, err error) {
	for i, each := range w.written {
		there, err := readBack(ctx, client, fmt.Sprintf("w/%d/", i))
		if err != nil {
			return 0, nil, err
		}
		for _, want := range each {
			if got := there[want.key]; got.value != want.value || got.revision != want.revision {
				lost = append(lost, fmt.Sprintf("%s: acknowledged as %q at revision %d, there is %q of revision %d",
					want.key, want.value, want.revision, got.value, got.revision))
			}
		}
		acknowledged += len(each)
	}
	return acknowledged, lost, nil
}

func readBack(ctx context.Context, client *clientv3.Client, prefix string) (map[string]write, error) {
	const page = 5000
	found := map[string]write{}
	end := clientv3.GetPrefixRangeEnd(prefix)
	for from := prefix; ; {
		answer, err := client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(page))
		if err != nil {
			return nil, fmt.Errorf("reading back: %w", err)
		}
		for _, kv := range answer.Kvs {
			found[string(kv.Key)] = write{key: string(kv.Key), value: string(kv.Value), revision: kv.ModRevision}
		}
		if !answer.More {
			return found, nil
		}
		from = string(answer.Kvs[len(answer.Kvs)-1].Key) + "\x00"
	}
}
