package histories

import (
	"maps"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/internal/snapshot"
)

// part says which part of an object a request may write.
type part string

const (
	whole  part = ""
	status part = "status"
)

// patch carries out a merge patch.
func (s *store) patch(k kind, key snapshot.Key, p part, body []byte) (client.Object, error) {
	var change map[string]any
	if err := json.Unmarshal(body, &change); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	before := s.get(k, key)
	if before == nil {
		return nil, notFound(k, key.Name)
	}
	if err := preconditions(k, before, change); err != nil {
		return nil, err
	}
	return s.change(before, p, change, merge)
}

// preconditions are what a patch says of the object that it means, in the server's words where they do not hold.
func preconditions(k kind, object client.Object, change map[string]any) error {
	meta, _ := change["metadata"].(map[string]any)
	resource := schema.GroupResource{Resource: string(k)}
	if version, _ := meta["resourceVersion"].(string); version != "" && version != object.GetResourceVersion() {
		return apierrors.NewConflict(resource, object.GetName(), errModified)
	}
	if uid, _ := meta["uid"].(string); uid != "" && types.UID(uid) != object.GetUID() {
		immutable := field.Invalid(field.NewPath("metadata", "uid"), uid, "field is immutable")
		return apierrors.NewInvalid(schema.GroupKind{Kind: string(k)}, object.GetName(), field.ErrorList{immutable})
	}
	return nil
}

// change writes the part of an object that a patch may write.
func (s *store) change(before client.Object, p part, patch map[string]any, how func(old, patch map[string]any)) (client.Object, error) {
	was, err := runtime.DefaultUnstructuredConverter.ToUnstructured(before)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	tree := runtime.DeepCopyJSON(was)
	how(tree, scoped(patch, p))
	if reflect.DeepEqual(was, tree) {
		return before, nil
	}
	after := newObject(kindOf(before))
	if untyped, ok := after.(*unstructured.Unstructured); ok {
		untyped.Object = tree
	} else if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tree, after); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if !reflect.DeepEqual(was["spec"], tree["spec"]) {
		after.SetGeneration(before.GetGeneration() + 1)
	}
	s.put(after)
	return after, nil
}

// scoped leaves out what a request does not write: a subresource its own field only, and none the server's metadata.
func scoped(patch map[string]any, p part) map[string]any {
	if p == status {
		return map[string]any{"status": patch["status"]}
	}
	kept := map[string]any{}
	for name, value := range patch {
		meta, isMeta := value.(map[string]any)
		switch {
		case name == "metadata" && isMeta:
			kept[name] = without(meta, "uid", "resourceVersion")
		case name != "status":
			kept[name] = value
		}
	}
	return kept
}

func without(object map[string]any, names ...string) map[string]any {
	kept := maps.Clone(object)
	for _, name := range names {
		delete(kept, name)
	}
	return kept
}

// merge is RFC 7386.
func merge(old, patch map[string]any) {
	for name, value := range patch {
		inner, isObject := value.(map[string]any)
		switch {
		case value == nil:
			delete(old, name)
		case isObject:
			under, ok := old[name].(map[string]any)
			if !ok {
				under = map[string]any{}
				old[name] = under
			}
			merge(under, inner)
		default:
			old[name] = value
		}
	}
}

// apply is server-side apply with force, for the kinds whose lists have keys below.
func (s *store) apply(k kind, key snapshot.Key, p part, manager string, patch map[string]any) error {
	before := s.get(k, key)
	meta, _ := patch["metadata"].(map[string]any)
	uid, _ := meta["uid"].(string)
	switch {
	case before == nil && (uid != "" || p == status):
		return notFound(k, key.Name)
	case before == nil:
		return s.applyNew(k, manager, patch)
	case uid != "" && types.UID(uid) != before.GetUID():
		return apierrors.NewConflict(schema.GroupResource{Resource: string(k)}, key.Name, errModified)
	}
	if err := preconditions(k, before, patch); err != nil {
		return err
	}
	owner := ownerOf(before, manager, p)
	last := s.applied[owner]
	next := runtime.DeepCopyJSON(scoped(patch, p))
	_, err := s.change(before, p, patch, func(old, patch map[string]any) { applyObject(old, last, patch) })
	s.applied[owner] = next
	return err
}

// ownerOf is under what the store keeps what a manager applied last to a part of an object.
func ownerOf(object client.Object, manager string, p part) string {
	return strings.Join([]string{string(object.GetUID()), manager, string(p)}, "/")
}

func (s *store) applyNew(k kind, manager string, patch map[string]any) error {
	applied := runtime.DeepCopyJSON(scoped(patch, whole))
	object := newObject(k)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(patch, object); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	if err := s.create(object); err != nil {
		return err
	}
	s.applied[ownerOf(object, manager, whole)] = applied
	return nil
}

// keys name the entries of lists.
var keys = map[string]string{
	"conditions": "type", "requesters": "name", "targetResponders": "name", "responders": "name", "ownerReferences": "uid",
}

// applyObject sets what a manager applies now and takes away what it applied last and does not apply any more.
func applyObject(old, last, next map[string]any) {
	for name := range last {
		if _, still := next[name]; !still {
			delete(old, name)
		}
	}
	for name, value := range next {
		was := last[name]
		switch value := value.(type) {
		case map[string]any:
			under, ok := old[name].(map[string]any)
			if !ok {
				under = map[string]any{}
				old[name] = under
			}
			before, _ := was.(map[string]any)
			applyObject(under, before, value)
		case []any:
			old[name] = applyList(keys[name], old[name], was, value)
		case nil:
		default:
			old[name] = value
		}
	}
}

func applyList(key string, old, last any, next []any) any {
	if key == "" {
		return next
	}
	merged, _ := old.([]any)
	before, _ := last.([]any)
	for _, item := range before {
		if find(next, key, item) < 0 {
			if at := find(merged, key, item); at >= 0 {
				merged = append(merged[:at:at], merged[at+1:]...)
			}
		}
	}
	for _, item := range next {
		at := find(merged, key, item)
		if at < 0 {
			merged = append(merged, item)
			continue
		}
		was, _ := at2(before, find(before, key, item)).(map[string]any)
		into, _ := merged[at].(map[string]any)
		from, _ := item.(map[string]any)
		applyObject(into, was, from)
	}
	return merged
}

func at2(items []any, at int) any {
	if at < 0 {
		return nil
	}
	return items[at]
}

// find is the place of the entry with the item's key.
func find(items []any, key string, item any) int {
	wanted, _ := item.(map[string]any)
	for i := range items {
		if entry, _ := items[i].(map[string]any); entry[key] == wanted[key] {
			return i
		}
	}
	return -1
}
