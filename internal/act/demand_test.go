package act

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/evictionrequest/client"
	"usher.sh/usher/internal/snapshot"
)

// The name of a request can be taken beforehand: what is withdrawn is the requester's own, by its UID, or nothing.
func TestWithdrawTakesBackItsOwnRequestAlone(t *testing.T) {
	demand := Demand{Pod: &snapshot.Pod{Namespace: "db", Name: "db-0", UID: "u0"}, Requester: "requester.usher.sh/anna"}
	own := demand.request()
	own.UID = "r0"
	another := evictionrequest.NewRequest(evictionrequest.Ref{Namespace: "db", Name: "db-1", UID: "u1"}, "squat.example.com/x")
	another.Name, another.UID = own.Name, "r1"
	for name, c := range map[string]struct {
		there     *api.EvictionRequest
		withdrawn bool
		fails     bool
		deletes   string // the UID that is deleted
	}{
		"its own":             {there: own, withdrawn: true, deletes: "r0"},
		"another requester's": {there: another, fails: true},
		"none":                {},
	} {
		t.Run(name, func(t *testing.T) {
			deleted := ""
			w := &Writer{Evictions: client.New(&rest.Config{Host: requestServer(t, c.there, &deleted)})}
			withdrawn, err := w.Withdraw(t.Context(), demand)
			if withdrawn != c.withdrawn || (err != nil) != c.fails || deleted != c.deletes {
				t.Errorf("withdrawn %t, error %v, deleted %q", withdrawn, err, deleted)
			}
		})
	}
}

// requestServer serves one eviction request, or none, and notes which UID is deleted.
func requestServer(t *testing.T, there *api.EvictionRequest, deleted *string) string {
	t.Helper()
	answer := func(w http.ResponseWriter, code int, object any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		if err := json.NewEncoder(w).Encode(object); err != nil {
			t.Error(err)
		}
	}
	resources := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: api.SchemeGroupVersion.String()}
	for _, name := range []string{"evictions", "evictions/status", "evictionrequests", "evictionrequests/status"} {
		resources.APIResources = append(resources.APIResources, metav1.APIResource{Name: name, Namespaced: true})
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/apis/"+api.SchemeGroupVersion.String():
			answer(w, http.StatusOK, resources)
		case there == nil:
			answer(w, http.StatusNotFound, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
		case r.Method == http.MethodDelete:
			var options metav1.DeleteOptions
			if err := json.NewDecoder(r.Body).Decode(&options); err != nil {
				t.Error(err)
			}
			if options.Preconditions != nil && options.Preconditions.UID != nil {
				*deleted = string(*options.Preconditions.UID)
			}
			answer(w, http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess})
		default:
			served := there.DeepCopy()
			served.TypeMeta = metav1.TypeMeta{Kind: "EvictionRequest", APIVersion: api.SchemeGroupVersion.String()}
			answer(w, http.StatusOK, served)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}
