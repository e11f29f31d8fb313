package evictionrequest

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IntentSigns returns of a request's managed fields what IntentBy reads: who wrote the intent. Of any number two are enough, since
// no one of them wrote it alone.
func IntentSigns(all []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	var kept []metav1.ManagedFieldsEntry
	for i := range all {
		manager := all[i].Manager
		known := slices.ContainsFunc(kept, func(k metav1.ManagedFieldsEntry) bool { return k.Manager == manager })
		if !known && len(kept) < 2 && writesIntent(all[i]) {
			kept = append(kept, metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:intent":{}}}`)})
		}
	}
	return kept
}

func writesIntent(m metav1.ManagedFieldsEntry) bool { return owned(m).child("f:spec").has("f:intent") }

// StatusSigns returns of an eviction's managed fields what FindOther and ServedByOther read: who writes what of the status.
func StatusSigns(all []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	var kept []metav1.ManagedFieldsEntry
	for i := range all {
		if m := all[i]; m.Subresource == "status" {
			m.FieldsV1 = signs(statusFields(m))
			kept = append(kept, m)
		}
	}
	return kept
}

// signs keeps of the fields of a status which conditions there are, that there are target responders, and who of the responders
// has said something.
func signs(status fieldTree) *metav1.FieldsV1 {
	type leaf struct{}
	type tree struct {
		Conditions map[string]leaf            `json:"f:conditions,omitempty"`
		Targets    *leaf                      `json:"f:targetResponders,omitempty"`
		Responders map[string]map[string]leaf `json:"f:responders,omitempty"`
	}
	kept := tree{Conditions: map[string]leaf{}, Responders: map[string]map[string]leaf{}}
	for name := range status.child("f:conditions") {
		kept.Conditions[name] = leaf{}
	}
	if status.has("f:targetResponders") {
		kept.Targets = &leaf{}
	}
	entries := status.child("f:responders")
	for name := range entries {
		if entries.child(name).isWord() {
			kept.Responders[name] = map[string]leaf{"f:message": {}}
		}
	}
	text, err := json.Marshal(map[string]tree{"f:status": kept})
	if err != nil {
		return nil // names and empty sets can be written
	}
	return metav1.NewFieldsV1(string(text))
}
