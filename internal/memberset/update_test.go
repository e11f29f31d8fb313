package memberset

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

func (w *world) group() *v1alpha1.MemberGroup { return &w.in.Set.Spec.Groups[0] }

// image changes what only makes pods outdated.
func (w *world) image(name string) {
	w.group().Template.Raw = []byte(`{"metadata":{"labels":{"app":"kv"}},"spec":{"containers":[{"name":"etcd","image":"` + name + `"}]}}`)
}

// What is changed in a group reaches its members by the way that source 002 has for it.
func TestUpdate(t *testing.T) {
	replace := []string{"mark kv-member-1", "mark kv-member-2", "mark kv-member-3"}
	for name, test := range map[string]struct {
		change func(w *world)
		want   []string
	}{
		"nothing": {func(*world) {}, nil},
		"the order of its fields": {func(w *world) {
			w.group().Template.Raw = []byte(`{"metadata":{"labels":{"app":"kv"}},"spec":{"containers":[{"image":"etcd","name":"etcd"}]},"metadata":{"labels":{"app":"kv"}}}`)
		}, nil},
		"an image":          {func(w *world) { w.image("etcd:2") }, []string{"evictPod kv-member-1"}},
		"an image, Replace": {func(w *world) { w.image("etcd:2"); w.in.Set.Spec.UpdateStrategy.Type = v1alpha1.UpdateReplace }, replace},
		"an image, the group says Replace": {func(w *world) {
			w.image("etcd:2")
			w.in.Set.Spec.UpdateStrategy.Type, w.group().UpdateStrategy.Type = v1alpha1.UpdateRecreate, v1alpha1.UpdateReplace
		}, replace},
		"an image, a role that is replaced":     {func(w *world) { w.image("etcd:2"); w.in.Kind.Replaced = []string{"etcd-member"} }, replace},
		"an image, OnDelete":                    {func(w *world) { w.image("etcd:2"); w.in.Set.Spec.UpdateStrategy.Type = v1alpha1.UpdateOnDelete }, nil},
		"an image, no batch":                    {func(w *world) { w.image("etcd:2"); w.in.Set.Spec.UpdateStrategy.Recreate.Batch = v1alpha1.BatchNone }, nil},
		"a pod that does not say of what it is": {func(w *world) { w.image("etcd:2"); w.podNamed("kv-member-1").Made = "" }, []string{"evictPod kv-member-2"}},
		"the prefix of ids":                     {func(w *world) { w.in.Set.Spec.IDPrefix = "a" }, replace},
		"the source of addresses": {func(w *world) {
			w.in.Kind.AddressFrom = []v1alpha1.AddressSource{v1alpha1.AddressFromPod, v1alpha1.AddressFromService}
		}, replace},
		"members per pod": {func(w *world) { w.in.Kind.Several = true; w.group().MembersPerPod = 2 }, replace},
		"the node selector": {func(w *world) {
			w.group().Template.Raw = []byte(`{"metadata":{"labels":{"app":"kv"}},"spec":{"nodeSelector":{"disk":"ssd"},"containers":[{"name":"etcd","image":"etcd"}]}}`)
		}, replace},
		"the size of a claim": {func(w *world) {
			w.group().VolumeClaimTemplates[0].Spec.Raw = []byte(`{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"2Gi"}}}`)
		}, replace},
		"the labels of a claim": {func(w *world) { w.group().VolumeClaimTemplates[0].Labels = map[string]string{"tier": "a"} }, replace},
		"another claim": {func(w *world) {
			w.group().VolumeClaimTemplates = append(w.group().VolumeClaimTemplates, v1alpha1.VolumeClaimTemplate{Name: "wal", Spec: w.group().VolumeClaimTemplates[0].Spec})
		}, replace},
		"more CPU": {func(w *world) {
			w.group().Template.Raw = []byte(`{"metadata":{"labels":{"app":"kv"}},"spec":{"containers":[{"name":"etcd","image":"etcd","resources":{"requests":{"cpu":"2"}}}]}}`)
		}, []string{"evictPod kv-member-1"}},
		"more CPU, which also replaces": {func(w *world) {
			w.group().Template.Raw = []byte(`{"metadata":{"labels":{"app":"kv"}},"spec":{"containers":[{"name":"etcd","image":"etcd","resources":{"requests":{"cpu":"2"}}}]}}`)
			w.in.Set.Spec.UpdateStrategy.Replace.AlsoOn = []v1alpha1.TemplateChange{v1alpha1.ResourceIncrease}
		}, replace},
		"an image, and more CPU would also replace": {func(w *world) {
			w.image("etcd:2")
			w.in.Set.Spec.UpdateStrategy.Replace.AlsoOn = []v1alpha1.TemplateChange{v1alpha1.ResourceIncrease, v1alpha1.FileOwnership}
		}, []string{"evictPod kv-member-1"}},
		"another user, which also replaces": {func(w *world) {
			w.group().Template.Raw = []byte(`{"metadata":{"labels":{"app":"kv"}},"spec":{"securityContext":{"runAsUser":7},"containers":[{"name":"etcd","image":"etcd"}]}}`)
			w.in.Set.Spec.UpdateStrategy.Replace.AlsoOn = []v1alpha1.TemplateChange{v1alpha1.FileOwnership}
		}, replace},
		"an image, and no policy guards them": {func(w *world) { w.image("etcd:2"); w.in.Policy = nil }, nil},
		"an image, and their policy goes":     {func(w *world) { w.image("etcd:2"); w.in.Policy.Deleted = true }, nil},
		"two may be in flight": {func(w *world) {
			w.in.Set.Spec.IDPrefix = "a"
			w.in.Set.Spec.UpdateStrategy.Replace.MaxInFlight = new(int32(2))
		}, replace[:2]},
		"none may be": {func(w *world) {
			w.in.Set.Spec.IDPrefix = "a"
			w.in.Set.Spec.UpdateStrategy.Replace.MaxInFlight = new(int32(0))
		}, nil},
		"labels": {func(w *world) {
			w.group().Template.Raw = []byte(`{"metadata":{"labels":{"app":"other"}},"spec":{"containers":[{"name":"etcd","image":"etcd"}]}}`)
		}, []string{"relabelPod kv-member-1", "relabelPod kv-member-2", "relabelPod kv-member-3"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := formed(t, listing, 3)
			for i := range w.in.Pods {
				w.in.Pods[i].Zone = "z-" + w.in.Pods[i].Name
			}
			test.change(w)
			r := Decide(w.in)
			got := slices.DeleteFunc(kinds(r), func(k string) bool { return strings.HasPrefix(k, "make") })
			if diff := cmp.Diff(test.want, got); diff != "" && len(test.want)+len(got) > 0 {
				t.Errorf("%s\nblockers: %+v", diff, r.Status.Blockers)
			}
			if len(test.want) > 0 && !strings.HasPrefix(test.want[0], "relabel") && ready(&r.Status) {
				t.Error("it is said to be complete")
			}
		})
	}
}

