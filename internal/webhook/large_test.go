package webhook

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
)

// reading answers after a minute, and counts the bodies that it holds meanwhile.
type reading struct {
	hook http.Handler

	mu      sync.Mutex
	answers []string
	held    map[string]int // by namespace
	bytes   int
}

func newReading() *reading {
	r := &reading{held: map[string]int{}}
	r.hook = newLarge().shared(http.HandlerFunc(r.serve), tooMany)
	return r
}

func (r *reading) serve(_ http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return
	}
	namespace := first(body, "namespace")
	r.mu.Lock()
	r.held[namespace]++
	r.bytes += len(body)
	r.mu.Unlock()
	<-time.After(time.Minute)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held[namespace]--
	r.bytes -= len(body)
}

// send has a request of a size come in, whose caller waits for so long.
func (r *reading) send(ctx context.Context, namespace string, size int, wait time.Duration) {
	head := `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"r1","name":"db-0","namespace":"` + namespace + `","object":"`
	body := head + strings.Repeat("x", size-len(head)-3) + `"}}`
	go func() {
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		recorder := httptest.NewRecorder()
		r.hook.ServeHTTP(recorder, httptest.NewRequestWithContext(ctx, http.MethodPost, PathLeave, strings.NewReader(body)))
		r.mu.Lock()
		defer r.mu.Unlock()
		if recorder.Body.Len() > 0 {
			r.answers = append(r.answers, recorder.Body.String())
		}
	}()
}

func (r *reading) holds(t *testing.T, namespace string, want int) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held[namespace] != want {
		t.Errorf("%d requests of namespace %s are held, want %d", r.held[namespace], namespace, want)
	}
}

// Large requests of one namespace wait for each other before they are read; those of others, and small ones, do not.
func TestLargeRequestsOfOneNamespaceLeaveOthersTheirs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReading()
		for range 10 {
			r.send(t.Context(), "shop", 1<<20, 9*time.Second)
		}
		r.holds(t, "shop", largeEach)
		r.send(t.Context(), "other", 1<<20, 9*time.Second)
		r.holds(t, "other", 1)
		r.send(t.Context(), "shop", smallBody, 9*time.Second)
		r.holds(t, "shop", largeEach+1)
		<-time.After(3 * time.Minute)
		synctest.Wait()
		if len(r.answers) != 10-largeEach {
			t.Fatalf("%d of those that wait are answered", len(r.answers))
		}
		var review admissionv1.AdmissionReview
		if err := json.Unmarshal([]byte(r.answers[0]), &review); err != nil {
			t.Fatal(err)
		}
		if got := review.Response; got.UID != "r1" || got.Allowed || got.Result.Code != http.StatusTooManyRequests || !strings.Contains(got.Result.Message, "namespace shop has 4 under way") {
			t.Errorf("answered %+v", got)
		}
	})
}

// Many namespaces together fill no more than there is room for, and each has its turn.
func TestLargeRequestsFitIntoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReading()
		const each = 4 << 20
		for i := range 10 {
			r.send(t.Context(), string(rune('a'+i)), each, time.Hour)
		}
		for left := 10; left > 0; left -= largeTotal / each {
			synctest.Wait()
			r.mu.Lock()
			if want := min(left*each, largeTotal); r.bytes != want {
				t.Errorf("%d bytes are held, want %d", r.bytes, want)
			}
			r.mu.Unlock()
			<-time.After(time.Minute)
		}
	})
}
