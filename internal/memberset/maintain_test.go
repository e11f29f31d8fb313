package memberset

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
)

// maintained is a complete set of three members, each in a zone, of which a zone is under maintenance while pods of it are made anew.
func maintained(t *testing.T) *world {
	t.Helper()
	w := newWorld(maintaining(), 3, t.Fatalf)
	w.in.Set.Spec.UpdateStrategy.Recreate.Maintenance = v1alpha1.MaintenanceManaged
	if !w.settle() {
		t.Fatalf("it is not complete: %+v", w.in.Set.Status)
	}
	return w
}

// underMaintenance is one whose first zone is, for the member there whose eviction was asked for.
func underMaintenance(t *testing.T) (w *world, p *Pod) {
	t.Helper()
	w = maintained(t)
	p = w.podNamed("kv-member-1")
	p.Wanted = true
	w.step(-1)
	w.step(-1)
	w.look()
	if w.upkeep.zone != p.Zone || len(w.in.Set.Status.Maintenance.Members) != 1 {
		t.Fatalf("zone %q is under maintenance, for %+v", w.upkeep.zone, w.in.Set.Status.Maintenance)
	}
	return w, p
}

// One zone after the other is under maintenance, from before its pod goes until another does the work, and the list of whom it waits for stands in the status.
func TestAnUpdateUnderMaintenance(t *testing.T) {
	w := maintained(t)
	w.image("fdb:2")
	var zones []string
	for range 200 {
		w.pass()
		w.evict()
		r := w.step(-1)
		if zone := w.upkeep.zone; zone != "" && !slices.Contains(zones, zone) {
			zones = append(zones, zone)
			if m := w.in.Set.Status.Maintenance; m == nil || m.Zone != zone {
				t.Errorf("zone %s is under maintenance, and the status says %+v", zone, m)
			}
		}
		if ready(&r.Status) && !r.Progress {
			break
		}
	}
	if len(zones) != 3 || w.upkeep.zone != "" || w.in.Set.Status.Groups[0].UpdatedCount != 3 {
		t.Errorf("zones %v were under maintenance, and %q is: %+v", zones, w.upkeep.zone, w.in.Set.Status)
	}
	if slices.ContainsFunc(w.ids(), func(id string) bool { return w.diskOf(id).excluded }) {
		t.Error("a member was emptied")
	}
}

// What a set does about the zone of a pod whose eviction is asked for.
func TestMaintenanceBegins(t *testing.T) {
	for name, test := range map[string]struct {
		given func(w *world, p *Pod)
		want  []string // actions
		says  string
	}{
		"a person asks":               {func(*world, *Pod) {}, []string{"maintain z1"}, "is asked for the maintenance of zone z1"},
		"the set asks, for an update": {func(_ *world, p *Pod) { p.Asked, p.Wanted = true, false }, []string{"maintain z1", "keepPod"}, "zone z1"},
		"none asks":                   {func(_ *world, p *Pod) { p.Wanted = false }, nil, ""},
		"no maintenance is managed":   {func(w *world, _ *Pod) { w.in.Set.Spec.UpdateStrategy.Recreate.Maintenance = "" }, []string{"changePolicy"}, ""},
		"its system knows none":       {func(w *world, _ *Pod) { w.in.Kind.Maintains = nil }, []string{"changePolicy"}, ""},
		"it goes already":             {func(_ *world, p *Pod) { p.Terminating = true }, nil, ""},
		"another takes its place": {func(w *world, p *Pod) {
			p.Pinned, p.Cordoned, p.OnEviction = new(true), true, v1alpha1.PodIsReplacedWhereCordoned
		}, []string{"mark"}, ""},
		"it waits for its successor":        {func(w *world, _ *Pod) { w.mark("kv-member-1"); w.step(0) }, []string{"maintain z1"}, ""},
		"it is emptied":                     {func(w *world, _ *Pod) { w.goes("kv-member-1", v1alpha1.RemovalEmptying) }, nil, ""},
		"it leads to the system":            {func(w *world, _ *Pod) { w.leading = "kv-member-1" }, nil, ""},
		"the system does not answer":        {func(w *world, _ *Pod) { w.mute = true }, nil, ""},
		"another client maintains its zone": {func(w *world, _ *Pod) { w.another("z1") }, nil, ""},
		"another client maintains another":  {func(w *world, _ *Pod) { w.another("z2") }, nil, "zone z2 is under maintenance, which this set has not begun"},
		"it has no process":                 {func(w *world, p *Pod) { w.lost[p.Node] = true }, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := maintained(t)
			p := w.podNamed("kv-member-1")
			p.Zone, p.Wanted = "z1", true
			test.given(w, p)
			var got []string
			for range 2 {
				r := w.step(0)
				for i := range r.Actions {
					got = append(got, strings.TrimSpace(string(r.Actions[i].Kind)+" "+r.Actions[i].Zone))
				}
			}
			got = slices.DeleteFunc(got, func(a string) bool { return strings.HasPrefix(a, "relabel") || strings.HasPrefix(a, "make") })
			slices.Sort(got)
			got = slices.Compact(got)
			slices.Sort(test.want)
			if diff := cmp.Diff(test.want, got); diff != "" && len(test.want)+len(got) > 0 {
				t.Errorf("%s\n%+v", diff, w.in.Set.Status)
			}
			if said := allSaid(&w.in.Set.Status); !strings.Contains(said, test.says) {
				t.Errorf("it says %q", said)
			}
		})
	}
}

func allSaid(status *v1alpha1.MemberSetStatus) string {
	var all []string
	for i := range status.Blockers {
		all = append(all, status.Blockers[i].Message)
	}
	return strings.Join(all, "; ")
}