// What was asked for because of a template is taken back once the template is again what it was.
func TestAnUpdateIsTakenBack(t *testing.T) {
	for name, strategy := range map[string]v1alpha1.MemberUpdateType{"keepPod kv-member-1": v1alpha1.UpdateRecreate, "unmark kv-member-1": v1alpha1.UpdateReplace} {
		t.Run(name, func(t *testing.T) {
			w := formed(t, listing, 3)
			w.in.Set.Spec.UpdateStrategy.Type = strategy
			w.image("etcd:2")
			w.step(1)
			w.image("etcd")
			if got := kinds(Decide(w.in)); !slices.Contains(got, name) {
				w.step(-1)
				if got = kinds(Decide(w.in)); !slices.Contains(got, name) {
					t.Errorf("it does %v", got)
				}
			}
			if !w.settle() || !slices.Equal(w.ids(), []string{"kv-member-1", "kv-member-2", "kv-member-3"}) {
				t.Errorf("in the end there are %v", w.ids())
			}
		})
	}
}

// Pods of one batch go together, and no more zones have unavailable members than may.
func TestBatch(t *testing.T) {
	for name, test := range map[string]struct {
		terms v1alpha1.RecreationTerms
		given func(w *world)
		want  string
	}{
		"a zone":                          {v1alpha1.RecreationTerms{}, func(*world) {}, "1 2"},
		"a member":                        {v1alpha1.RecreationTerms{Batch: v1alpha1.BatchMember}, func(*world) {}, "1"},
		"all":                             {v1alpha1.RecreationTerms{Batch: v1alpha1.BatchAll}, func(*world) {}, "1 2 3 4 5 6"},
		"none":                            {v1alpha1.RecreationTerms{Batch: v1alpha1.BatchNone}, func(*world) {}, ""},
		"all, in two zones":               {v1alpha1.RecreationTerms{Batch: v1alpha1.BatchAll, MaxUnavailableZones: new(int32(2))}, func(*world) {}, "1 2 3 4"},
		"a zone has an unavailable one":   {v1alpha1.RecreationTerms{}, func(w *world) { w.podNamed("kv-member-4").Ready = false }, "4 3"},
		"another zone may":                {v1alpha1.RecreationTerms{MaxUnavailableZones: new(int32(2))}, func(w *world) { w.gone("kv-member-3", "kv-member-4") }, "1 2"},
		"a zone is unavailable":           {v1alpha1.RecreationTerms{}, func(w *world) { w.gone("kv-member-3", "kv-member-4") }, ""},
		"more zones than may":             {v1alpha1.RecreationTerms{MaxUnavailableZones: new(int32(1))}, func(w *world) { w.gone("kv-member-3"); w.podNamed("kv-member-6").Ready = false }, "6 5"},
		"a member, one is unavailable":    {v1alpha1.RecreationTerms{Batch: v1alpha1.BatchMember}, func(w *world) { w.gone("kv-member-3") }, ""},
		"a member, which is unavailable":  {v1alpha1.RecreationTerms{Batch: v1alpha1.BatchMember}, func(w *world) { w.podNamed("kv-member-5").Ready = false }, "5"},
		"a member, two may be":            {v1alpha1.RecreationTerms{Batch: v1alpha1.BatchMember, MaxUnavailableZones: new(int32(2))}, func(w *world) { w.gone("kv-member-6") }, "1"},
		"one is asked to go":              {v1alpha1.RecreationTerms{Batch: v1alpha1.BatchMember}, func(w *world) { w.podNamed("kv-member-5").Asked = true }, ""},
		"zones that are not known differ": {v1alpha1.RecreationTerms{}, func(w *world) { w.nowhere() }, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := formed(t, plain, 6)
			for i, id := range w.ids() { // two in each zone
				w.podNamed(id).Zone = "z" + string(rune('a'+i/2))
			}
			w.image("etcd:2")
			w.in.Set.Spec.UpdateStrategy.Recreate = test.terms
			test.given(w)
			r := Decide(w.in)
			var got []string
			for _, kind := range kinds(r) {
				if id, is := strings.CutPrefix(kind, "evictPod kv-member-"); is {
					got = append(got, id)
				}
			}
			want := strings.Fields(test.want)
			slices.Sort(want)
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" && len(want)+len(got) > 0 {
				t.Errorf("%s\nblockers: %+v", diff, r.Status.Blockers)
			}
			for i := range w.in.Pods { // none waits in silence, also where more zones are unavailable than may be
				if id := w.in.Pods[i].Name; !slices.ContainsFunc(r.Status.Blockers, func(b v1alpha1.ReplacementBlocker) bool { return strings.Contains(b.Message, "pod "+id+" ") }) {
					t.Errorf("of %s is said nothing: %+v", id, r.Status.Blockers)
				}
			}
		})
	}
}

