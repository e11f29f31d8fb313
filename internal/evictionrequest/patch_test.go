package evictionrequest_test

import (
	"encoding/json"
	"testing"
	"time"

	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	apilifecycle "usher.sh/usher/api/lifecycle"
	"usher.sh/usher/internal/evictionrequest"
)

func text(t *testing.T, patch *unstructured.Unstructured, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(patch.Object)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// What is sent is what the writer owns, and nothing else: the bytes of every patch.
func TestPatches(t *testing.T) {
	e := eviction(1, states(active, inactive), spoke("x", time.Minute), known("alice=Eviction"), func(e *api.Eviction) {
		e.ResourceVersion = "7"
		e.Labels = map[string]string{"team": "x"}
		e.Status.Conditions = append(e.Status.Conditions, condition("Noticed", "Seen"), condition("Failed", "NoFurtherResponder"))
	})
	const (
		meta   = `"metadata":{"name":"pod-1-db-0","namespace":"shop","resourceVersion":"7","uid":"e1"}`
		failed = `{"lastTransitionTime":"2026-11-21T08:00:00Z","message":"","reason":"NoFurtherResponder","status":"True","type":"Failed"}`
	)
	patch, err := evictionrequest.EvictionStatusPatch(apilifecycle.Kubernetes, e, e.Status)
	same(t, "eviction status", `{"apiVersion":"lifecycle.k8s.io/v1alpha1","kind":"Eviction",`+meta+`,"status":{"conditions":[`+failed+`],`+
		`"observedGeneration":1,"requesters":[{"intent":"Eviction","name":"example.com/alice"}],`+
		`"responders":[{"name":"example.com/a","startTime":"2026-11-21T08:00:00Z"},{"name":"example.com/b"}],`+
		`"targetResponders":[{"name":"example.com/a","priority":5000,"state":"Active"},{"name":"example.com/b","priority":4999,"state":"Inactive"}]}}`,
		text(t, patch, err))

	patch, err = evictionrequest.ReportPatch(apilifecycle.Usher, e, e.Status.Responders[0])
	same(t, "report", `{"apiVersion":"lifecycle.usher.sh/v1alpha1","kind":"Eviction","metadata":{"name":"pod-1-db-0","namespace":"shop","uid":"e1"},`+
		`"status":{"responders":[{"heartbeatTime":"2026-11-21T08:01:00Z","message":"x","name":"example.com/a"}]}}`, text(t, patch, err))

	r := asked("alice", func(r *api.EvictionRequest) { r.ResourceVersion = "8" })
	patch, err = evictionrequest.RequestStatusPatch(apilifecycle.Usher, r, api.EvictionRequestStatus{Conditions: e.Status.Conditions, ObservedGeneration: new(int64(2))})
	same(t, "request status", `{"apiVersion":"lifecycle.usher.sh/v1alpha1","kind":"EvictionRequest",`+
		`"metadata":{"name":"alice","namespace":"shop","resourceVersion":"8","uid":"uid-alice"},`+
		`"status":{"conditions":[`+failed+`],"observedGeneration":2}}`, text(t, patch, err))

	patch, err = evictionrequest.MetadataPatch(apilifecycle.Usher, e, evictionrequest.MetadataPlan{Labels: map[string]string{"example.com/a": "responder"}})
	same(t, "metadata", `{"apiVersion":"lifecycle.usher.sh/v1alpha1","kind":"Eviction",`+
		`"metadata":{"labels":{"example.com/a":"responder"},"name":"pod-1-db-0","namespace":"shop","resourceVersion":"7","uid":"e1"},`+
		`"spec":{"target":{"pod":{"name":"db-0","uid":"u1"}}}}`, text(t, patch, err))

	created := evictionrequest.PlanRequest(target(0, newPod(), requests(r)), r).Create
	patch, err = evictionrequest.CreationPatch(apilifecycle.Usher, created)
	same(t, "creation", `{"apiVersion":"lifecycle.usher.sh/v1alpha1","kind":"Eviction",`+
		`"metadata":{"labels":{"example.com/alice":"requester","imperative-eviction.k8s.io/evictor":"responder"},"name":"pod-1-db-0","namespace":"shop",`+
		`"ownerReferences":[{"apiVersion":"lifecycle.usher.sh/v1alpha1","kind":"EvictionRequest","name":"alice","uid":"uid-alice"}]},`+
		`"spec":{"target":{"pod":{"name":"db-0","uid":"u1"}}}}`, text(t, patch, err))
}
