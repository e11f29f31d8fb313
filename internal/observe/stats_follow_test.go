package observe

import (
	"context"
	"encoding/json"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// watched serves a list, and after it one more object to each watch; reads counts the lists.
func watched(list, added any, reads *atomic.Int32) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		switch {
		case query.Get("sendInitialEvents") != "":
			servedStatus(400, metav1.StatusReasonBadRequest, "not here")(w, r)
		case query.Get("watch") == "":
			reads.Add(1)
			servedObject(list)(w, r)
		default:
			w.Header().Set("Content-Type", "application/json")
			json.NewEncoder(w).Encode(map[string]any{"type": "ADDED", "object": added}) //nolint:errcheck,errchkjson // the test sees what is missing
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}
}

func TestFollowNodeUseWatchesPodsAndAsksForStatistics(t *testing.T) {
	node := corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "worker-1", ResourceVersion: "7"}}
	later := corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", UID: "u-web", ResourceVersion: "8"}}
	var lists, nodeLists, gets, asked atomic.Int32
	client := kubeletServer(t, map[string]http.HandlerFunc{
		podsPath: watched(corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: metav1.ListMeta{ResourceVersion: "7"}}, later, &lists),
		"/api/v1/nodes": watched(corev1.NodeList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []corev1.Node{node},
		}, node, &nodeLists),
		nodePath: func(w http.ResponseWriter, r *http.Request) {
			gets.Add(1)
			servedObject(node)(w, r)
		},
		summaryPath: func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			servedText(200, summaryText)(w, r)
		},
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	follower := FollowNodeUse(ctx, client, "worker-1")
	look := func() int {
		use, err := follower.Look(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return len(use.Pods)
	}
	for look() == 0 { // until the watch has brought the pod, which no list has
	}
	settled, asks := lists.Load()+nodeLists.Load()+gets.Load(), asked.Load()
	for range 3 {
		look()
	}
	if now := lists.Load() + nodeLists.Load() + gets.Load(); now != settled || asked.Load() != asks+3 {
		t.Errorf("3 looks cost %d reads of what is watched and %d of statistics, want 0 and 3", now-settled, asked.Load()-asks)
	}
}
