package histories

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// kind is a resource.
type kind string

const (
	namespaces kind = "namespaces"
	nodes      kind = "nodes"
	pods       kind = "pods"
	policies   kind = "evictionpolicies"
	requests   kind = "evictionrequests"
	evictions  kind = "evictions"
	fences     kind = "nodefences"
	replaces   kind = "replacementrequests"
	memberSets kind = "membersets"

	// No cache keeps these.
	leases   kind = "leases"
	sets     kind = "statefulsets"
	claims   kind = "persistentvolumeclaims"
	volumes  kind = "persistentvolumes"
	services kind = "services"
	shops    kind = "shops"

	configMaps kind = "configmaps"
)

var kinds = []kind{namespaces, nodes, pods, policies, requests, evictions, fences, replaces, memberSets}

// event is what a watch delivers; after is nil for a deletion, which happened at a time.
type event struct {
	before, after client.Object
	gone          time.Time
}

func (e event) object() client.Object {
	if e.after == nil {
		return e.before
	}
	return e.after
}

// store is what the apiserver keeps. Objects in it are never changed, only replaced.
type store struct {
	version int
	uids    int
	now     func() time.Time
	objects map[kind]map[snapshot.Key]client.Object
	events  map[kind][]event
	applied map[string]map[string]any // what each manager applied last
	dropped map[kind]time.Time        // when the last object of a kind went
}

func newStore(now func() time.Time) *store {
	s := &store{now: now, objects: map[kind]map[snapshot.Key]client.Object{}, events: map[kind][]event{}, applied: map[string]map[string]any{}, dropped: map[kind]time.Time{}}
	for _, k := range kinds {
		s.objects[k] = map[snapshot.Key]client.Object{}
	}
	for _, k := range []kind{leases, sets, claims, volumes, services, shops, configMaps} {
		s.objects[k] = map[snapshot.Key]client.Object{}
	}
	return s
}

func kindOf(object runtime.Object) kind {
	switch object.(type) {
	case *corev1.Namespace:
		return namespaces
	case *corev1.Node, *corev1.NodeList:
		return nodes
	case *corev1.Pod, *corev1.PodList:
		return pods
	case *v1alpha1.EvictionPolicy, *v1alpha1.EvictionPolicyList:
		return policies
	case *api.EvictionRequest, *api.EvictionRequestList:
		return requests
	case *api.Eviction, *api.EvictionList:
		return evictions
	case *v1alpha1.ReplacementRequest, *v1alpha1.ReplacementRequestList:
		return replaces
	case *appsv1.StatefulSet, *appsv1.StatefulSetList:
		return sets
	case *v1alpha1.MemberSet, *v1alpha1.MemberSetList:
		return memberSets
	case *corev1.PersistentVolumeClaim, *corev1.PersistentVolumeClaimList:
		return claims
	case *corev1.Service, *corev1.ServiceList:
		return services
	case *corev1.PersistentVolume:
		return volumes
	case *corev1.ConfigMap:
		return configMaps
	case *v1alpha1.NodeFence, *v1alpha1.NodeFenceList:
		return fences
	case *unstructured.Unstructured:
		return shops
	case *coordinationv1.Lease:
		return leases
	}
	return kind(reflect.TypeOf(object).String())
}

func (s *store) get(k kind, key snapshot.Key) client.Object { return s.objects[k][key] }

// sorted are the objects of a kind in the order of their names.
func sorted(objects map[snapshot.Key]client.Object) []client.Object {
	return slices.SortedFunc(maps.Values(objects), func(a, b client.Object) int { return strings.Compare(a.GetName(), b.GetName()) })
}

func list[T client.Object](s *store, k kind) []T {
	var all []T
	for _, object := range sorted(s.objects[k]) {
		if typed, ok := object.(T); ok {
			all = append(all, typed)
		}
	}
	return all
}

func (s *store) pod(name string) *corev1.Pod {
	pod, _ := s.get(pods, snapshot.Key{Namespace: namespace, Name: name}).(*corev1.Pod)
	return pod
}

func notFound(k kind, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: string(k)}, name)
}

func (s *store) create(object client.Object) error {
	k, key := kindOf(object), client.ObjectKeyFromObject(object)
	if s.get(k, key) != nil {
		return apierrors.NewAlreadyExists(schema.GroupResource{Resource: string(k)}, key.Name)
	}
	s.uids++
	object.SetUID(types.UID("u" + strconv.Itoa(s.uids)))
	object.SetGeneration(1)
	object.SetCreationTimestamp(metav1.NewTime(s.now()))
	s.put(object)
	return nil
}

// put stores a new version of an object, or drops one that is being deleted and that nothing holds any more.
func (s *store) put(object client.Object) {
	k, key := kindOf(object), client.ObjectKeyFromObject(object)
	if object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 0 && k != pods {
		s.drop(k, key)
		return
	}
	s.version++
	object.SetResourceVersion(strconv.Itoa(s.version))
	s.events[k] = append(s.events[k], event{before: s.objects[k][key], after: object})
	s.objects[k][key] = object
}

// drop takes an object away at once.
func (s *store) drop(k kind, key snapshot.Key) {
	before := s.objects[k][key]
	if before == nil {
		return
	}
	s.version++
	delete(s.objects[k], key)
	s.dropped[k] = s.now()
	s.events[k] = append(s.events[k], event{before: before, gone: s.now()})
}

// remove is a DELETE: what has finalizers is only marked.
func (s *store) remove(object client.Object) {
	if len(object.GetFinalizers()) == 0 {
		s.drop(kindOf(object), client.ObjectKeyFromObject(object))
		return
	}
	if object.GetDeletionTimestamp() != nil {
		return
	}
	marked := duplicate(object)
	now := metav1.NewTime(s.now())
	marked.SetDeletionTimestamp(&now)
	marked.SetGeneration(marked.GetGeneration() + 1) // as the apiserver does
	s.put(marked)
}

func duplicate[T client.Object](object T) T {
	copied, _ := object.DeepCopyObject().(T)
	return copied
}

// collect drops what belongs only to objects that are gone, and reports how much.
func (s *store) collect() int {
	alive := map[types.UID]bool{}
	for _, k := range kinds {
		for _, object := range s.objects[k] {
			alive[object.GetUID()] = true
		}
	}
	dropped := 0
	for _, k := range []kind{requests, evictions} {
		for _, object := range sorted(s.objects[k]) {
			owners := object.GetOwnerReferences()
			if len(owners) > 0 && !slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool { return alive[o.UID] }) {
				s.remove(object)
				dropped++
			}
		}
	}
	return dropped
}
