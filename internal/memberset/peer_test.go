package memberset

import (
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
)

// templateOfPeer is a pod template of one container with this in its spec beside.
func templateOfPeer(fields string) []byte {
	return []byte(`{"metadata":{"labels":{"app":"kv"}},"spec":{` + fields + `"containers":[{"name":"etcd","image":"etcd"}]}}`)
}

// peerUpdates are the cases of the peer's tests of what is replaced and what is made anew, by their numbers. Those that are sentences of source 002 as well are there.
var peerUpdates = []struct {
	name   string
	change func(w *world)
	want   []string
}{
	{"8/82 nothing has changed", func(*world) {}, nil},
	{"8/82 it is marked already", func(w *world) {
		w.in.Set.Spec.IDPrefix = "b"
		w.mark("kv-member-1")
		w.step(-1)
	}, []string{"mark kv-member-2"}},
	{"8/83 a prefix", func(w *world) { w.in.Set.Spec.IDPrefix = "b" }, []string{"mark kv-member-1", "mark kv-member-2"}},
	{"8/85 two processes in a pod", func(w *world) { w.in.Kind.Several, w.group().MembersPerPod = true, 2 }, []string{"mark kv-member-1", "mark kv-member-2"}},
	{"8/85 two processes in each pod of another group", func(w *world) {
		other := *w.group()
		w.in.Kind.Several, other.Name, other.Replicas, other.MembersPerPod = true, "log", new(int32), 2
		w.in.Set.Spec.Groups = append(w.in.Set.Spec.Groups, other)
	}, nil},
	{"8/86 another node selector", func(w *world) { w.group().Template.Raw = templateOfPeer(`"nodeSelector":{"a":"b"},`) }, []string{"mark kv-member-1", "mark kv-member-2"}},
	{"8/86 a live node selector that is another, and the hash is not", func(w *world) {
		w.podNamed("kv-member-1").Spec.NodeSelector = map[string]string{"a": "b"}
	}, nil},
	{"8/88 another template, Replace", func(w *world) {
		w.image("etcd:2")
		w.in.Set.Spec.UpdateStrategy.Type = v1alpha1.UpdateReplace
	}, []string{"mark kv-member-1", "mark kv-member-2"}},
	{"8/88 another template, the transaction system only: storage", func(w *world) {
		w.image("etcd:2")
		w.in.Kind.Replaced = []string{"foundationdb-log"}
	}, []string{"evictPod kv-member-1"}},
	{"8/88 another template, the transaction system only: log", func(w *world) {
		w.image("etcd:2")
		w.in.Kind.Replaced = []string{w.group().Role}
	}, []string{"mark kv-member-1", "mark kv-member-2"}},
	{"8/89 a claim of another name", func(w *world) { w.group().VolumeClaimTemplates[0].Name = "disk" }, []string{"mark kv-member-1", "mark kv-member-2"}},
	{"8/89 a claim of another hash", func(w *world) {
		w.in.Claims[0].Made = "other"
	}, []string{"mark kv-member-1"}},
	{"8/91 another fsGroup, and the set does not say so", func(w *world) {
		w.group().Template.Raw = templateOfPeer(`"securityContext":{"fsGroup":9},`)
	}, []string{"evictPod kv-member-1"}},
	{"8/91 another fsGroup, and the set says so", func(w *world) {
		w.group().Template.Raw = templateOfPeer(`"securityContext":{"fsGroup":9},`)
		w.in.Set.Spec.UpdateStrategy.Replace.AlsoOn = []v1alpha1.TemplateChange{v1alpha1.FileOwnership}
	}, []string{"mark kv-member-1", "mark kv-member-2"}},
	{"8/91 a live fsGroup that is another, and the hash is not", func(w *world) {
		w.in.Set.Spec.UpdateStrategy.Replace.AlsoOn = []v1alpha1.TemplateChange{v1alpha1.FileOwnership}
		w.podNamed("kv-member-1").Spec.SecurityContext = nil
	}, nil},
	{"8/94 a live image that is another, and the hash is not", func(w *world) { w.podNamed("kv-member-1").Spec.Containers[0].Image = "other" }, nil},
	{"8/122 a toleration", func(w *world) {
		w.group().Template.Raw = templateOfPeer(`"tolerations":[{"operator":"Exists"}],`)
	}, []string{"evictPod kv-member-1"}},
	{"8/125 a node selector has no pod made anew", func(w *world) {
		w.group().Template.Raw = templateOfPeer(`"nodeSelector":{"a":"b"},`)
		w.in.Set.Spec.UpdateStrategy.Replace.MaxInFlight = new(int32)
	}, nil},
	{"8/148 an environment variable", func(w *world) {
		w.group().Template.Raw = []byte(`{"metadata":{"labels":{"app":"kv"}},"spec":{"containers":[{"name":"etcd","image":"etcd","env":[{"name":"A","value":"b"}]}]}}`)
	}, []string{"evictPod kv-member-1"}},
	{"8/148 an environment variable, and no pod is made anew", func(w *world) {
		w.image("etcd:2")
		w.in.Set.Spec.UpdateStrategy.Recreate.Batch = v1alpha1.BatchNone
	}, nil},
	{"8/149 a version, Recreate keeps the names", func(w *world) {
		w.image("etcd:2")
		w.in.Set.Spec.UpdateStrategy.Type = v1alpha1.UpdateRecreate
		w.in.Kind.Replaced = []string{w.group().Role}
	}, []string{"evictPod kv-member-1"}},
	{"8/149 a version, the transaction system only: storage keeps its names", func(w *world) {
		w.image("etcd:2")
		w.in.Kind.Replaced = []string{"foundationdb-log"}
	}, []string{"evictPod kv-member-1"}},
	{"8/149 a version, Replace has all get others", func(w *world) {
		w.image("etcd:2")
		w.in.Set.Spec.UpdateStrategy.Type = v1alpha1.UpdateReplace
	}, []string{"mark kv-member-1", "mark kv-member-2"}},
}

