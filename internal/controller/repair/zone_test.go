package repair

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
)

// 8/32 of the peer's tests: repair passes over the storage servers of a zone that another client has under maintenance, and over no others.
func TestAZoneThatAnotherClientMaintains(t *testing.T) {
	const id = "db-storage-1" // on node n1
	zone := func(name string) func(*ofSet) { return func(f *ofSet) { f.system.facts["maintenanceZone"] = name } }
	own := func(name string, ids ...string) func(*ofSet) {
		return ofTheSet(func(set *v1alpha1.MemberSet) {
			set.Status.Maintenance = &v1alpha1.ZoneMaintenance{Zone: name}
			for _, id := range ids {
				set.Status.Maintenance.Members = append(set.Status.Maintenance.Members, v1alpha1.MaintainedMember{ID: id, PodUID: types.UID(id)})
			}
		})
	}
	gone := func(f *ofSet) { f.system.members[id]["reports"] = false }
	log := ofTheSet(func(set *v1alpha1.MemberSet) { set.Spec.Groups[0].Name = "log"; set.Status.Members[0].Group = "log" })
	for name, test := range map[string]struct {
		given  []func(*ofSet)
		paused string
	}{
		"none is": {nil, ""},
		"its own": {[]func(*ofSet){zone("n1")}, "zone n1, in which it is, is under maintenance, which another client has begun"},
		"another": {[]func(*ofSet){zone("n2")}, ""},
		"its own, and no rule asks for it": {[]func(*ofSet){zone("n1"), func(f *ofSet) {
			change(f, theSet.Name, &v1alpha1.EvictionPolicy{}, func(policy *v1alpha1.EvictionPolicy) {
				policy.Spec.Roles = []v1alpha1.Role{{Name: "foundationdb-storage", System: "foundationdb", Replace: v1alpha1.Replace{Successor: v1alpha1.SuccessorNewIdentity}}}
			})
		}}, "zone n1, in which it is, is under maintenance, which another client has begun"},
		"its own, and it is a log server":     {[]func(*ofSet){zone("n1"), log}, ""},
		"its set has begun that for others":   {[]func(*ofSet){zone("n1"), own("n1", "db-storage-2")}, ""},
		"its set has begun that for it":       {[]func(*ofSet){zone("n1"), own("n1", id)}, "its MemberSet makes its pod anew while zone n1 is under maintenance"},
		"its set is about to begin another's": {[]func(*ofSet){zone("n1"), own("n2", "db-storage-2")}, "zone n1, in which it is, is under maintenance, which another client has begun"},
		"its system has not answered yet":     {[]func(*ofSet){func(f *ofSet) { f.system.facts = nil }}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newOfSet(t, append([]func(*ofSet){gone}, test.given...)...)
			f.begin(f.store)
			f.at(0)
			var want []string
			if test.paused == "" {
				want = []string{id}
			}
			if diff := cmp.Diff(want, f.at(100*time.Hour), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			policy := &v1alpha1.EvictionPolicy{}
			f.must(f.store.Get(t.Context(), theSet, policy))
			if all := policy.Status.Unhealthy; len(all) == 0 || all[0].ID != id || all[0].Paused != test.paused {
				t.Errorf("%+v", policy.Status.Unhealthy)
			}
		})
	}
}
