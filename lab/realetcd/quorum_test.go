package realetcd

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	quorumEvery = 100 * time.Millisecond
	quorumLimit = 3 * time.Second // for an answer of a member: it ends only what hangs
)

// quorumWatch looks at the members of a set again and again: those that come have to be learners first, and of the voters a majority has to
// answer.
type quorumWatch struct {
	e      *etcd
	client *clientv3.Client
	cancel context.CancelFunc
	done   sync.WaitGroup

	known  map[uint64]bool // by id; of all that were seen
	looks  int
	joined int
	wrong  []string
}

// watchQuorum takes the members that there are as known.
func (e *etcd) watchQuorum(t *testing.T) *quorumWatch {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &quorumWatch{e: e, client: e.client(t, e.endpoints()...), cancel: cancel, known: map[uint64]bool{}}
	list, err := w.client.MemberList(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list.Members {
		w.known[m.ID] = true
	}
	w.done.Go(func() {
		tick := time.NewTicker(quorumEvery)
		defer tick.Stop()
		for below := false; ctx.Err() == nil; <-tick.C {
			below = w.look(ctx, below)
		}
	})
	t.Cleanup(func() {
		cancel()
		w.done.Wait()
	})
	return w
}

// look reports whether fewer voters have answered than are a majority. That counts once it is so twice in a row: one may have left the list
// since that was read.
func (w *quorumWatch) look(ctx context.Context, before bool) (below bool) {
	asking, cancel := context.WithTimeout(ctx, quorumLimit)
	defer cancel()
	list, err := w.client.MemberList(asking)
	if err != nil {
		return before // no member leads, or the one that was asked is gone
	}
	addresses, err := w.e.setAddresses(asking)
	if err != nil {
		return before
	}
	w.looks++
	voters, answer := 0, 0
	for _, m := range list.Members {
		if !w.known[m.ID] {
			w.known[m.ID] = true
			w.joined++
			if !m.IsLearner {
				w.wrong = append(w.wrong, fmt.Sprintf("%x is on the list, and was not seen as a learner", m.ID))
			}
		}
		if !m.IsLearner {
			voters++
			if lives(asking, addresses[m.Name]) {
				answer++
			}
		}
	}
	if below = answer < voters/2+1; below && before && ctx.Err() == nil {
		w.wrong = append(w.wrong, fmt.Sprintf("%d of %d voters answer", answer, voters))
	}
	return below
}

// stop fails the test for what was seen.
func (w *quorumWatch) stop(t *testing.T) {
	t.Helper()
	w.cancel()
	w.done.Wait()
	t.Logf("members were looked at %d times; %d have joined, as learners first", w.looks, w.joined)
	if w.looks == 0 || w.joined == 0 {
		t.Error("nothing was seen of the members")
	}
	for _, one := range w.wrong {
		t.Error(one)
	}
}

// setAddresses are the IPs of the set's pods by name, which is that of the member.
func (e *etcd) setAddresses(ctx context.Context) (map[string]string, error) {
	list, err := e.lab.Client().CoreV1().Pods(e.namespace).List(ctx, metav1.ListOptions{LabelSelector: "usher.sh/member-set=" + setName})
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for i := range list.Items {
		if p := &list.Items[i]; p.Status.Phase == corev1.PodRunning {
			found[p.Name] = p.Status.PodIP
		}
	}
	return found, nil
}

// lives reports whether a member answers.
func lives(ctx context.Context, ip string) bool {
	if ip == "" {
		return false
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(ip, strconv.Itoa(clientPort))+"/livez", http.NoBody)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}