func TestPeerUpdates(t *testing.T) {
	for _, test := range peerUpdates {
		t.Run(test.name, func(t *testing.T) {
			w := formed(t, plain, 2)
			for i := range w.in.Set.Status.Members { // in a zone of its own each
				m := &w.in.Set.Status.Members[i]
				m.Zone = fmt.Sprintf("z%d", i)
				w.podNamed(m.ID).Zone = m.Zone
			}
			test.change(w)
			wants(t, w, test.want...)
		})
	}
}

// peerBatches are the cases of which pods go at the same time, of four, two in each zone, that are outdated.
var peerBatches = []struct {
	name   string
	change func(w *world)
	want   int
}{
	{"8/119 Zone", func(*world) {}, 2},
	{"8/119 ProcessGroup", func(w *world) { w.in.Set.Spec.UpdateStrategy.Recreate.Batch = v1alpha1.BatchMember }, 1},
	{"8/119 All", func(w *world) { w.in.Set.Spec.UpdateStrategy.Recreate.Batch = v1alpha1.BatchAll }, 4},
	{"8/119 None", func(w *world) { w.in.Set.Spec.UpdateStrategy.Recreate.Batch = v1alpha1.BatchNone }, 0},
	{"8/119 a mode that there is not, which the schema refuses", func(w *world) { w.in.Set.Spec.UpdateStrategy.Recreate.Batch = "banana" }, 0},
	{"8/121 a pod that is pending", func(w *world) {
		w.podNamed("kv-member-1").Ready, w.podNamed("kv-member-1").Node, w.memberNamed("kv-member-1").Zone = false, "", "za"
	}, 2},
	{"8/121 a pod that fails, and All of one zone", func(w *world) {
		w.in.Set.Spec.UpdateStrategy.Recreate = v1alpha1.RecreationTerms{Batch: v1alpha1.BatchAll, MaxUnavailableZones: new(int32(1))}
		w.podNamed("kv-member-3").Ready = false
	}, 2},
	{"8/121 a pod that is being deleted", func(w *world) { w.podNamed("kv-member-1").Terminating = true }, 1},
	{"8/121 a pod that is missing", func(w *world) { w.gone("kv-member-1") }, 1},
}

func TestPeerBatches(t *testing.T) {
	for _, test := range peerBatches {
		t.Run(test.name, func(t *testing.T) {
			w := zoned(t, v1alpha1.BatchZone)
			test.change(w)
			r := Decide(w.in)
			evicted := slices.DeleteFunc(kinds(r), func(kind string) bool { return kind[:5] != "evict" })
			if len(evicted) != test.want {
				t.Errorf("%v go, not %d: %+v", evicted, test.want, r.Status.Blockers)
			}
		})
	}
}

