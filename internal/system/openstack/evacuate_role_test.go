package openstack_test

import (
	"slices"
	"strings"
	"testing"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system/openstack"
)

// A role of a policy's own cannot have servers evacuated for an eviction: nothing proves then that the host is off, and Nova may not hear of one that runs.
func TestNoRoleEvacuatesForAnEviction(t *testing.T) {
	roles, err := eviction.ParseRoles(openstack.Kind().Roles)
	if err != nil {
		t.Fatal(err)
	}
	own := *roles[slices.IndexFunc(roles, func(r v1alpha1.Role) bool { return r.Name == "nova-compute" })].DeepCopy()
	own.Evict.Prepare = own.Lost.Prepare
	spec := &v1alpha1.EvictionPolicySpec{System: v1alpha1.System{OpenStack: &v1alpha1.OpenStack{}}, Roles: []v1alpha1.Role{own}}
	_, problems := eviction.Compile(spec, nil, openstack.Kind().Declaration(&spec.System))
	want := eviction.Problem{
		Path: "spec.roles[0].evict.prepare[0].name", Message: "step EvacuateServers presumes that the node is proven off: name it in lost.prepare alone",
	}
	if !slices.Contains(problems, want) || slices.ContainsFunc(problems, func(p eviction.Problem) bool { return strings.Contains(p.Path, "lost") }) {
		t.Errorf("%+v", problems)
	}
}
