package histories

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// connection is a replica's client: it reads from the cache and writes through the gate. What Usher does not use is not
// there, and ends the history.
type connection struct {
	client.Client
	replica *replica
}

func (c *connection) Get(ctx context.Context, key client.ObjectKey, into client.Object, o ...client.GetOption) error {
	return c.replica.cache.Get(ctx, key, into, o...)
}

func (c *connection) List(ctx context.Context, into client.ObjectList, o ...client.ListOption) error {
	return c.replica.cache.List(ctx, into, o...)
}

func (c *connection) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	if len(new(client.CreateOptions).ApplyOptions(options).DryRun) > 0 {
		return c.try(ctx, object)
	}
	c.replica.checkRepair(object)
	if k := kindOf(object); k == services || k == claims || k == configMaps { // which are not watched
		if look := unwokenLookOf(ctx); look != nil {
			look.made = true
		}
		ctx = woken(ctx)
	}
	return c.write(ctx, "create", whole, object, func() error {
		created, s := duplicate(object), c.replica.world.setSite()
		if request, ok := created.(*api.EvictionRequest); ok {
			request.ManagedFields = intentOf(new(client.CreateOptions).ApplyOptions(options).FieldManager)
		}
		if s != nil {
			s.accept(created)
		}
		if err := c.replica.world.store.create(created); err != nil {
			return err
		}
		if s != nil {
			s.made(created)
		}
		fill(object, created)
		return nil
	})
}

// try is a CREATE that is checked, and changes nothing.
func (c *connection) try(ctx context.Context, object client.Object) error {
	return c.replica.call(ctx, "try "+object.GetName(), plain, func() error {
		if k := kindOf(object); c.replica.world.store.get(k, client.ObjectKeyFromObject(object)) != nil {
			return apierrors.NewAlreadyExists(schema.GroupResource{Resource: string(k)}, object.GetName())
		}
		return nil
	})
}

// Delete is a DELETE of one object at a version: a pod's passes admission.
func (c *connection) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	var o client.DeleteOptions
	o.ApplyOptions(options)
	k, key, w := kindOf(object), client.ObjectKeyFromObject(object), c.replica.world
	if o.Preconditions == nil || o.Preconditions.UID == nil {
		w.fail("PRECONDITION", "%s deletes %s %s without its UID", c.replica.name, k, key.Name)
		return nil
	}
	if pod, ok := object.(*corev1.Pod); ok {
		c.replica.unwoken(ctx, "delete pod "+pod.Name)
		r := &removal{user: self, of: taskOf(ctx), delete: true, pod: pod.Name, uid: *o.Preconditions.UID, looked: lookedSince(ctx)}
		if o.Preconditions.ResourceVersion != nil {
			r.version = *o.Preconditions.ResourceVersion
		}
		err := w.remove(ctx, r)
		c.replica.deny(ctx, err)
		return err
	}
	return c.write(ctx, "delete", whole, object, func() error {
		before := w.store.get(k, key)
		if before == nil {
			return notFound(k, key.Name)
		}
		if before.GetUID() != *o.Preconditions.UID {
			return apierrors.NewConflict(schema.GroupResource{Resource: string(k)}, key.Name, errModified)
		}
		if before.GetDeletionTimestamp() == nil && k == claims {
			w.checkClaimGoes(ctx, key)
		}
		w.store.remove(before)
		return nil
	})
}

func (c *connection) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	if _, ok := object.(*api.EvictionRequest); ok {
		var o client.PatchOptions
		o.ApplyOptions(options)
		patch = intentPatch{patch, o.FieldManager}
	}
	return c.merge(ctx, object, patch, whole)
}

func (c *connection) Apply(ctx context.Context, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	var o client.ApplyOptions
	o.ApplyOptions(options)
	return c.apply(ctx, object, whole, o.FieldManager)
}

func (c *connection) Status() client.SubResourceWriter { return &statusWriter{of: c} }

type statusWriter struct {
	client.SubResourceWriter
	of *connection
}

func (s *statusWriter) Patch(ctx context.Context, object client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.of.merge(ctx, object, patch, status)
}

func (s *statusWriter) Apply(ctx context.Context, object runtime.ApplyConfiguration, options ...client.SubResourceApplyOption) error {
	var o client.SubResourceApplyOptions
	o.ApplyOpts(options)
	return s.of.apply(ctx, object, status, o.FieldManager)
}

