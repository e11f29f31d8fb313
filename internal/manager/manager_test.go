package manager

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/google/go-cmp/cmp"

	lifecycleapi "usher.sh/usher/api/lifecycle"
	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
)

func TestASlimPodStillSaysWhatIsUsed(t *testing.T) {
	priority, group, now := int32(7), "gang", metav1.Now()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "db", Name: "db-0", UID: "u", ResourceVersion: "5", CreationTimestamp: now, DeletionTimestamp: &now,
			Labels:          map[string]string{v1alpha1.PolicyLabel: "db"},
			Annotations:     map[string]string{"mine": "1", corev1.LastAppliedConfigAnnotation: strings.Repeat("x", 1000)},
			OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", Name: "db", UID: "o", Controller: new(true)}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "m"}},
		},
		Spec: corev1.PodSpec{
			NodeName: "n", Hostname: "h", Priority: &priority,
			SchedulingGroup:    &corev1.PodSchedulingGroup{PodGroupName: &group},
			EvictionResponders: []corev1.EvictionResponder{{Name: "a/b", Priority: new(int32(5))}},
			Containers:         []corev1.Container{{Name: "c", Env: []corev1.EnvVar{{Name: "A", Value: "b"}}}},
			Volumes: []corev1.Volume{
				{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-db-0"}}},
				{Name: "more", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}}}},
				{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
			},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.0.0.1",
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
				{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now, Message: "long"},
			},
		},
	}
	slim := slimPod(pod)
	if diff := cmp.Diff(observe.PodFacts(pod), observe.PodFacts(slim), ignoreUnused()); diff != "" {
		t.Errorf("facts that rules and decisions look at: %s", diff)
	}
	if len(slim.Spec.Containers) != 0 || slim.ManagedFields != nil || len(slim.Annotations) != 1 {
		t.Errorf("what is not used was kept: %+v", slim)
	}
	if len(pod.Annotations) != 2 {
		t.Error("the object that others hold was changed")
	}
	if slim.Spec.SchedulingGroup == nil || len(slim.Spec.EvictionResponders) != 1 {
		t.Error("what the controller of evictions needs is lost")
	}
}

// ignoreUnused leaves out what only a drain looks at, whose facts come from elsewhere.
func ignoreUnused() cmp.Option {
	unused := map[string]bool{"Requests": true, "Annotations": true}
	return cmp.FilterPath(func(p cmp.Path) bool {
		return len(p) > 1 && unused[strings.TrimPrefix(p.Index(1).String(), ".")] || len(p) > 2 && unused[strings.TrimPrefix(p.Index(2).String(), ".")]
	}, cmp.Ignore())
}

func TestASlimNodeStillSaysWhatIsUsed(t *testing.T) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", Labels: map[string]string{corev1.LabelTopologyZone: "z"}, Annotations: map[string]string{
			"a": "b", "long": strings.Repeat("x", 2<<10), snapshot.DrainAnnotation: `{"id":"d1","by":"me@host","beat":"2026-11-21T08:00:00Z","since":"2026-11-21T08:00:00Z","state":"draining"}`,
		}},
		Spec: corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")},
			Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse},
				{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady", Message: "booting"},
			},
		},
	}
	slimmed, err := slimNode(node)
	if err != nil {
		t.Fatal(err)
	}
	want, got := observe.NodeFacts(node), observe.NodeFacts(slimmed.(*corev1.Node))
	if kept := slices.Sorted(maps.Keys(slimmed.(*corev1.Node).Annotations)); !slices.Equal(kept, []string{"a", snapshot.DrainAnnotation}) {
		t.Errorf("annotations %v, want those that rules may ask for and the drain's record", kept)
	}
	want.Allocatable = got.Allocatable // no verdict looks at it
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAddresses(t *testing.T) {
	tests := []struct {
		address string
		host    string
		port    int
		bad     bool
	}{
		{address: ":9443", port: 9443},
		{address: "127.0.0.1:1", host: "127.0.0.1", port: 1},
		{address: "[::1]:9443", host: "::1", port: 9443},
		{address: "9443", bad: true},
		{address: ":0", bad: true},
		{address: ":https", bad: true},
		{address: ":70000", bad: true},
	}
	for _, test := range tests {
		host, port, err := splitAddress(test.address)
		if host != test.host || port != test.port || (err != nil) != test.bad {
			t.Errorf("%q: %q, %d, %v", test.address, host, port, err)
		}
	}
}

func TestTheSchemeKnowsEvictionsUnderOneGroup(t *testing.T) {
	for _, version := range []requests{{lifecycleapi.Kubernetes, true}, {lifecycleapi.Usher, true}} {
		known, err := newScheme(version)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{"Eviction", "EvictionRequest"} {
			object, err := known.New(version.version.WithKind(kind))
			if err != nil {
				t.Fatal(err)
			}
			kinds, _, err := known.ObjectKinds(object)
			if err != nil || len(kinds) != 1 {
				t.Errorf("%s is known as %v, %v", kind, kinds, err)
			}
		}
	}
}

func served(version string) []*metav1.APIResourceList {
	list := &metav1.APIResourceList{GroupVersion: version}
	for _, name := range []string{"evictions", "evictions/status", "evictionrequests", "evictionrequests/status"} {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
	}
	return []*metav1.APIResourceList{list}
}

// changing is a cluster whose API may become another's.
type changing struct {
	*fake.FakeDiscovery
	now atomic.Pointer[fake.FakeDiscovery]
}

func (c *changing) ServerResourcesForGroupVersionWithContext(ctx context.Context, version string) (*metav1.APIResourceList, error) {
	return c.now.Load().ServerResourcesForGroupVersionWithContext(ctx, version)
}

func TestTheManagerEndsWhenEvictionRequestsAreServedInAnotherWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &changing{}
		client.now.Store(&fake.FakeDiscovery{Fake: &clienttesting.Fake{}})
		before, err := discover(t.Context(), client)
		if err != nil || before.served {
			t.Fatalf("served %v, %v", before, err)
		}
		ended := make(chan error, 1)
		go func() { ended <- watchDiscovery(t.Context(), client, before) }()
		<-time.After(time.Hour)
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("ended with %v although nothing has changed", err)
		default:
		}
		client.now.Store(&fake.FakeDiscovery{Fake: &clienttesting.Fake{Resources: served(lifecycleapi.Usher.String())}})
		<-time.After(discoveryRenewal)
		err = <-ended
		if !errors.Is(err, errAnotherAPI) || !strings.Contains(err.Error(), "not served, now lifecycle.usher.sh/v1alpha1") {
			t.Errorf("ended with %v", err)
		}
	})
}
