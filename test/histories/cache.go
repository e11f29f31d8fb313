package histories

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

var errModified = errors.New("the object has been modified; please apply your changes to the latest version and try again")

func newObject(k kind) client.Object {
	switch k {
	case namespaces:
		return &corev1.Namespace{}
	case nodes:
		return &corev1.Node{}
	case pods:
		return &corev1.Pod{}
	case policies:
		return &v1alpha1.EvictionPolicy{}
	case requests:
		return &api.EvictionRequest{}
	case replaces:
		return &v1alpha1.ReplacementRequest{}
	case memberSets:
		return &v1alpha1.MemberSet{}
	case services:
		return &corev1.Service{}
	case claims:
		return &corev1.PersistentVolumeClaim{}
	case configMaps:
		return &corev1.ConfigMap{}
	case volumes:
		return &corev1.PersistentVolume{}
	case fences:
		return &v1alpha1.NodeFence{}
	case shops:
		return &unstructured.Unstructured{}
	default:
		return &api.Eviction{}
	}
}

// cache is what a replica's watches have brought so far: each kind as it was some events ago.
type cache struct {
	store   *store
	taken   map[kind]int     // of the store's events
	coming  map[kind][]event // that were taken and not delivered
	hung    map[kind]time.Time
	objects map[kind]map[snapshot.Key]client.Object
	indexes map[string]client.IndexerFunc
}

// newCache lists everything as it is now.
func newCache(s *store) *cache {
	c := &cache{
		store: s, taken: map[kind]int{}, coming: map[kind][]event{}, hung: map[kind]time.Time{},
		objects: map[kind]map[snapshot.Key]client.Object{}, indexes: map[string]client.IndexerFunc{},
	}
	for _, k := range kinds {
		c.taken[k] = len(s.events[k])
		c.objects[k] = maps.Clone(s.objects[k])
	}
	return c
}

// backlog is how many events of a kind may be delivered now.
func (c *cache) backlog(k kind) int {
	if time.Now().Before(c.hung[k]) {
		return 0
	}
	return len(c.coming[k]) + len(c.store.events[k]) - c.taken[k]
}

// hangs reports whether a watch stands still.
func (c *cache) hangs() bool {
	for _, until := range c.hung {
		if time.Now().Before(until) {
			return true
		}
	}
	return false
}

// hang stops the watch of a kind.
func (c *cache) hang(k kind, until time.Time) { c.hung[k] = until }

// take fetches what the watch brings.
func (c *cache) take(k kind) {
	c.coming[k] = append(c.coming[k], c.store.events[k][c.taken[k]:]...)
	c.taken[k] = len(c.store.events[k])
}

// deliver brings the next event of a kind.
func (c *cache) deliver(k kind) event {
	c.take(k)
	e := c.coming[k][0]
	c.coming[k] = c.coming[k][1:]
	return c.accept(k, e)
}

func (c *cache) accept(k kind, e event) event {
	key := client.ObjectKeyFromObject(e.object())
	e.before = c.objects[k][key]
	if e.after == nil {
		delete(c.objects[k], key)
	} else {
		c.objects[k][key] = e.after
	}
	return e
}

// overtake has the next event of another object come first, where there is one.
func (c *cache) overtake(k kind) {
	c.take(k)
	name := c.coming[k][0].object().GetName()
	for i, e := range c.coming[k] {
		if e.object().GetName() != name {
			copy(c.coming[k][1:i+1], c.coming[k][:i])
			c.coming[k][0] = e
			return
		}
	}
}

// relist replaces everything of a kind by what is there now: what was between is never seen, and a name may have come to
// mean another object.
func (c *cache) relist(k kind) []event {
	c.take(k)
	c.coming[k] = nil
	var all []event
	for _, object := range sorted(c.objects[k]) {
		if c.store.objects[k][client.ObjectKeyFromObject(object)] == nil {
			all = append(all, c.accept(k, event{before: object}))
		}
	}
	for _, object := range sorted(c.store.objects[k]) {
		if known := c.objects[k][client.ObjectKeyFromObject(object)]; known == nil || known.GetResourceVersion() != object.GetResourceVersion() {
			all = append(all, c.accept(k, event{after: object}))
		}
	}
	return all
}

// IndexField implements client.FieldIndexer.
func (c *cache) IndexField(_ context.Context, object client.Object, name string, by client.IndexerFunc) error {
	c.indexes[string(kindOf(object))+" "+name] = by
	return nil
}

// Get implements client.Reader.
func (c *cache) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	return read(c.objects, key, into)
}

func read(from map[kind]map[snapshot.Key]client.Object, key client.ObjectKey, into client.Object) error {
	k := kindOf(into)
	found := from[k][key]
	if found == nil {
		return notFound(k, key.Name)
	}
	fill(into, found)
	return nil
}

func fill(into, from client.Object) {
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(duplicate(from)).Elem())
}

// List implements client.Reader.
func (c *cache) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	k := kindOf(into)
	var found []runtime.Object
	for _, object := range sorted(c.objects[k]) {
		if (o.Namespace == "" || object.GetNamespace() == o.Namespace) && c.matches(k, object, &o) {
			found = append(found, handed(object, &o))
		}
	}
	return meta.SetList(into, found)
}

// handed is the cache's own object where the reader has promised to change nothing.
func handed(object client.Object, o *client.ListOptions) runtime.Object {
	if o.UnsafeDisableDeepCopy != nil && *o.UnsafeDisableDeepCopy {
		return object
	}
	return object.DeepCopyObject()
}

func (c *cache) matches(k kind, object client.Object, o *client.ListOptions) bool {
	if o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(object.GetLabels())) {
		return false
	}
	if o.FieldSelector == nil {
		return true
	}
	for _, wanted := range o.FieldSelector.Requirements() {
		by := c.indexes[string(k)+" "+wanted.Field]
		if by == nil {
			return false
		}
		held := false
		for _, value := range by(object) {
			held = held || value == wanted.Value
		}
		if !held {
			return false
		}
	}
	return true
}