// gone takes the pods of members away, as ones that are being made anew.
func (w *world) gone(ids ...string) {
	for i := range w.in.Pods {
		if p := &w.in.Pods[i]; slices.Contains(ids, p.Name) {
			for j := range w.in.Set.Status.Members {
				if m := &w.in.Set.Status.Members[j]; m.ID == p.Name {
					m.Zone = p.Zone
				}
			}
		}
	}
	w.in.Pods = slices.DeleteFunc(w.in.Pods, func(p Pod) bool { return slices.Contains(ids, p.Name) })
}

func (w *world) nowhere() {
	for i := range w.in.Pods {
		w.in.Pods[i].Node = ""
	}
	for i := range w.in.Set.Status.Members {
		w.in.Set.Status.Members[i].Zone = ""
	}
}

// Removals are as far apart, and as many at once, as the set says.
func TestRemovalsAreApart(t *testing.T) {
	for name, test := range map[string]struct {
		kind  Kind
		terms v1alpha1.MemberRemovalTerms
		zone  string // of the second; the first is in z1
		want  int
	}{
		"a zone":                       {plain, v1alpha1.MemberRemovalTerms{Batch: v1alpha1.BatchZone}, "z1", 2},
		"another zone":                 {plain, v1alpha1.MemberRemovalTerms{Batch: v1alpha1.BatchZone}, "z2", 1},
		"a member":                     {plain, v1alpha1.MemberRemovalTerms{Batch: v1alpha1.BatchMember}, "z1", 1},
		"all":                          {plain, v1alpha1.MemberRemovalTerms{Batch: v1alpha1.BatchAll, MinInterval: &metav1.Duration{Duration: time.Hour}}, "z2", 2},
		"none":                         {plain, v1alpha1.MemberRemovalTerms{Batch: v1alpha1.BatchNone}, "z1", 0},
		"of a list one at a time":      {listing, v1alpha1.MemberRemovalTerms{Batch: v1alpha1.BatchAll}, "z1", 1},
		"the same zone needs no pause": {plain, v1alpha1.MemberRemovalTerms{MinInterval: &metav1.Duration{Duration: time.Hour}}, "z1", 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := formed(t, test.kind, 5)
			w.in.Set.Spec.Removal = test.terms
			for i, id := range []string{"kv-member-1", "kv-member-2"} {
				m := w.memberNamed(id)
				m.Removal = &v1alpha1.MemberRemoval{Request: id, RequestUID: "u", Step: v1alpha1.RemovalReplaced, StartTime: metav1.Time{Time: noon}}
				w.in.Requests = append(w.in.Requests, Request{Name: id, UID: "u", Role: w.group().Role, Member: id, Removing: true})
				w.podNamed(id).Zone = []string{"z1", test.zone}[i]
			}
			w.in.Set.Spec.Groups[0].Replicas = new(int32(3))
			removing := 0
			for _, m := range Decide(w.in).Status.Members {
				if leaving(&m) {
					removing++
				}
			}
			if removing != test.want {
				t.Errorf("%d are removed", removing)
			}
		})
	}
}

