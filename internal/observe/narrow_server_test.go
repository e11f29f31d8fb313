package observe_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	lifecyclev1 "k8s.io/api/lifecycle/v1alpha1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.sh/usher/api/lifecycle"
	"usher.sh/usher/internal/snapshot"
)

// object is what the test apiserver keeps.
type object interface {
	metav1.Object
	runtime.Object
}

// served is a kind of object that the test apiserver serves.
type served struct {
	version schema.GroupVersion
	kind    string
	empty   func() object
}

// kinds are what the test apiserver serves, by resource.
var kinds = map[string]served{
	"pods":                     {corev1.SchemeGroupVersion, "Pod", func() object { return &corev1.Pod{} }},
	"nodes":                    {corev1.SchemeGroupVersion, "Node", func() object { return &corev1.Node{} }},
	"poddisruptionbudgets":     {policyv1.SchemeGroupVersion, "PodDisruptionBudget", func() object { return &policyv1.PodDisruptionBudget{} }},
	"replicasets":              {appsv1.SchemeGroupVersion, "ReplicaSet", func() object { return &appsv1.ReplicaSet{} }},
	"deployments":              {appsv1.SchemeGroupVersion, "Deployment", func() object { return &appsv1.Deployment{} }},
	"statefulsets":             {appsv1.SchemeGroupVersion, "StatefulSet", func() object { return &appsv1.StatefulSet{} }},
	"daemonsets":               {appsv1.SchemeGroupVersion, "DaemonSet", func() object { return &appsv1.DaemonSet{} }},
	"replicationcontrollers":   {corev1.SchemeGroupVersion, "ReplicationController", func() object { return &corev1.ReplicationController{} }},
	"jobs":                     {batchv1.SchemeGroupVersion, "Job", func() object { return &batchv1.Job{} }},
	"horizontalpodautoscalers": {autoscalingv2.SchemeGroupVersion, "HorizontalPodAutoscaler", func() object { return &autoscalingv2.HorizontalPodAutoscaler{} }},
	"persistentvolumeclaims":   {corev1.SchemeGroupVersion, "PersistentVolumeClaim", func() object { return &corev1.PersistentVolumeClaim{} }},
	"volumeattachments":        {storagev1.SchemeGroupVersion, "VolumeAttachment", func() object { return &storagev1.VolumeAttachment{} }},
	"leases":                   {coordinationv1.SchemeGroupVersion, "Lease", func() object { return &coordinationv1.Lease{} }},
	"evictionrequests":         {lifecycle.Kubernetes, "EvictionRequest", func() object { return &lifecyclev1.EvictionRequest{} }},
	"evictions":                {lifecycle.Kubernetes, "Eviction", func() object { return &lifecyclev1.Eviction{} }},
}

// stored is one state of an object. It is never changed.
type stored struct {
	object object
	text   []byte
}

// happening is one change: before is nil where the object is new, after where it is gone.
type happening struct {
	resource      string
	version       int
	before, after *stored
	last          []byte // the state of an object that is gone, at the version at which it went
}

// apiserver keeps objects in memory and serves them as Kubernetes does: lists and watches by selectors, patches, deletions and
// evictions. It is the transport of a client. Where streams is false it knows no watches that bring the present objects first.
type apiserver struct {
	streams bool
	refused string          // a resource that may not be read
	lags    []time.Duration // by which watches are behind; each is behind by one of them for good

	mu      sync.Mutex
	version int
	objects map[string]map[snapshot.Key]*stored
	history []happening
	oldest  int // versions below it are compacted
	open    map[*watching]bool
}

func newAPIServer() *apiserver {
	return &apiserver{objects: map[string]map[snapshot.Key]*stored{}, open: map[*watching]bool{}, lags: []time.Duration{0}}
}

