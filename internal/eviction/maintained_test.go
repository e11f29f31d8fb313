package eviction

import (
	"testing"

	"usher.sh/usher/api/v1alpha1"
)

// Rules know of a pod that its MemberSet makes it anew with its claims, while its zone is under maintenance: of no other pod, and by the policy alone.
func TestPodMaintained(t *testing.T) {
	managed := &v1alpha1.Provider{MemberSet: &v1alpha1.MemberSetProvider{Maintenance: v1alpha1.MaintenanceManaged}}
	for name, test := range map[string]struct {
		provider *v1alpha1.Provider
		given    func(in *Input)
		want     bool
	}{
		"it is":                       {managed, nil, true},
		"it has no claim":             {managed, func(in *Input) { in.Pod.Claims = nil }, false},
		"its policy is being deleted": {managed, func(in *Input) { in.Policies[0].Deleted = true }, false},
		"its set manages none":        {&v1alpha1.Provider{MemberSet: &v1alpha1.MemberSetProvider{Maintenance: v1alpha1.MaintenanceNone}}, nil, false},
		"it is of a StatefulSet":      {&v1alpha1.Provider{StatefulSet: &v1alpha1.StatefulSetProvider{}}, nil, false},
		"it has no provider":          {nil, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			in := world(t)
			spec := toySpec()
			spec.Members[0].Provider = test.provider
			spec.Members[0].Role = "kept"
			spec.Roles = []v1alpha1.Role{{
				Name: "kept", System: "etcd", State: v1alpha1.StatePersistent, Identity: v1alpha1.IdentityUnique, Replace: v1alpha1.Replace{Successor: v1alpha1.SuccessorNone},
				Evict: v1alpha1.Evict{Rules: []v1alpha1.Rule{{Name: "maintained", Reason: "NotMaintained", Expression: "pod.maintained", Message: "it is not"}}},
			}}
			in.Policies[0].Policy = compiled(t, spec)
			in.Pod.Claims = []string{"data-s0"}
			in.Pod.Annotations = map[string]string{v1alpha1.OnEvictionAnnotation: v1alpha1.PodFollows}
			if test.given != nil {
				test.given(&in)
			}
			v := Judge(in)
			if got := v.Answer == Allowed; got != test.want {
				t.Errorf("it is maintained: %t; %+v", got, v.Blockers)
			}
		})
	}
}
