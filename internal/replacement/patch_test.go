package replacement

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
)

func TestMergePatch(t *testing.T) {
	t.Parallel()
	annotate := v1alpha1.ObjectPatch{Merge: `{"metadata":{"annotations":{"strimzi.io/delete-pod-and-pvc":"true"}}}`}
	withdraw := v1alpha1.ObjectPatch{Merge: `{"metadata":{"annotations":{"strimzi.io/delete-pod-and-pvc":null}}}`}
	list := []v1alpha1.ListElement{{Path: "/spec/processGroupsToRemove", Value: `"storage-1"`}}
	for name, test := range map[string]struct {
		object string
		change v1alpha1.ObjectPatch
		want   string // "": nothing changes
		err    string
	}{
		"an annotation": {
			object: `{"metadata":{"uid":"u","resourceVersion":"7","annotations":{"a":"b"}}}`, change: annotate,
			want: `{"metadata":{"annotations":{"strimzi.io/delete-pod-and-pvc":"true"},"uid":"u","resourceVersion":"7"}}`,
		},
		"an annotation that is there": {object: `{"metadata":{"annotations":{"a":"b","strimzi.io/delete-pod-and-pvc":"true"}}}`, change: annotate},
		"one taken off": {
			object: `{"metadata":{"uid":"u","resourceVersion":"7","annotations":{"strimzi.io/delete-pod-and-pvc":"true"}}}`, change: withdraw,
			want: `{"metadata":{"annotations":{"strimzi.io/delete-pod-and-pvc":null},"uid":"u","resourceVersion":"7"}}`,
		},
		"one taken off where none is": {object: `{"metadata":{}}`, change: withdraw},
		"appended": {
			object: `{"metadata":{"uid":"u","resourceVersion":"7"},"spec":{"processGroupsToRemove":["log-1"]}}`, change: v1alpha1.ObjectPatch{Append: list},
			want: `{"metadata":{"uid":"u","resourceVersion":"7"},"spec":{"processGroupsToRemove":["log-1","storage-1"]}}`,
		},
		"appended to no list": {
			object: `{"metadata":{"uid":"u","resourceVersion":"7"},"spec":{}}`, change: v1alpha1.ObjectPatch{Append: list},
			want: `{"metadata":{"uid":"u","resourceVersion":"7"},"spec":{"processGroupsToRemove":["storage-1"]}}`,
		},
		"appended where it is": {object: `{"spec":{"processGroupsToRemove":["storage-1","log-1"]}}`, change: v1alpha1.ObjectPatch{Append: list}},
		"removed": {
			object: `{"metadata":{"uid":"u","resourceVersion":"7"},"spec":{"processGroupsToRemove":["log-1","storage-1"]}}`, change: v1alpha1.ObjectPatch{Remove: list},
			want: `{"metadata":{"uid":"u","resourceVersion":"7"},"spec":{"processGroupsToRemove":["log-1"]}}`,
		},
		"removed from no list": {object: `{"spec":{}}`, change: v1alpha1.ObjectPatch{Remove: list}},
		"two elements of one list": {
			object: `{"metadata":{"uid":"u","resourceVersion":"7"},"spec":{"l":[1]}}`,
			change: v1alpha1.ObjectPatch{Append: []v1alpha1.ListElement{{Path: "/spec/l", Value: "2"}, {Path: "/spec/l", Value: "3"}}, Remove: []v1alpha1.ListElement{{Path: "/spec/l", Value: "1"}}},
			want:   `{"metadata":{"uid":"u","resourceVersion":"7"},"spec":{"l":[2,3]}}`,
		},
		"a key with a slash": {
			object: `{"metadata":{"uid":"u","resourceVersion":"7"}}`, change: v1alpha1.ObjectPatch{Append: []v1alpha1.ListElement{{Path: "/a~1b/c~0d", Value: "1"}}},
			want: `{"a/b":{"c~d":[1]},"metadata":{"uid":"u","resourceVersion":"7"}}`,
		},
		"no list":              {object: `{"spec":{"processGroupsToRemove":"all"}}`, change: v1alpha1.ObjectPatch{Append: list}, err: "/spec/processGroupsToRemove: it is not a list"},
		"no object on the way": {object: `{"spec":[]}`, change: v1alpha1.ObjectPatch{Append: list}, err: "/spec/processGroupsToRemove: spec is not a JSON object"},
		"another's identity":   {object: `{}`, change: v1alpha1.ObjectPatch{Merge: `{"metadata":{"uid":"x"}}`}, err: "metadata.uid cannot be patched"},
		"a list that merge sets": {
			object: `{}`, change: v1alpha1.ObjectPatch{Merge: `{"spec":{"processGroupsToRemove":null}}`, Append: list}, err: "/spec/processGroupsToRemove: merge sets it as well",
		},
		"an object over a text": {
			object: `{"metadata":{"uid":"u","resourceVersion":"7"},"spec":"x"}`, change: v1alpha1.ObjectPatch{Merge: `{"spec":{"a":null}}`},
			want: `{"metadata":{"uid":"u","resourceVersion":"7"},"spec":{"a":null}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := MergePatch(json.RawMessage(test.object), &test.change)
			if said := messageOf(err); said != test.err {
				t.Fatalf("error %q, want %q", said, test.err)
			}
			if diff := cmp.Diff(decoded(t, test.want), decoded(t, string(got))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func messageOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func decoded(t *testing.T, text string) any {
	t.Helper()
	if text == "" {
		return nil
	}
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// FuzzMergePatch: whatever an object is, what is sent names its UID and its version, and sent once more to what the apiserver makes of it,
// changes nothing.
func FuzzMergePatch(f *testing.F) {
	f.Add(`{"metadata":{"uid":"u","resourceVersion":"7"},"spec":{"l":["a"]}}`, `{"metadata":{"annotations":{"a":"b"}}}`, "/spec/l", `"c"`)
	f.Add(`{"metadata":{"uid":"u","resourceVersion":"7"}}`, `{"a":{"b":null},"c":{"d":{}}}`, "/a/c", `{}`)
	f.Fuzz(func(t *testing.T, object, merge, path, value string) {
		if !utf8.ValidString(path) || !utf8.ValidString(value) || !utf8.ValidString(merge) { // the API has no such objects
			return
		}
		change := v1alpha1.ObjectPatch{Merge: merge, Append: []v1alpha1.ListElement{{Path: path, Value: value}}}
		patch, err := MergePatch(json.RawMessage(object), &change)
		if err != nil || patch == nil {
			return
		}
		var there, sent node
		if json.Unmarshal([]byte(object), &there) != nil || json.Unmarshal(patch, &sent) != nil {
			t.Fatalf("%s gives %s", object, patch)
		}
		merged, _ := json.Marshal(apply(there, sent))
		if again, err := MergePatch(merged, &change); err != nil || again != nil {
			t.Errorf("%s, changed by %s, is %s: changed again by %s (%v)", object, patch, merged, again, err)
		}
	})
}

// apply is RFC 7386 as it stands there.
func apply(target any, patch any) any {
	changes, is := patch.(node)
	if !is {
		return patch
	}
	object, is := target.(node)
	if !is {
		object = node{}
	}
	for key, value := range changes {
		if value == nil {
			delete(object, key)
		} else {
			object[key] = apply(object[key], value)
		}
	}
	return object
}