// A removal begins no sooner after the last than the set says.
func TestMinInterval(t *testing.T) {
	w := formed(t, plain, 3)
	w.in.Set.Spec.Removal.MinInterval = &metav1.Duration{Duration: time.Minute}
	last := metav1.Time{Time: w.clock}
	w.in.Set.Status.LastRemovalTime = &last
	w.mark("kv-member-1")
	for w.in.Set.Status.Members[0].Removal == nil || !leaving(&w.in.Set.Status.Members[0]) {
		w.pass()
		w.permit()
		if r := w.step(-1); w.clock.Sub(last.Time) > 2*time.Minute {
			t.Fatalf("it is not removed: %+v", r.Status.Blockers)
		}
	}
	if after := w.clock.Sub(last.Time); after < time.Minute || !w.in.Set.Status.LastRemovalTime.After(last.Time) {
		t.Errorf("it is removed after %s", after)
	}
}

// A group with one for each node has members come and go with nodes, and never two on one.
func TestPerNode(t *testing.T) {
	w := newWorld(plain, 0, t.Fatalf)
	w.group().Replicas, w.group().PerNode = nil, &v1alpha1.PerNode{NodeSelector: map[string]string{"agent": ""}}
	w.in.Nodes = map[string][]string{"member": {"n1", "n2"}}
	if !w.settle() || len(w.ids()) != 2 || w.memberNamed("kv-member-1").ForNode != "n1" {
		t.Fatalf("at first: %+v", w.in.Set.Status)
	}
	w.mark("kv-member-1") // its successor comes once it is gone
	if r := w.step(-1); len(r.Status.Members) != 2 {
		t.Errorf("beside one that is marked: %+v", r.Status.Members)
	}
	if !w.settle() || !slices.Equal(w.ids(), []string{"kv-member-2", "kv-member-3"}) || w.memberNamed("kv-member-3").ForNode != "n1" {
		t.Errorf("once it was replaced there are %+v", w.in.Set.Status.Members)
	}
	w.in.Nodes["member"] = []string{"n1", "n5"}
	if r := Decide(w.in); !slices.Contains(kinds(r), "mark kv-member-2") {
		w.step(-1)
		if r := Decide(w.in); !slices.Contains(kinds(r), "mark kv-member-2") {
			t.Errorf("of a node that does not match any more: %v", kinds(r))
		}
	}
	if !w.settle() || !slices.Equal(w.ids(), []string{"kv-member-3", "kv-member-4"}) || w.podNamed("kv-member-4").Spec.Affinity.NodeAffinity.
		RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0] != "n5" {
		t.Errorf("in the end there are %+v", w.in.Set.Status.Members)
	}
}

