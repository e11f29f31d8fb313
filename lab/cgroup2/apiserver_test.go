package cgroup2

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// apiserver knows some pods, and that some of them are gone; of everything else it says that it is not there.
type apiserver struct {
	*httptest.Server

	pods []*corev1.Pod

	mu   sync.Mutex
	gone map[string]bool
	more chan struct{} // closed with the next that is gone

	over chan struct{} // closed when all clients are cut off
	end  func()        // cuts all clients off
}

func serve(t *testing.T, pods ...*corev1.Pod) *apiserver {
	t.Helper()
	a := &apiserver{pods: pods, gone: map[string]bool{}, more: make(chan struct{}), over: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/api/v1/pods", a.list)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status:   metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound,
		})
	})
	a.Server = httptest.NewServer(mux)
	a.end = sync.OnceFunc(func() {
		close(a.over) // or a client that comes back in time for a watch keeps the server from closing
		a.CloseClientConnections()
		a.Close()
	})
	t.Cleanup(a.end)
	return a
}

func (a *apiserver) client(t *testing.T) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: a.URL})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// remove takes a pod out of the API.
func (a *apiserver) remove(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gone[name] = true
	close(a.more)
	a.more = make(chan struct{})
}

func (a *apiserver) now() (here, gone []*corev1.Pod, more chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.pods {
		if a.gone[p.Name] {
			gone = append(gone, p)
		} else {
			here = append(here, p)
		}
	}
	return here, gone, a.more
}

func (a *apiserver) list(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("watch") != "" {
		a.watch(w, r)
		return
	}
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	here, _, _ := a.now()
	for _, p := range here {
		list.Items = append(list.Items, *p)
	}
	_ = json.NewEncoder(w).Encode(list)
}

// watch begins with all that are there, whether or not the client has listed them.
func (a *apiserver) watch(w http.ResponseWriter, r *http.Request) {
	send := func(kind watch.EventType, pods ...*corev1.Pod) {
		for _, p := range pods {
			_ = json.NewEncoder(w).Encode(map[string]any{"type": kind, "object": p})
		}
		w.(http.Flusher).Flush()
	}
	here, gone, more := a.now()
	send(watch.Added, here...)
	send(watch.Bookmark, &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}},
	})
	for {
		send(watch.Deleted, gone...)
		select {
		case <-r.Context().Done():
			return
		case <-a.over:
			return
		case <-more:
			_, gone, more = a.now()
		}
	}
}
