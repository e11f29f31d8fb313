package memberset

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"usher.sh/usher/api/v1alpha1"
)

// A plan goes on with the removal of a member of a system that empties its members, how far it ever is, and knows how many pods that takes.
func TestPlanOfEmptying(t *testing.T) {
	stands := []string{first + ": ReplacementRequest anna-kv-member-1 stands for it already"}
	for name, test := range map[string]struct {
		step   v1alpha1.MemberRemovalStep
		change func(w *world)
		want   forecast
	}{
		"too few without it":              {v1alpha1.RemovalGrowing, nil, forecast{Replaced: stands, Made: []string{"kv-member-4"}, Most: 4}},
		"it is being emptied":             {v1alpha1.RemovalEmptying, nil, forecast{Replaced: stands, Made: []string{"kv-member-4"}, Most: 4}},
		"it is empty":                     {v1alpha1.RemovalReplaced, nil, forecast{Replaced: stands, Made: []string{"kv-member-4"}, Most: 4}},
		"its removal has begun":           {v1alpha1.RemovalRemoving, nil, forecast{Replaced: stands, Made: []string{"kv-member-4"}, Most: 4}},
		"nothing is left of it":           {v1alpha1.RemovalRemoved, func(w *world) { w.gone(first); w.in.Claims = w.in.Claims[1:] }, forecast{Replaced: stands, Made: []string{"kv-member-4"}, Most: 3}},
		"its request was taken back":      {v1alpha1.RemovalRefilling, func(w *world) { w.in.Requests = nil }, forecast{Most: 3}},
		"no more members are asked for":   {v1alpha1.RemovalEmptying, func(w *world) { w.group().Replicas = new(int32(2)) }, forecast{Replaced: stands, Most: 3}},
		"it gets none in its place today": {v1alpha1.RemovalReplaced, func(w *world) { w.in.Set.Spec.Suspend = true }, forecast{Replaced: stands, Most: 3, Reasons: []Reason{Suspended}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := apart(t, emptying)
			w.goes(first, test.step)
			w.in.Requests[len(w.in.Requests)-1].Removing = test.step == v1alpha1.RemovalRemoving || test.step == v1alpha1.RemovalRemoved
			if test.change != nil {
				test.change(w)
			}
			f := Plan(Prospect{Input: w.in})
			if diff := cmp.Diff(test.want, forecastOf(&f), cmpopts.EquateEmpty()); diff != "" || f.Complete != (test.want.Reasons == nil) {
				t.Errorf("%s\n%+v", diff, f.Blockers)
			}
		})
	}
}

// Pods that are made anew while their zone is under maintenance go zone after zone, whatever the batch: one zone is under maintenance at a time.
func TestPlanUnderMaintenance(t *testing.T) {
	for mode, want := range map[v1alpha1.MaintenanceMode][][]string{
		"":                          {{first, second, third}},
		v1alpha1.MaintenanceManaged: {{first, third}, {second}},
	} {
		w := newWorld(maintaining(), 3, t.Fatalf)
		if !w.settle() {
			t.Fatal("it has not formed")
		}
		for i, zone := range []string{"z-1", "z-2", "z-1"} {
			m := &w.in.Set.Status.Members[i]
			m.Zone, w.podNamed(m.ID).Zone = zone, zone
		}
		w.image("fdb:2")
		w.in.Set.Spec.UpdateStrategy.Recreate = v1alpha1.RecreationTerms{Batch: v1alpha1.BatchAll, Maintenance: mode}
		f := Plan(Prospect{Input: w.in})
		if diff := cmp.Diff(forecast{Recreated: want, Most: 3}, forecastOf(&f), cmpopts.EquateEmpty()); diff != "" || !f.Complete {
			t.Errorf("%s: %s\n%+v", mode, diff, f.Blockers)
		}
	}
}

// A system that is not formed yet is begun once its file is written; one whose ConfigMap another has made is not.
func TestPlanOfForming(t *testing.T) {
	w := newWorld(emptying, 3, t.Fatalf)
	w.step(-1) // the members are written down
	f := Plan(Prospect{Input: w.in})
	if diff := cmp.Diff(forecast{Most: 3}, forecastOf(&f), cmpopts.EquateEmpty()); diff != "" || !f.Complete {
		t.Errorf("%s\n%+v", diff, f.Blockers)
	}
	w = newWorld(emptying, 3, t.Fatalf)
	w.in.File = &File{Object: Object{Name: "kv"}, Content: "other:0@10.0.0.1"}
	f = Plan(Prospect{Input: w.in})
	if diff := cmp.Diff(forecast{Reasons: []Reason{NameTaken}}, forecastOf(&f), cmpopts.EquateEmpty()); diff != "" || f.Complete {
		t.Errorf("%s\n%+v", diff, f.Blockers)
	}
}