// peerSets are the cases about a set as a whole.
var peerSets = []struct {
	name  string
	holds func(t *testing.T)
}{
	{"8/62 an id that is being removed is given to none", func(t *testing.T) {
		t.Helper()
		w := formed(t, emptying, 3)
		w.goes("kv-member-3", v1alpha1.RemovalRemoving)
		w.step(-1)
		if ids := w.ids(); !slices.Contains(ids, "kv-member-4") || len(ids) != 4 {
			t.Errorf("members %v", ids)
		}
	}},
	{"8/77 a member for which a request stands is marked, and emptied", func(t *testing.T) {
		t.Helper()
		w := formed(t, emptying, 3)
		w.mark("kv-member-1")
		w.step(-1)
		if r := w.memberNamed("kv-member-1").Removal; r == nil || r.Step != v1alpha1.RemovalGrowing {
			t.Errorf("its removal is %+v", r)
		}
	}},
	{"8/80 a member without a pod keeps its zone, until another one is on a node", func(t *testing.T) {
		t.Helper()
		w := formed(t, plain, 2)
		before := w.memberNamed("kv-member-1").Zone
		w.gone("kv-member-1")
		w.step(-1)
		if zone := w.memberNamed("kv-member-1").Zone; zone != before || before == "" {
			t.Errorf("it is in zone %q, and was in %q", zone, before)
		}
		w.pass()
		w.podNamed("kv-member-1").Zone = "another"
		w.step(-1)
		if zone := w.memberNamed("kv-member-1").Zone; zone != "another" {
			t.Errorf("it is in zone %q", zone)
		}
	}},
	{"8/116 of two members in different zones one goes, and the next one after the interval", func(t *testing.T) {
		t.Helper()
		w := twoMayGo(t, v1alpha1.BatchZone)
		if n := w.removing(); n != 1 {
			t.Errorf("%d go", n)
		}
	}},
	{"8/116 All: both go, whatever the interval", func(t *testing.T) {
		t.Helper()
		w := twoMayGo(t, v1alpha1.BatchAll)
		if n := w.removing(); n != 2 {
			t.Errorf("%d go", n)
		}
	}},
	{"8/116 one whose pod terminates holds the other for the interval, and both leave the status", func(t *testing.T) {
		t.Helper()
		w := twoMayGo(t, v1alpha1.BatchZone)
		at := slices.IndexFunc(w.in.Set.Status.Members, func(m v1alpha1.SetMember) bool { return leaving(&m) })
		p := w.podNamed(w.in.Set.Status.Members[at].ID)
		p.Terminating, w.lost[p.Node] = true, true
		if r := w.step(-1); w.removing() != 1 || !slices.Contains(reasons(&r), string(RemovalWaits)) {
			t.Errorf("within the interval %d go: %+v", w.removing(), r.Status.Blockers)
		}
		w.clock = w.clock.Add(time.Minute)
		if w.step(-1); w.removing() != 2 {
			t.Errorf("after the interval %d go", w.removing())
		}
		w.lost = map[string]bool{}
		if !w.settle() || len(w.ids()) != 3 {
			t.Errorf("members %v", w.ids())
		}
	}},
	{"8/119 a zone of none of the pods is under maintenance: none goes", func(t *testing.T) {
		t.Helper()
		if gone := goneBeside(t, "z9"); len(gone) > 0 {
			t.Errorf("%v go", gone)
		}
	}},
	{"8/119 the zone of one is, also where another client has begun that: it goes, and no other", func(t *testing.T) {
		t.Helper()
		zone := maintained(t).podNamed("kv-member-2").Zone
		if gone := goneBeside(t, zone); !slices.Equal(gone, []string{"kv-member-2"}) {
			t.Errorf("%v go", gone)
		}
	}},
	{"8/121 a process that is missing while its pod is Ready: its zone is unavailable", func(t *testing.T) {
		t.Helper()
		w := formed(t, emptying, 4)
		for i, id := range w.ids() {
			w.podNamed(id).Zone = "z" + string(rune('a'+i/2))
		}
		w.look()
		w.image("etcd:2")
		wants(t, w, "evictPod kv-member-1", "evictPod kv-member-2")
		w.entryNamed("kv-member-4").Processes = 0
		wants(t, w, "evictPod kv-member-3", "evictPod kv-member-4")
		w.in.Set.Spec.UpdateStrategy.Recreate.Batch = v1alpha1.BatchMember
		wants(t, w, "evictPod kv-member-4")
		w.podNamed("kv-member-4").Made = "" // it is of no other template
		wants(t, w)
		w.in.List = Listing{Unread: "the database is not available"} // whose processes there are is not known
		wants(t, w, "evictPod kv-member-1")
	}},
	{"8/140 storage from 4 to 3: one is excluded, goes, and is included again", func(t *testing.T) {
		t.Helper()
		w := formed(t, emptying, 4)
		w.group().Replicas = new(int32(3))
		if !w.settle() || len(w.ids()) != 3 || w.anyExcluded() {
			t.Errorf("members %v, and excluded is one: %t", w.ids(), w.anyExcluded())
		}
	}},
	{"8/142 a coordinator that is removed", func(t *testing.T) {
		t.Helper()
		w := formed(t, emptying, 4)
		file := w.in.Set.Status.ClusterFile
		w.mark(w.in.Pods[0].Name)
		w.lost[w.in.Pods[0].Node] = true
		for range 30 {
			w.pass()
			w.permit()
			w.step(-1)
		}
		w.lost = map[string]bool{}
		if !w.settle() || w.anyExcluded() || w.in.Set.Status.ClusterFile != w.newest() || len(w.ids()) != 4 {
			t.Errorf("members %v, found by %s, before by %s", w.ids(), w.in.Set.Status.ClusterFile, file)
		}
	}},
	{"8/143 a pod that is stuck: its member stays excluded", func(t *testing.T) {
		t.Helper()
		w := formed(t, emptying, 3)
		w.mark("kv-member-1")
		node := w.podNamed("kv-member-1").Node
		for range 100 {
			w.pass()
			w.permit()
			w.step(-1)
			w.lost[node] = slices.ContainsFunc(w.in.Pods, func(p Pod) bool { return p.Name == "kv-member-1" && p.Terminating })
		}
		if !w.diskOf("kv-member-1").excluded || w.memberNamed("kv-member-1").Removal.Step != v1alpha1.RemovalRemoving {
			t.Errorf("%+v", w.in.Set.Status.Members)
		}
	}},
	{"8/143 a claim that is stuck: its member stays excluded", func(t *testing.T) {
		t.Helper()
		w := formed(t, emptying, 3)
		w.goes("kv-member-1", v1alpha1.RemovalRemoving)
		w.diskOf("kv-member-1").excluded = true
		w.gone("kv-member-1")
		at := slices.IndexFunc(w.in.Claims, func(c Claim) bool { return c.Member == "kv-member-1" })
		w.in.Claims[at].Terminating, w.in.Claims[at].Retained = true, true
		for range 30 {
			w.pass()
			w.step(-1)
		}
		if !w.diskOf("kv-member-1").excluded || w.memberNamed("kv-member-1").Removal.Step != v1alpha1.RemovalRemoving {
			t.Errorf("%+v", w.in.Set.Status.Members)
		}
	}},
	{"8/146 a lost member gets a successor", func(t *testing.T) {
		t.Helper()
		w := formed(t, emptying, 3)
		w.lost[w.podNamed("kv-member-1").Node] = true
		w.mark("kv-member-1")
		for range 30 {
			w.pass()
			w.permit()
			w.step(-1)
		}
		if !slices.Contains(w.ids(), "kv-member-4") {
			t.Errorf("members %v", w.ids())
		}
	}},
	{"8/151 shrinking with one marked already marks no other", func(t *testing.T) {
		t.Helper()
		w := formed(t, plain, 3)
		w.mark("kv-member-2")
		w.group().Replicas = new(int32(2))
		w.step(-1)
		wants(t, w)
	}},
	{"8/151 of two in one zone one goes", func(t *testing.T) {
		t.Helper()
		w := formed(t, plain, 3)
		for i, zone := range []string{"za", "zb", "zb"} {
			w.in.Set.Status.Members[i].Zone, w.in.Pods[i].Zone = zone, zone
		}
		w.in.Set.Status.Members[0].StartTime.Time = w.clock // the youngest is elsewhere
		w.group().Replicas = new(int32(2))
		wants(t, w, "mark kv-member-2")
	}},
	{"8/152 a marked member whose pod is gone gets another, until it is removed", func(t *testing.T) {
		t.Helper()
		w := formed(t, emptying, 3)
		w.mark("kv-member-1")
		w.step(-1)
		w.gone("kv-member-1")
		if !slices.Contains(kinds(w.step(0)), "makePod kv-member-1") {
			t.Error("it gets none")
		}
		w = formed(t, emptying, 3)
		w.goes("kv-member-1", v1alpha1.RemovalRemoving)
		w.gone("kv-member-1")
		if slices.Contains(kinds(w.step(0)), "makePod kv-member-1") {
			t.Error("what goes gets another")
		}
	}},
	{"8/152 a marked member whose claim is gone gets another, until it is removed", func(t *testing.T) {
		t.Helper()
		for _, step := range []v1alpha1.MemberRemovalStep{v1alpha1.RemovalEmptying, v1alpha1.RemovalRemoving} {
			w := formed(t, emptying, 4)
			w.group().Replicas = new(int32(3))
			w.goes("kv-member-1", step)
			w.gone("kv-member-1")
			w.in.Claims = slices.DeleteFunc(w.in.Claims, func(c Claim) bool { return c.Member == "kv-member-1" })
			w.step(0)
			if made := slices.Contains(kinds(w.step(0)), "makeClaim kv-member-1"); made != (step == v1alpha1.RemovalEmptying) {
				t.Errorf("%s: it gets another: %t", step, made)
			}
		}
	}},
}

