package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestEvictionsThatAreAskedFor(t *testing.T) {
	eviction := func(pod string) api.Eviction {
		return api.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: pod}, Spec: api.EvictionSpec{
			Target: api.EvictionTarget{Pod: &api.EvictionPodReference{Name: pod, UID: types.UID(pod)}},
		}}
	}
	request := func(pod, requester string, intent api.EvictionRequestIntent) api.EvictionRequest {
		return api.EvictionRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: requester}, Spec: api.EvictionRequestSpec{
			Requester: requester, Intent: intent,
			Target: api.EvictionRequestTarget{Pod: &api.EvictionRequestPodReference{Name: pod, UID: types.UID(pod)}},
		}}
	}
	evictions := &api.EvictionList{Items: []api.Eviction{eviction("gone"), eviction("two"), eviction("withdrawn")}}
	requests := &api.EvictionRequestList{Items: []api.EvictionRequest{
		request("two", "b.io/x", api.EvictionRequestIntentEviction), request("two", "a.io/x", api.EvictionRequestIntentEviction),
		request("new", "a.io/x", api.EvictionRequestIntentEviction), request("withdrawn", "a.io/x", api.EvictionRequestIntentWithdrawn),
	}}
	got := map[string][]string{}
	taken := map[string]bool{}
	for _, w := range wanted(requests, evictions) {
		got[w.Pod], taken[w.Pod] = w.By, w.Eviction != nil
	}
	if diff := cmp.Diff(map[string][]string{"new": {"a.io/x"}, "two": {"a.io/x", "b.io/x"}}, got); diff != "" {
		t.Errorf("who asks: %s", diff)
	}
	if diff := cmp.Diff(map[string]bool{"new": false, "two": true}, taken); diff != "" {
		t.Errorf("which were taken up: %s", diff)
	}
}