// A pod that is made anew of a member that waits for its replacement is what it was: where its volume is, and under its id.
func TestAMemberKeepsItsShape(t *testing.T) {
	w := formed(t, listing, 3)
	w.group().Template.Raw = []byte(`{"metadata":{"labels":{"app":"kv"}},"spec":{"nodeSelector":{"disk":"ssd"},"containers":[{"name":"etcd","image":"etcd"}]}}`)
	w.in.Set.Spec.UpdateStrategy.Replace.MaxInFlight = new(int32(0))
	w.gone("kv-member-2")
	r := Decide(w.in)
	at := slices.IndexFunc(r.Actions, func(a Action) bool { return a.Kind == MakePod })
	if at < 0 || len(r.Actions[at].Pod.Spec.NodeSelector) != 0 {
		t.Errorf("it does %+v", kinds(r))
	}
}

// A member that never did its work has nothing to lose: its pod is made anew at once, so that a template that could not start can be corrected.
func TestAMemberThatJoinsIsMadeAnewAtOnce(t *testing.T) {
	w := formed(t, plain, 2)
	w.podNamed("kv-member-1").Zone, w.podNamed("kv-member-2").Zone = "z1", "z2"
	w.group().Replicas = new(int32(4))
	for range 4 { // their pods are made, and never Ready
		w.step(-1)
	}
	w.image("etcd:2")
	w.in.Set.Spec.UpdateStrategy.Recreate.Batch = v1alpha1.BatchMember
	got := kinds(Decide(w.in))
	for _, want := range []string{"deletePod kv-member-3", "deletePod kv-member-4", "evictPod kv-member-1"} {
		if !slices.Contains(got, want) {
			t.Errorf("it does %v, not %s", got, want)
		}
	}
}