// A maintenance ends once nothing is waited for any more, and not before.
func TestMaintenanceEnds(t *testing.T) {
	back := func(w *world, p *Pod) {
		p.UID, p.Wanted = "another", false
	}
	for name, test := range map[string]struct {
		given func(w *world, p *Pod)
		want  string // the next action
		list  int    // how many are waited for
		over  bool   // the status does not have it any more
	}{
		"its pod has not gone":                    {func(*world, *Pod) {}, "", 1, false},
		"its pod goes":                            {func(_ *world, p *Pod) { p.Terminating, p.Wanted = true, false }, "", 1, false},
		"another does its work":                   {back, "endMaintenance", 0, false},
		"another does its work, and goes as well": {func(w *world, p *Pod) { back(w, p); p.Wanted = true }, "", 1, false},
		"another is not Ready":                    {func(w *world, p *Pod) { back(w, p); p.Ready = false }, "", 1, false},
		"another has no process yet":              {func(w *world, p *Pod) { back(w, p); w.lost[p.Node] = true }, "", 1, false},
		"the process is still the former pod's":   {func(w *world, p *Pod) { back(w, p); p.IP = "10.9.9.9"; w.at = "10.0.0.1" }, "", 1, false},
		"at a Service, a process that is old": {func(w *world, p *Pod) {
			back(w, p)
			w.serviced(p, 10*time.Minute)
		}, "", 1, false},
		"at a Service, a process that is young": {func(w *world, p *Pod) {
			back(w, p)
			w.serviced(p, time.Second)
		}, "endMaintenance", 0, false},
		"at a Service, a process of unknown age": {func(w *world, p *Pod) {
			back(w, p)
			w.serviced(p, 0)
		}, "", 1, false},
		"its eviction was withdrawn":                 {func(_ *world, p *Pod) { p.Wanted = false }, "endMaintenance", 0, false},
		"it is not managed any more":                 {func(w *world, _ *Pod) { w.in.Set.Spec.UpdateStrategy.Recreate.Maintenance = "" }, "endMaintenance", 0, false},
		"its time is over, and the pod has not gone": {func(w *world, _ *Pod) { w.upkeep.zone = "" }, "maintain", 1, false},
		"its time is over, and the pod is gone":      {func(w *world, p *Pod) { w.upkeep.zone = ""; p.Terminating = true }, "", 0, true},
		"another client has replaced it":             {func(w *world, _ *Pod) { w.another("z9") }, "", 1, false},
		"another client has ended it, and all is back": {func(w *world, p *Pod) {
			back(w, p)
			w.another("")
		}, "", 0, true},
		"another client has replaced it, and all is back": {func(w *world, p *Pod) {
			back(w, p)
			w.another("z9")
		}, "", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			w, p := underMaintenance(t)
			test.given(w, p)
			w.step(0)
			r := w.step(0)
			var got string
			for i := range r.Actions {
				if a := &r.Actions[i]; a.Kind == Maintain || a.Kind == EndMaintenance {
					got = string(a.Kind)
				}
			}
			m := w.in.Set.Status.Maintenance
			if got != test.want || (m == nil) != test.over || m != nil && len(m.Members) != test.list {
				t.Errorf("it does %q, and has %+v", got, m)
			}
			if m != nil && !strings.Contains(allSaid(&w.in.Set.Status), "zone") {
				t.Errorf("it does not say what it waits for: %+v", w.in.Set.Status.Blockers)
			}
		})
	}
}

// The policy says of the groups whose zones are under maintenance that they are, and of no others.
func TestThePolicySaysWhatIsMaintained(t *testing.T) {
	kind := maintaining()
	kind.Maintains = func(g *v1alpha1.MemberGroup) bool { return g.Name == "storage" }
	set := &v1alpha1.MemberSet{Spec: v1alpha1.MemberSetSpec{Groups: []v1alpha1.MemberGroup{{Name: "storage"}, {Name: "log"}}}}
	set.Spec.UpdateStrategy.Recreate.Maintenance = v1alpha1.MaintenanceManaged
	members := PolicyOf(set, &kind).Spec.Members
	if storage, log := members[0].Provider.MemberSet.Maintenance, members[1].Provider.MemberSet.Maintenance; storage != v1alpha1.MaintenanceManaged || log != "" {
		t.Errorf("storage: %q, log: %q", storage, log)
	}
}

// serviced has a member be reached at a Service, and its pod made a moment ago, while its process has run for some time.
func (w *world) serviced(p *Pod, uptime time.Duration) {
	w.memberNamed(p.Name).Shape.AddressFrom = v1alpha1.AddressFromService
	w.in.Services = []Service{{Object{Name: p.Name, Member: p.Name, UID: "s", Ours: true}, "10.1.0.1"}}
	p.Created, w.uptime = w.clock, uptime
}

// A group that is wrong keeps no maintenance going: what waits for it is over when the system has ended it, or once the pods are back, also for repair.
func TestAMaintenanceEndsWhereTheSetIsWrong(t *testing.T) {
	wrong := func(w *world) { w.group().Template.Raw = []byte(`{"spec":{"container":[]}}`) }
	for name, given := range map[string]func(w *world, p *Pod){
		"its pod is back": func(w *world, p *Pod) {
			p.Wanted = false
			wrong(w)
		},
		"its pod is gone": func(w *world, p *Pod) {
			w.gone("kv-member-1")
			wrong(w)
			w.upkeep.zone = ""
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, p := underMaintenance(t)
			given(w, p)
			for range 4 {
				w.step(-1)
			}
			if m := w.in.Set.Status.Maintenance; m != nil || w.upkeep.zone != "" {
				t.Errorf("zone %q is under maintenance, for %+v", w.upkeep.zone, m)
			}
		})
	}
}