func (c *connection) merge(ctx context.Context, object client.Object, patch client.Patch, p part) error {
	body, err := patch.Data(object)
	if err != nil {
		return fmt.Errorf("making a patch: %w", err)
	}
	w := c.replica.world
	key := client.ObjectKeyFromObject(object)
	before := w.store.get(kindOf(object), key)
	if unchanged(before, p, body) || reworded(before, p, body, unwokenLookOf(ctx)) || restates(object, p, body) || taintedInTime(before, p, body) || kindOf(object) == policies && (c.replica.ages(key, p, body) || w.relocks(before, p, body)) {
		ctx = woken(ctx)
	}
	c.replica.checkUnhealthy(kindOf(object), p, body)
	err = c.write(ctx, "patch", p, object, func() error {
		w.audit(kindOf(object), p, body)
		w.checkExpiry(key, kindOf(object), p, body)
		w.checkLabelGoes(ctx, kindOf(object), key, body)
		was := w.store.get(kindOf(object), key)
		changed, err := w.store.patch(kindOf(object), key, p, body)
		if err != nil {
			return err
		}
		w.checkEmptied(lookedSince(ctx), was, changed)
		if set, ok := changed.(*v1alpha1.MemberSet); ok {
			w.setSite().wrote(set, lookedSince(ctx))
		}
		if kindOf(object) == policies && p == whole && w.setSite() != nil {
			w.relax()
		}
		w.note("  wrote %s", body)
		fill(object, changed)
		return nil
	})
	if item, ok := ctx.Value(workKey).(work); ok && item.controller == repairController && c.replica.look != nil {
		c.replica.look.refused = err != nil
	}
	return err
}

// applicable is an apply configuration made from a tree.
type applicable interface {
	UnstructuredContent() map[string]any
	GetKind() string
	GetNamespace() string
	GetName() string
}

var errNoTree = errors.New("an apply configuration that is no tree")

func (c *connection) apply(ctx context.Context, object runtime.ApplyConfiguration, p part, manager string) error {
	tree, ok := object.(applicable)
	if !ok {
		return errNoTree
	}
	k := evictions
	if tree.GetKind() == "EvictionRequest" {
		k = requests
	}
	content := normal(without(tree.UnstructuredContent(), "apiVersion", "kind"))
	key := snapshot.Key{Namespace: tree.GetNamespace(), Name: tree.GetName()}
	shown := newObject(k)
	shown.SetName(key.Name)
	if old, ok := c.replica.world.store.get(k, key).(*api.Eviction); ok && p == status && (beats(old, content) || c.replica.world.saysLocks(old)) {
		ctx = woken(ctx)
	}
	return c.write(ctx, "apply", p, shown, func() error {
		c.replica.world.note("  applies %s", encode(scoped(content, p)))
		return c.replica.world.store.apply(k, key, p, manager, content)
	})
}

// normal makes a tree what it would be after it has travelled as JSON.
func normal(tree map[string]any) map[string]any { return runtime.DeepCopyJSON(tree) }

func (c *connection) write(ctx context.Context, verb string, p part, object client.Object, effect func() error) error {
	label := fmt.Sprintf("%s %s %s %s", verb, kindOf(object), object.GetName(), p)
	if dry(ctx) {
		c.replica.world.fail("DRYRUN", "%s: a dry run writes: %s", c.replica.name, label)
	}
	c.replica.unwoken(ctx, label)
	if item, ok := ctx.Value(workKey).(work); ok && item.controller == setController && c.replica.world.setSite() != nil {
		c.replica.world.setSite().writes++
	}
	return c.replica.call(ctx, label, canBeLate, effect)
}

// liveReader reads past the cache.
type liveReader struct {
	client.Reader
	replica *replica
}

func (l *liveReader) Get(ctx context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if lease, ok := into.(*coordinationv1.Lease); ok && key.Namespace == corev1.NamespaceNodeLease {
		return l.replica.world.kubeletLease(key.Name, lease)
	}
	label := fmt.Sprintf("get %s %s", kindOf(into), key.Name)
	return l.replica.call(ctx, label, plain, func() error { return read(l.replica.world.store.objects, key, into) })
}

// List returns all objects of a kind that have the labels, and pods by their node: there is one namespace.
func (l *liveReader) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	k := kindOf(into)
	return l.replica.call(ctx, fmt.Sprintf("list %s", k), plain, func() error {
		var found []runtime.Object
		for _, object := range sorted(l.replica.world.store.objects[k]) {
			if (o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(object.GetLabels()))) && isOn(object, o.FieldSelector) {
				found = append(found, object.DeepCopyObject())
			}
		}
		return meta.SetList(into, found)
	})
}

// isOn reports whether an object is a pod on the node that a field selector names, where it names one.
func isOn(object client.Object, by fields.Selector) bool {
	if by == nil {
		return true
	}
	node, named := by.RequiresExactMatch("spec.nodeName")
	pod, is := object.(*corev1.Pod)
	return !named || is && pod.Spec.NodeName == node
}

// intentOf are the managed fields of a request whose intent a manager has written last.
func intentOf(manager string) []metav1.ManagedFieldsEntry {
	return []metav1.ManagedFieldsEntry{{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:intent":{}}}`),
	}}
}

// intentPatch is a patch of a request, in whose managed fields the apiserver keeps who has written its intent.
type intentPatch struct {
	client.Patch

	manager string
}

// Data implements client.Patch.
func (p intentPatch) Data(object client.Object) ([]byte, error) {
	body, err := p.Patch.Data(object)
	var change map[string]map[string]any
	if err != nil || json.Unmarshal(body, &change) != nil || change["spec"]["intent"] == nil {
		return body, err
	}
	if change["metadata"] == nil {
		change["metadata"] = map[string]any{}
	}
	change["metadata"]["managedFields"] = intentOf(p.manager)
	return json.Marshal(change)
}