func TestPeerSets(t *testing.T) {
	for _, test := range peerSets {
		t.Run(test.name, test.holds)
	}
}

// goneBeside are the members of a set whose pods are made anew, for an update, within the time for which another client has a zone under maintenance.
func goneBeside(t *testing.T, zone string) []string {
	t.Helper()
	w := maintained(t)
	before := map[string]types.UID{}
	for i := range w.in.Pods {
		before[w.in.Pods[i].Name] = w.in.Pods[i].UID
	}
	w.image("fdb:2")
	w.another(zone)
	for range zoneTime - 10 {
		w.pass()
		w.evict()
		w.step(-1)
	}
	var gone []string
	for id, uid := range before {
		if p := w.podNamed(id); p.UID != uid {
			gone = append(gone, id)
		}
	}
	slices.Sort(gone)
	return gone
}

// twoMayGo is a set of five members in zones of their own, two of which are replaced and may go, with 60 s between removals.
func twoMayGo(t *testing.T, batch v1alpha1.MemberBatch) *world {
	t.Helper()
	w := formed(t, plain, 5)
	w.in.Set.Spec.Removal.Batch, w.in.Set.Spec.Removal.MinInterval = batch, &metav1.Duration{Duration: time.Minute}
	w.group().Replicas = new(int32(3))
	for i := range w.in.Set.Status.Members {
		m := &w.in.Set.Status.Members[i]
		m.Zone = fmt.Sprintf("z%d", i)
		w.podNamed(m.ID).Zone = m.Zone
	}
	for _, id := range []string{"kv-member-1", "kv-member-2"} {
		w.goes(id, v1alpha1.RemovalReplaced)
		w.permits[id] = true
	}
	w.step(-1)
	w.step(-1)
	return w
}

