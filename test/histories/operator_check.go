package histories

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// mapper knows the kinds that a policy has patched.
var mapper = newMapper()

func newMapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	m.Add(shopKind, meta.RESTScopeNamespace)
	return m
}

// as is the apiserver as a ServiceAccount of a namespace sees it.
func (r *replica) as(of, serviceAccount string) (dynamic.Interface, error) {
	if of != namespace || serviceAccount != patcher {
		r.world.fail("REPLACED", "%s acts as ServiceAccount %s of namespace %s", r.name, serviceAccount, of)
	}
	return impersonated{replica: r}, nil
}

// impersonated is a client that reads and patches objects of one namespace. What Usher does not use is not there, and ends the history.
type impersonated struct {
	dynamic.NamespaceableResourceInterface

	replica *replica
	kind    kind
}

func (i impersonated) Resource(of schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return impersonated{replica: i.replica, kind: kind(of.Resource)}
}

func (i impersonated) Namespace(string) dynamic.ResourceInterface { return i }

func (i impersonated) Get(ctx context.Context, name string, _ metav1.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	err := i.replica.call(ctx, fmt.Sprintf("get %s %s as %s", i.kind, name, patcher), plain, func() error {
		found := i.replica.world.store.get(i.kind, snapshot.Key{Namespace: namespace, Name: name})
		if found == nil {
			return notFound(i.kind, name)
		}
		tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(found)
		object.Object = runtime.DeepCopyJSON(tree)
		if pod, ok := found.(*corev1.Pod); ok && err == nil {
			object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
			object.SetUID(pod.UID)
		}
		return err
	})
	return object, err
}

func (i impersonated) Patch(ctx context.Context, name string, _ types.PatchType, body []byte, _ metav1.PatchOptions, _ ...string) (*unstructured.Unstructured, error) {
	r := i.replica
	w, key, looked := r.world, snapshot.Key{Namespace: namespace, Name: name}, lookedSince(ctx)
	label := fmt.Sprintf("patch %s %s as %s", i.kind, name, patcher)
	r.unwoken(ctx, label)
	return nil, r.call(ctx, label, canBeLate, func() error {
		before := w.store.get(i.kind, key)
		after, err := w.store.patch(i.kind, key, whole, body)
		if err != nil {
			return err
		}
		w.note("  wrote %s", body)
		w.checkPatched(before, after, looked)
		return nil
	})
}

// checkPatched checks what a patch has made of an object: an operator is asked for one member, or for one no more, and nothing else is another.
func (w *world) checkPatched(before, after client.Object, looked time.Time) {
	was, is := w.operator.askedFor(before), w.operator.askedFor(after)
	added := slices.DeleteFunc(slices.Clone(is), func(m string) bool { return slices.Contains(was, m) })
	removed := slices.DeleteFunc(slices.Clone(was), func(m string) bool { return slices.Contains(is, m) })
	if len(added)+len(removed) > 1 || !equality.Semantic.DeepEqual(apart(before), apart(after)) {
		w.fail("REPLACED", "a patch of %s asks for %s and for %s no more, or changes something else", after.GetName(), added, removed)
		return
	}
	for _, member := range added {
		w.checkAsked(member, looked)
	}
	for _, member := range removed {
		if q := w.asking(member, looked); q == nil || q.DeletionTimestamp == nil {
			w.fail("REPLACED", "the replacement of %s is taken back, and no request for it was deleted", member)
		}
	}
}

// apart is an object without what asks an operator, and without the server's metadata.
func apart(object client.Object) map[string]any {
	tree, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	tree = runtime.DeepCopyJSON(tree)
	unstructured.RemoveNestedField(tree, "spec", "replace")
	unstructured.RemoveNestedField(tree, "metadata", "resourceVersion")
	unstructured.RemoveNestedField(tree, "metadata", "generation")
	unstructured.RemoveNestedField(tree, "metadata", "annotations", operatorAnnotation)
	if left, _, _ := unstructured.NestedMap(tree, "metadata", "annotations"); len(left) == 0 {
		unstructured.RemoveNestedField(tree, "metadata", "annotations")
	}
	return tree
}

// asking is the request for which an operator is asked for a member: one that stands, or has stood since a time; nil: there is none.
func (w *world) asking(member string, since time.Time) *v1alpha1.ReplacementRequest {
	return w.requestWhere(since, func(q *v1alpha1.ReplacementRequest) bool {
		return q.Status.Predecessor != nil && q.Status.Predecessor.Target != nil && q.Spec.Member.ID == member
	})
}

// checkAsked: an operator is asked only for a member for whose replacement a request stands that was not deleted, which the policy's status says, while others
// have its data, and of no more members at a time than may be. What happened after Usher began to look, or after the system was asked, cannot be known.
func (w *world) checkAsked(member string, looked time.Time) {
	q := w.asking(member, looked)
	switch {
	case q == nil:
		w.fail("REPLACED", "the operator is asked for %s, and no request says that it is replaced", member)
		return
	case q.DeletionTimestamp != nil && q.DeletionTimestamp.Time.Before(looked):
		w.fail("REPLACED", "the operator is asked for %s, whose request was deleted before", member)
	case !w.isReplaced(member):
		w.fail("PERMIT", "the operator is asked for %s, and no policy's status says that it is replaced", member)
	}
	if since, misses := w.safety.missed[member]; misses && time.Since(since) > maxAge+w.site.lag(w.roleOf(member)) {
		w.fail("REPLACED", "the operator is asked for %s, and it alone has what it has since %.3f", member, since.Sub(w.begun).Seconds())
	}
	o := w.operator
	o.asked[member] = asked{q.UID, time.Now()}
	o.notices[member] = time.Now().Add(w.within(90 * time.Second))
	w.awaits[member] = awaited{q.UID, q.Status.Predecessor.StartTime.Time}
	w.checkOneAtATime("the operator is asked for " + member)
}

// checkTakenBack: an operator is asked for no member whose request is over, unless people have taken that away by force; and for none that was cancelled in time,
// where that can be taken back.
func (w *world) checkTakenBack() {
	if w.operator == nil || w.policy(firstPolicy) == nil {
		return
	}
	for _, p := range w.site.members() {
		a, known := w.operator.asked[p.pod]
		if !known || !w.asks(p.pod) || w.erased[a.request] {
			continue
		}
		open := slices.ContainsFunc(list[*v1alpha1.ReplacementRequest](w.store, replaces), func(q *v1alpha1.ReplacementRequest) bool {
			return q.UID == a.request && !q.Status.Over() && (q.DeletionTimestamp == nil || !w.operator.undoes)
		})
		if _, begun := w.operator.begun[p.pod]; !open && !begun {
			w.fail("UNDO", "the operator is still asked for %s, whose request is over or was deleted", p.pod)
		}
	}
}