// A member that joins may have got its whole part since that was last seen: then its pod goes by the rules of its role. It does not get it while its pod is made anew.
func TestAMemberThatMayHaveJoinedIsEvicted(t *testing.T) {
	const (
		id      = "kv-member-4"
		deleted = "deletePod " + id
		evicted = "evictPod " + id
		admit   = "admit " + id
	)
	unread := func(w *world) { w.in.List.Unread = "no endpoint answers" }
	for name, test := range map[string]struct {
		kind   Kind
		change func(w *world)
		want   []string
	}{
		"it is a learner, and the template stays": {listing, func(w *world) { w.image("etcd") }, []string{admit}},
		"it is a learner":                         {listing, func(*world) {}, []string{deleted}},
		"it is a learner whose pod is let go": {listing, func(w *world) {
			w.image("etcd")
			w.in.Policy.Leaving = []string{id}
		}, nil},
		"it is a learner whose pod ends": {listing, func(w *world) { w.podNamed(id).Terminating = true }, nil},
		"the list is not known":          {listing, unread, []string{evicted}},
		"it is not known, and no policy guards it": {listing, func(w *world) {
			unread(w)
			w.in.Policy = nil
		}, nil},
		"it is not known, and the pod is on no node": {listing, func(w *world) {
			unread(w)
			w.podNamed(id).Node = ""
		}, []string{deleted}},
		"nothing of it runs there yet": {emptying, func(*world) {}, []string{deleted}},
		"a part of it runs there":      {emptying, func(w *world) { w.entryNamed(id).Whole = true }, []string{evicted}},
		"what runs there is not known": {emptying, unread, []string{evicted}},
		"no list says what it does":    {plain, unread, []string{deleted}},
	} {
		t.Run(name, func(t *testing.T) {
			w := joins(t, test.kind, id)
			w.image("etcd:2")
			test.change(w)
			got := slices.DeleteFunc(kinds(Decide(w.in)), func(k string) bool { return !strings.HasSuffix(k, id) })
			if diff := cmp.Diff(test.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// joins is a set of five of which one has started, and does not do its work yet.
func joins(t *testing.T, kind Kind, id string) *world {
	t.Helper()
	w := formed(t, kind, 5)
	w.memberNamed(id).State, w.podNamed(id).Ready = v1alpha1.MemberJoining, false
	if kind.Lists || kind.Empties {
		e := w.entryNamed(id)
		e.Whole, e.Processes = false, 0
	}
	return w
}

func (w *world) entryNamed(id string) *Entry {
	at := slices.IndexFunc(w.in.List.Entries, func(e Entry) bool { return e.Name == id })
	return &w.in.List.Entries[at]
}

// An evicted member is replaced first where its volumes cannot leave its node, which is cordoned, or where its set says so; what was begun for it is taken
// back with the eviction.
func TestEviction(t *testing.T) {
	for name, test := range map[string]struct {
		says             v1alpha1.OnEviction
		pinned, cordoned bool
		pod              string
		replaced         bool
	}{
		"a volume that can follow":            {"", false, true, v1alpha1.PodFollows, false},
		"one that cannot":                     {"", true, true, v1alpha1.PodIsReplacedWhereCordoned, true},
		"one that cannot, and need not":       {"", true, false, v1alpha1.PodIsReplacedWhereCordoned, false},
		"Replace":                             {v1alpha1.OnEvictionReplace, false, false, v1alpha1.PodIsReplaced, true},
		"Recreate, of one that cannot follow": {v1alpha1.OnEvictionRecreate, true, true, v1alpha1.PodRecreates, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(listing, 3, t.Fatalf)
			w.pinned, w.in.Set.Spec.OnEviction = test.pinned, test.says
			if !w.settle() {
				t.Fatalf("it has not formed: %+v", w.in.Set.Status)
			}
			p := w.podNamed("kv-member-2")
			if p.OnEviction != test.pod {
				t.Errorf("the pod says %s", p.OnEviction)
			}
			w.cordoned[p.Node], p.Cordoned, p.Wanted = test.cordoned, test.cordoned, true
			if got := slices.Contains(kinds(Decide(w.in)), "mark kv-member-2"); got != test.replaced {
				t.Errorf("it is replaced: %t", got)
			}
			w.step(-1)
			w.podNamed("kv-member-2").Wanted = false
			w.cordoned = map[string]bool{}
			if !w.settle() || !slices.Equal(w.ids(), []string{"kv-member-1", "kv-member-2", "kv-member-3"}) {
				t.Errorf("once it was withdrawn there are %v", w.ids())
			}
		})
	}
}

// An eviction that was asked for to make a pod anew is taken back once its member is to be replaced.
func TestAnUpdateBecomesAReplacement(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"another strategy": func(w *world) { w.in.Set.Spec.UpdateStrategy.Type = v1alpha1.UpdateReplace },
		"another shape":    func(w *world) { w.in.Set.Spec.IDPrefix = "a" },
		"none may be replaced yet": func(w *world) {
			w.in.Set.Spec.UpdateStrategy.Type, w.in.Set.Spec.UpdateStrategy.Replace.MaxInFlight = v1alpha1.UpdateReplace, new(int32(0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := formed(t, listing, 3)
			w.image("etcd:2")
			w.step(1)
			change(w)
			if got := kinds(Decide(w.in)); !slices.Contains(got, "keepPod kv-member-1") {
				t.Errorf("it does %v", got)
			}
		})
	}
}

// A pod that could be made anew on its node alone, which is cordoned, is not evicted for an update, and keeps no other from it.
func TestAnUpdateOnACordonedNode(t *testing.T) {
	w := newWorld(plain, 3, t.Fatalf)
	w.pinned = true
	if !w.settle() {
		t.Fatalf("it is not complete: %+v", w.in.Set.Status)
	}
	p := w.podNamed("kv-member-1")
	w.image("etcd:2")
	w.step(-1)
	if !p.Asked {
		t.Fatalf("its eviction is not asked for: %+v", w.in.Set.Status.Blockers)
	}
	w.cordoned[p.Node] = true
	for range 60 {
		w.pass()
		w.evict()
		w.step(-1)
	}
	if p = w.podNamed("kv-member-1"); p.Asked || w.in.Set.Status.Groups[0].UpdatedCount != 2 {
		t.Errorf("%d are updated, its eviction is asked for: %t; %+v", w.in.Set.Status.Groups[0].UpdatedCount, p.Asked, w.in.Set.Status.Blockers)
	}
	delete(w.cordoned, p.Node)
	if !w.settle() {
		t.Errorf("once it is uncordoned it waits for %+v", w.in.Set.Status.Blockers)
	}
}

// Where a set is wrong, so that no pod can be made, none is evicted for an update any more.
func TestAnUpdateOfASetThatIsWrong(t *testing.T) {
	for name, wrong := range map[string]func(w *world){
		"its template": func(w *world) { w.group().Template.Raw = []byte(`{"spec":{"container":[]}}`) },
		"its policy":   func(w *world) { w.in.Unread = []Blocker{PolicyWrong("spec.members[0].role", "there is none")} },
	} {
		t.Run(name, func(t *testing.T) {
			w := formed(t, listing, 3)
			w.image("etcd:2")
			w.step(1)
			wrong(w)
			if got := kinds(Decide(w.in)); !slices.Equal(got, []string{"keepPod kv-member-1"}) {
				t.Errorf("it does %v", got)
			}
		})
	}
}
