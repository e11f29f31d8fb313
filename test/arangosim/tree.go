package arangosim

import (
	"maps"
	"slices"
	"strings"
)

// tree is the agency's state below /arango.
type tree map[string]any

func (t tree) get(path string) any {
	var here any = map[string]any(t)
	for key := range strings.SplitSeq(path, "/") {
		object, ok := here.(map[string]any)
		if !ok {
			return nil
		}
		here = object[key]
	}
	return here
}

// set puts a value at a path, nil takes it away. Objects on the way are made.
func (t tree) set(path string, value any) {
	here := map[string]any(t)
	keys := strings.Split(path, "/")
	for _, key := range keys[:len(keys)-1] {
		next, ok := here[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			here[key] = next
		}
		here = next
	}
	if last := keys[len(keys)-1]; value == nil {
		delete(here, last)
	} else {
		here[last] = value
	}
}

// keys are those of the object at a path, sorted.
func (t tree) keys(path string) []string {
	object, _ := t.get(path).(map[string]any)
	return slices.Sorted(maps.Keys(object))
}

// strings is the list at a path.
func (t tree) strings(path string) []string { return texts(t.get(path)) }

func (t tree) text(path string) string {
	text, _ := t.get(path).(string)
	return text
}

// push puts a value at the end of a list that does not have it.
func (t tree) push(path, value string) {
	if all := t.strings(path); !slices.Contains(all, value) {
		t.set(path, anys(append(all, value)))
	}
}

// erase takes a value out of a list.
func (t tree) erase(path, value string) {
	t.set(path, anys(slices.DeleteFunc(t.strings(path), func(other string) bool { return other == value })))
}

func texts(value any) []string {
	items, _ := value.([]any)
	var all []string
	for _, item := range items {
		if text, ok := item.(string); ok {
			all = append(all, text)
		}
	}
	return all
}

func anys(all []string) []any {
	items := []any{}
	for _, text := range all {
		items = append(items, text)
	}
	return items
}

// pick answers a read: what is at the paths, nested from the root. Paths that lead nowhere are left out.
func (t tree) pick(paths []string) map[string]any {
	whole, picked := tree{"arango": map[string]any(t)}, tree{}
	for _, path := range paths {
		path = strings.Trim(path, "/")
		if value := whole.get(path); value != nil {
			picked.set(path, value)
		}
	}
	return picked
}
