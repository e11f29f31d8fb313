package e2e

import (
	"context"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/lab/binaries"
	"usher.sh/usher/lab/testlab"
)

// What package observe says that it watches of a drain, it watches: nothing
// else, and the same facts as the apiserver has.
func TestObserverReadsWhatPodsNeed(t *testing.T) {
	l := testlab.Get(t)
	ns := l.Namespace(t)
	node := l.Nodes(t, 1)[0]
	l.Deployment(t, ns, "web", 2)
	l.Volume(t, ns, "data-db-0")
	l.StatefulSet(t, ns, "db", 1, func(s *appsv1.StatefulSet) {
		s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{*testlab.Claim("data")}
	})
	ready := l.WaitReady(t, ns, nil, 3)

	config := l.RESTConfig()
	config.UserAgent = "observer-test"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	o, err := observe.Start(t.Context(), client, observe.Options{Nodes: []string{node}})
	if err != nil {
		t.Fatal(err)
	}
	o.Read(func(v snapshot.View) { compareFacts(t, v, node, ready) })
	o.Stop()

	reads := "watch"
	if !binaries.Chosen().StreamsLists {
		reads = "list" // which of the watches after them is open when it is stopped is chance
	}
	want := testlab.Requests{{Verb: "list", Resource: "nodes", Code: http.StatusOK}: 1} // for a place of the pods
	for resource, n := range map[string]int{
		"nodes":                    3, // the drained one, those of drains, where the pods may go
		"pods":                     4, // of the node, marked, of the Deployment, of the StatefulSet
		"deployments":              2, // by name, surged
		"horizontalpodautoscalers": 2, // in the namespace, surged
		"poddisruptionbudgets":     1, "replicasets": 1, "statefulsets": 1, "persistentvolumeclaims": 1, "volumeattachments": 1,
	} {
		want[testlab.Request{Verb: reads, Resource: resource, Code: http.StatusOK}] += n
	}
	// A watch is in the audit log once the apiserver has seen that it ended.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got testlab.Requests
	for got.Total() < want.Total() && ctx.Err() == nil {
		got = ended(l.Requests(t, "observer-test", began))
		if reads == "list" {
			maps.DeleteFunc(got, func(r testlab.Request, _ int) bool { return r.Verb == "watch" })
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// ended are the requests but for watches that the server refused because it does not bring the present objects with one: how many are
// open by then is chance. 503 is a watch that was ended before the apiserver had begun it.
func ended(requests testlab.Requests) testlab.Requests {
	for request, n := range requests {
		switch request.Code {
		case http.StatusServiceUnavailable:
			delete(requests, request)
			requests[testlab.Request{Verb: "watch", Resource: request.Resource, Code: http.StatusOK}] += n
		case http.StatusUnprocessableEntity:
			delete(requests, request)
		}
	}
	return requests
}

func compareFacts(t *testing.T, v snapshot.View, node string, want []*corev1.Pod) {
	t.Helper()
	if len(v.Cluster.Gaps()) != 0 {
		t.Errorf("gaps: %+v", v.Cluster.Gaps())
	}
	if got := len(v.Cluster.PodsOn(node)); got != len(want) {
		t.Errorf("%d pods on the node, want %d", got, len(want))
	}
	for _, pod := range want {
		facts := v.Cluster.Pod(pod.UID)
		if facts == nil || v.Cluster.Workload(facts.Owner.UID) == nil {
			t.Errorf("pod %s: facts %+v, owner not read", pod.Name, facts)
			continue
		}
		if diff := cmp.Diff(observe.PodFacts(pod), facts); diff != "" && facts.ResourceVersion == pod.ResourceVersion {
			t.Errorf("pod %s: %s", pod.Name, diff)
		}
	}
}
