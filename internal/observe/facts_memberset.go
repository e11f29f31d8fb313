package observe

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

var memberSetKind = schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: "MemberSet"}

// memberSet reads a MemberSet of the namespace; nil: it is not there. One that may not be read fails: how many copies there are of a member's data is not known.
func (r *workloadRead) memberSet(ctx context.Context, name string) (*snapshot.Workload, error) {
	object, err := r.Dynamic.Resource(MemberSetResource).Namespace(r.namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading MemberSet %s: %w", name, err)
	}
	set, err := MemberSetOf(object)
	if err != nil {
		return nil, err
	}
	return memberSetFacts(set), nil
}

// memberSetFacts has the members by the set's status, which tenants do not write. No surge raises their number: the set grows by itself where one is replaced.
func memberSetFacts(set *v1alpha1.MemberSet) *snapshot.Workload {
	facts := &snapshot.Workload{
		Kind: memberSetKind.Kind, Group: memberSetKind.Group, Namespace: set.Namespace, Name: set.Name, UID: set.UID, ResourceVersion: set.ResourceVersion,
		Replicas: uncounted, Settled: true, SurgeError: "a MemberSet grows by itself where a member is replaced", Members: map[string]snapshot.SetMember{},
	}
	replicas := map[string]int32{}
	for i := range set.Status.Groups {
		replicas[set.Status.Groups[i].Name] = set.Status.Groups[i].Replicas
	}
	for i := range set.Status.Members {
		m := &set.Status.Members[i]
		facts.Members[m.ID] = snapshot.SetMember{Group: m.Group, Replicas: replicas[m.Group], Stays: m.State == v1alpha1.MemberWhole && m.Removal == nil}
	}
	return facts
}