func keyOf(o metav1.Object) snapshot.Key {
	return snapshot.Key{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// put creates an object or replaces what has its name.
func (s *apiserver) put(resource string, o object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(resource, o)
}

// set is put of who holds the lock. The object belongs to the server from then on.
func (s *apiserver) set(resource string, o object) *stored {
	before := s.objects[resource][keyOf(o)]
	s.version++
	kind := kinds[resource]
	o.GetObjectKind().SetGroupVersionKind(kind.version.WithKind(kind.kind))
	o.SetResourceVersion(strconv.Itoa(s.version))
	after := &stored{o, encoded(o)}
	if s.objects[resource] == nil {
		s.objects[resource] = map[snapshot.Key]*stored{}
	}
	s.objects[resource][keyOf(o)] = after
	if before != nil && before.object.GetUID() != o.GetUID() {
		s.send(happening{resource: resource, version: s.version, before: before, last: s.lastOf(before)})
		before = nil
	}
	s.send(happening{resource: resource, version: s.version, before: before, after: after})
	return after
}

// remove takes an object away, if there is one.
func (s *apiserver) remove(resource string, key snapshot.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(resource, key)
}

func (s *apiserver) drop(resource string, key snapshot.Key) {
	before := s.objects[resource][key]
	if before == nil {
		return
	}
	delete(s.objects[resource], key)
	s.version++
	s.send(happening{resource: resource, version: s.version, before: before, last: s.lastOf(before)})
}

// lastOf is the last state of an object as a watch shows it: with the present version.
func (s *apiserver) lastOf(o *stored) []byte {
	last := o.object.DeepCopyObject().(object) //nolint:forcetypeassert // a copy of an object
	last.SetResourceVersion(strconv.Itoa(s.version))
	return encoded(last)
}

func (s *apiserver) send(h happening) {
	s.history = append(s.history, h)
	for w := range s.open {
		w.push(h)
	}
}

// breakWatches ends all watches; from then on only the present version can be watched from.
func (s *apiserver) breakWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.oldest, s.history = s.version, nil
	for w := range s.open {
		close(w.broken)
		delete(s.open, w)
	}
}

// all returns the present objects of a resource, sorted by namespace and name. They must not be changed.
func all[O object](s *apiserver, resource string) []O {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := make([]O, 0, len(s.objects[resource]))
	for _, o := range s.objects[resource] {
		found = append(found, o.object.(O)) //nolint:forcetypeassert // one type for each resource
	}
	slices.SortFunc(found, func(a, b O) int {
		return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
	})
	return found
}

// change edits a copy of an object, which then is the present one.
func change[O object](s *apiserver, resource string, o O, edit func(O)) {
	fresh := o.DeepCopyObject().(O) //nolint:forcetypeassert // a copy of an object
	edit(fresh)
	s.put(resource, fresh)
}

func encoded(o any) []byte {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return text
}

// RoundTrip implements http.RoundTripper.
func (s *apiserver) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := request.Context().Err(); err != nil {
		return nil, err
	}
	code, body := s.serve(request)
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Header: http.Header{"Content-Type": {"application/json"}},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: body, Request: request,
	}, nil
}

func (s *apiserver) serve(request *http.Request) (int, io.ReadCloser) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := locate(request.URL.Path)
	if at.resource == "" {
		return discover(request.URL.Path)
	}
	switch {
	case request.Method == http.MethodGet && at.resource == s.refused:
		return refused(apierrors.NewForbidden(at.group(), "", errors.New("no right to read them")))
	case request.Method == http.MethodGet:
		return s.read(request, at)
	}
	text, err := s.write(request, at)
	if err == nil {
		return http.StatusOK, io.NopCloser(bytes.NewReader(text))
	}
	return refused(err)
}

func refused(err error) (int, io.ReadCloser) {
	said := apierrors.APIStatus(nil)
	if !errors.As(err, &said) {
		said = apierrors.NewInternalError(err)
	}
	status := said.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return int(status.Code), io.NopCloser(bytes.NewReader(encoded(status)))
}

// place is what a path names.
type place struct {
	resource, namespace, name, sub string
}

func (p place) key() snapshot.Key { return snapshot.Key{Namespace: p.namespace, Name: p.name} }

func (p place) group() schema.GroupResource {
	return schema.GroupResource{Group: kinds[p.resource].version.Group, Resource: p.resource}
}

func locate(path string) place {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	skip := 2
	if parts[0] == "apis" {
		skip = 3
	}
	if len(parts) <= skip {
		return place{}
	}
	parts = parts[skip:]
	var at place
	if parts[0] == "namespaces" {
		at.namespace, parts = parts[1], parts[2:]
	}
	for i, to := range []*string{&at.resource, &at.name, &at.sub} {
		if i < len(parts) {
			*to = parts[i]
		}
	}
	return at
}

// discover says that Kubernetes' own eviction requests are served.
func discover(path string) (int, io.ReadCloser) {
	if path != "/apis/"+lifecycle.Kubernetes.String() {
		return refused(apierrors.NewNotFound(schema.GroupResource{}, path))
	}
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: lifecycle.Kubernetes.String()}
	for _, name := range []string{"evictions", "evictions/status", "evictionrequests", "evictionrequests/status"} {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
	}
	return http.StatusOK, io.NopCloser(bytes.NewReader(encoded(list)))
}

// list is the text of all objects that are selected.
func (s *apiserver) list(resource string, selects func(object) bool) []byte {
	text := fmt.Appendf(nil, `{"kind":"%sList","apiVersion":%q,"metadata":{"resourceVersion":"%d"},"items":[`, kinds[resource].kind, kinds[resource].version, s.version)
	first := true
	for _, o := range s.objects[resource] {
		if !selects(o.object) {
			continue
		}
		if !first {
			text = append(text, ',')
		}
		first = false
		text = append(text, o.text...)
	}
	return append(text, "]}"...)
}
