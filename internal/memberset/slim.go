package memberset

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

// Slim returns a set with what is read of it from a cache: which one it is, what keeps its members from starting, and its status. Its spec is not: the templates of
// its groups have no bound but an object's, a megabyte and a half, and what a set is to make is decided on the set as the apiserver has it.
func Slim(set *v1alpha1.MemberSet) *v1alpha1.MemberSet {
	slim := &v1alpha1.MemberSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: set.Name, UID: set.UID, ResourceVersion: set.ResourceVersion, Generation: set.Generation,
			CreationTimestamp: set.CreationTimestamp, DeletionTimestamp: set.DeletionTimestamp, Annotations: slimStops(set),
		},
		Status: set.Status,
	}
	slim.Status.ClusterFile = ""
	slim.Status.Members = slices.Clone(set.Status.Members)
	for i := range slim.Status.Members {
		slim.Status.Members[i].Shape.NodeSelector = nil // a template's, whose values have no bound
	}
	return slim
}

// slimStops are annotations that say the same of each member that there is: which is the first that keeps it from starting.
func slimStops(set *v1alpha1.MemberSet) map[string]string {
	stops, named := StopsOf(set), map[string][]string{}
	for i := range set.Status.Members {
		id := set.Status.Members[i].ID
		if key := stops.Of(id); key != "" {
			named[key] = append(named[key], id)
		}
	}
	var kept map[string]string
	for key, ids := range named {
		if kept == nil {
			kept = map[string]string{}
		}
		kept[strings.Clone(key)] = strings.Join(ids, ",")
	}
	return kept
}