func (w *world) removing() (n int) {
	for i := range w.in.Set.Status.Members {
		if leaving(&w.in.Set.Status.Members[i]) {
			n++
		}
	}
	return n
}

func (w *world) anyExcluded() bool {
	for _, disk := range w.disks {
		if disk.excluded {
			return true
		}
	}
	return false
}

// peerExceptions are the cases of the peer's tests of sets that cannot be had here.
var peerExceptions = map[string]string{
	"8/92":  "no IP family is said of pods: they have those of the cluster",
	"8/107": "members that go are counted by their steps, not by a pseudo zone: TestRemovalsAreApart",
	"8/109": "the interval has a test of its own: TestMinInterval",
	"8/112": "nothing isolates a member: its policy is suspended",
	"8/113": "a member goes from the status once nothing of it is left: TestAMemberIsEmptiedBeforeItGoes",
	"8/115": "sets of three_data_hall are refused",
	"8/118": "no list blocks removals: spec.removal.batch None, or the set is suspended",
	"8/124": "a process that is absent makes its zone unavailable (8/121); that it is not the former pod's is told by its IP: TestMaintenanceEnds",
	"8/127": "upgrades between versions that do not speak to each other are not done",
	"8/128": "who is waited for is known by the UIDs of pods: package memberset, TestAnUpdateUnderMaintenance",
	"8/145": "no member goes without being emptied; a person breaks the glass of its pod",
}

// Each case of the peer's tests of sets is a row, or an exception.
func TestPeerIsWhole(t *testing.T) {
	var names []string
	for _, test := range peerUpdates {
		names = append(names, test.name)
	}
	for _, test := range peerOwnership {
		names = append(names, "8/95 "+test.name)
	}
	for _, test := range peerBatches {
		names = append(names, test.name)
	}
	for _, test := range peerSets {
		names = append(names, test.name)
	}
	found := map[string]bool{}
	for _, name := range names {
		found[regexp.MustCompile(`8/\d+`).FindString(name)] = true
	}
	for _, n := range []int{
		82, 83, 85, 86, 88, 89, 91, 92, 94, 95, 107, 109, 112, 113, 115, 116, 118, 119, 121, 122, 124, 125, 127, 128, 140, 142, 143, 145, 146, 148, 149, 151, 152,
	} {
		if of := fmt.Sprintf("8/%d", n); found[of] == (peerExceptions[of] != "") {
			t.Errorf("%s is a row: %t, and an exception: %q", of, found[of], peerExceptions[of])
		}
	}
}
