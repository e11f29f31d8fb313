package replacement

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"usher.sh/usher/api/v1alpha1"
)

// node is a JSON object.
type node = map[string]any

var errNoObject = errors.New("not a JSON object")

// MergePatch returns the JSON merge patch that gives an object what a change is for, at the UID and the version that it has; nil: it has that
// already. The change's expressions have their values. A list is written as a whole, so that the version keeps what others have written meanwhile.
func MergePatch(object json.RawMessage, change *v1alpha1.ObjectPatch) (json.RawMessage, error) {
	var there node
	if err := json.Unmarshal(object, &there); err != nil {
		return nil, fmt.Errorf("reading the object: %w", err)
	}
	patch, err := merged(there, change)
	if err != nil {
		return nil, err
	}
	meta, err := within(patch, []string{"metadata"})
	if err != nil {
		return nil, err
	}
	for _, own := range []string{"uid", "resourceVersion", "name", "namespace", "managedFields"} {
		if _, set := meta[own]; set {
			return nil, fmt.Errorf("metadata.%s cannot be patched", own)
		}
	}
	if !changes(there, patch) {
		return nil, nil
	}
	of, err := within(there, []string{"metadata"})
	if err != nil {
		return nil, err
	}
	meta["uid"], meta["resourceVersion"] = of["uid"], of["resourceVersion"]
	return json.Marshal(patch)
}

// merged is the merge patch of the whole change, lists included.
func merged(there node, change *v1alpha1.ObjectPatch) (node, error) {
	patch := node{}
	if change.Merge != "" {
		if err := json.Unmarshal([]byte(change.Merge), &patch); err != nil || patch == nil {
			return nil, fmt.Errorf("merge: %w", errors.Join(err, errNoObject))
		}
	}
	for _, e := range slices.Concat(change.Append, change.Remove) {
		if speaksOf(patch, pointer(e.Path)) {
			return nil, fmt.Errorf("%s: merge sets it as well", e.Path)
		}
	}
	for _, e := range change.Append {
		if err := edit(there, patch, e, func(list []any, value any) []any { return append(without(list, value), value) }); err != nil {
			return nil, err
		}
	}
	for _, e := range change.Remove {
		if err := edit(there, patch, e, without); err != nil {
			return nil, err
		}
	}
	return patch, nil
}

// edit has the patch write the list with the element, or without it. A list in which nothing changes is not written.
func edit(there, patch node, e v1alpha1.ListElement, change func(list []any, value any) []any) error {
	var value any
	if err := json.Unmarshal([]byte(e.Value), &value); err != nil {
		return fmt.Errorf("the value for %s: %w", e.Path, err)
	}
	path := pointer(e.Path)
	list, err := listAt(patch, path)
	if err == nil && list == nil {
		list, err = listAt(there, path)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", e.Path, err)
	}
	changed := change(list, value)
	if len(changed) == len(list) { // elements are added and removed only
		return nil
	}
	at, err := within(patch, path[:len(path)-1])
	if err != nil {
		return fmt.Errorf("%s: %w", e.Path, err)
	}
	at[path[len(path)-1]] = changed
	return nil
}

// speaksOf reports whether a merge patch sets what is at a path, or what it is in.
func speaksOf(patch node, path []string) bool {
	for i, key := range path {
		value, there := patch[key]
		next, deeper := value.(node)
		if !there || !deeper || i == len(path)-1 {
			return there
		}
		patch = next
	}
	return false
}

func without(list []any, value any) []any {
	return slices.DeleteFunc(slices.Clone(list), func(other any) bool { return reflect.DeepEqual(other, value) })
}

// pointer splits a JSON pointer into the keys on its way.
func pointer(path string) []string {
	keys := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i := range keys {
		keys[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(keys[i])
	}
	return keys
}

// within returns the object at a path, which is made where it is absent.
func within(object node, path []string) (node, error) {
	for _, key := range path {
		next, is := object[key].(node)
		switch value, there := object[key]; {
		case is:
		case there && value != nil:
			return nil, fmt.Errorf("%s is %w", key, errNoObject)
		default:
			next = node{}
			object[key] = next
		}
		object = next
	}
	return object, nil
}

// listAt returns the list at a path; nil: there is none.
func listAt(object node, path []string) ([]any, error) {
	for _, key := range path[:len(path)-1] {
		next, is := object[key].(node)
		if value, there := object[key]; there && value != nil && !is {
			return nil, fmt.Errorf("%s is %w", key, errNoObject)
		}
		object = next
	}
	value, there := object[path[len(path)-1]]
	list, is := value.([]any)
	if there && value != nil && !is {
		return nil, errors.New("it is not a list")
	}
	return list, nil
}

// changes reports whether a merge patch changes an object.
func changes(there, patch node) bool {
	for key := range maps.Keys(patch) {
		is, known := there[key]
		if part, deeper := patch[key].(node); deeper {
			if inner, object := is.(node); object && !changes(inner, part) || !object && !known && empties(part) {
				continue
			}
			return true
		}
		if patch[key] == nil && known || patch[key] != nil && !reflect.DeepEqual(is, patch[key]) {
			return true
		}
	}
	return false
}

// empties reports whether a merge patch only takes away, which changes nothing where there is nothing.
func empties(patch node) bool {
	for key := range patch {
		if part, deeper := patch[key].(node); patch[key] != nil && (!deeper || !empties(part)) {
			return false
		}
	}
	return true
}
