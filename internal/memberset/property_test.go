package memberset

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"usher.sh/usher/api/v1alpha1"
)

// TestPropertySet has a set grow and shrink, and its members be marked, let go, lost and cancelled in any order, by a process that is killed at any action. None
// that does its work goes without its request's leave or before it is empty, one is removed at a time, no id is used twice, nothing is begun anew, and it ends
// with no member excluded.
func TestPropertySet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]Kind{listing, plain, emptying, maintaining()}).Draw(t, "kind")
		w := newWorld(kind, int32(rapid.IntRange(1, 5).Filter(func(n int) bool { return n != 2 || !kind.Lists }).Draw(t, "replicas")), t.Fatalf)
		w.live(t)
		if kind.Lists && len(w.in.Set.Status.Groups) > 0 { // what was refused is set back
			w.in.Set.Spec.Groups[0].Replicas = new((&decision{Input: &w.in}).wanted(&w.in.Set.Spec.Groups[0]))
		}
		w.rests(t, int(*w.in.Set.Spec.Groups[0].Replicas))
	})
}

// TestPropertyPerNode is the same of a set with a member for each of some nodes, which become others: in the end each of them has one, and it is there.
func TestPropertyPerNode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(rapid.SampledFrom([]Kind{plain, emptying, maintaining()}).Draw(t, "kind"), 0, t.Fatalf)
		w.group().Replicas, w.group().PerNode = nil, &v1alpha1.PerNode{NodeSelector: map[string]string{"agent": ""}}
		w.in.Nodes = map[string][]string{"member": {"n1", "n2", "n3"}}
		w.live(t)
		w.cordoned = map[string]bool{}
		for i := range w.in.Pods {
			w.in.Pods[i].Wanted = false
		}
		nodes := w.in.Nodes["member"]
		if !w.rests(t, len(nodes)) {
			return
		}
		for i := range w.in.Set.Status.Members {
			m := &w.in.Set.Status.Members[i]
			at := slices.Index(nodes, m.ForNode)
			if at < 0 || !slices.ContainsFunc(w.in.Pods, func(p Pod) bool { return p.Name == m.ID && p.Node == m.ForNode }) {
				t.Fatalf("%s is for node %q, of %v: %+v", m.ID, m.ForNode, w.in.Nodes["member"], w.in.Pods)
			}
			nodes = slices.Delete(slices.Clone(nodes), at, at+1)
		}
	})
}

// live has anything happen to a set, and then takes away what would keep it from coming to rest.
func (w *world) live(t *rapid.T) {
	w.pinned = rapid.Bool().Draw(t, "pinned")
	if w.in.Kind.Maintains != nil {
		w.in.Set.Spec.UpdateStrategy.Recreate.Maintenance = rapid.SampledFrom([]v1alpha1.MaintenanceMode{v1alpha1.MaintenanceManaged, ""}).Draw(t, "maintenance")
	}
	if rapid.Bool().Draw(t, "complete") && !w.settle() {
		t.Fatal("it is not complete")
	}
	for range rapid.IntRange(0, 60).Draw(t, "steps") {
		w.happen(t)
	}
	w.lost, w.mute = map[string]bool{}, false
	if strings.Contains(string(w.group().Template.Raw), "broken") { // it is corrected
		w.image("etcd")
	}
	if w.upkeep.other { // another client ends what it has begun
		w.another("")
	}
}

// rests fails unless the set comes to rest with as many members as it is to have; false: it is given up, and says how it is begun anew.
func (w *world) rests(t *rapid.T, members int) bool {
	switch rests := w.settle(); {
	case !rests && w.isGivenUp():
		return false
	case !rests:
		t.Fatalf("it has not come to rest: %+v", w.in.Set.Status)
	}
	if n := len(w.in.Set.Status.Members); n != members || len(w.in.Pods) != n || len(w.in.Claims) != n {
		t.Fatalf("%d members, %d pods, %d claims", n, len(w.in.Pods), len(w.in.Claims))
	}
	if s := w.in.Set.Status.Groups[0]; s.UpdatedCount != s.Replicas {
		t.Fatalf("%d of %d members are as their group says", s.UpdatedCount, s.Replicas)
	}
	if w.in.Set.Status.Maintenance != nil || w.upkeep.zone != "" {
		t.Fatalf("zone %s is still under maintenance: %+v", w.upkeep.zone, w.in.Set.Status.Maintenance)
	}
	for id, disk := range w.disks {
		if disk.excluded {
			t.Fatalf("%s is still excluded", id)
		}
	}
	return true
}

func (w *world) happen(t *rapid.T) {
	switch rapid.IntRange(0, 16).Draw(t, "what") {
	case 0:
		if ids := w.ids(); len(ids) > 0 && w.in.Kind.Empties && rapid.Bool().Draw(t, "another client") { // it includes a member
			w.diskOf(rapid.SampledFrom(ids).Draw(t, "included")).excluded = false
		}
		switch {
		case w.in.Set.Status.Formed == nil:
		case w.group().PerNode != nil: // others match
			w.in.Nodes["member"] = rapid.SliceOfNDistinct(rapid.SampledFrom(w.nodes), 1, 4, rapid.ID).Draw(t, "nodes")
		default:
			w.in.Set.Spec.Groups[0].Replicas = new(int32(rapid.IntRange(1, 5).Draw(t, "replicas")))
		}
	case 1:
		if ids := w.ids(); len(ids) > 0 && w.in.Set.Status.Formed != nil {
			w.mark(rapid.SampledFrom(ids).Draw(t, "marked"))
		}
	case 2:
		if len(w.in.Requests) > 0 {
			w.in.Requests[rapid.IntRange(0, len(w.in.Requests)-1).Draw(t, "cancelled")].Deleted = true
		}
	case 3:
		node := rapid.SampledFrom(w.nodes).Draw(t, "node")
		w.lost[node] = !w.lost[node]
		w.mute = rapid.IntRange(0, 3).Draw(t, "mute") == 0
	case 4: // a pod is evicted, or it ends
		if len(w.in.Pods) > 0 {
			p := &w.in.Pods[rapid.IntRange(0, len(w.in.Pods)-1).Draw(t, "pod")]
			p.Finished = rapid.Bool().Draw(t, "finished")
			p.Terminating = p.Terminating || !p.Finished
		}
	case 5:
		if w.permit(); rapid.IntRange(0, 9).Draw(t, "policy") == 0 { // it is deleted
			w.in.Policy = nil
		}
	case 10:
		w.evict()
	case 11: // the template, the claims or the shape of the group change
		w.respecify(t)
	case 13: // a node is drained, or given back
		node := rapid.SampledFrom(w.nodes[:3]).Draw(t, "cordoned")
		w.cordoned[node] = !w.cordoned[node]
		for i := range w.in.Pods {
			if p := &w.in.Pods[i]; p.Node == node {
				p.Wanted, p.Cordoned = w.cordoned[node], w.cordoned[node]
			}
		}
	case 12:
		w.in.Set.Spec.OnEviction = rapid.SampledFrom([]v1alpha1.OnEviction{"", v1alpha1.OnEvictionRecreate, v1alpha1.OnEvictionReplace}).Draw(t, "on eviction")
		u := &w.in.Set.Spec.UpdateStrategy
		u.Type = rapid.SampledFrom([]v1alpha1.MemberUpdateType{"", v1alpha1.UpdateRecreate, v1alpha1.UpdateReplace}).Draw(t, "strategy")
		u.Recreate.Batch = rapid.SampledFrom([]v1alpha1.MemberBatch{"", v1alpha1.BatchAll, v1alpha1.BatchZone, v1alpha1.BatchMember}).Draw(t, "batch")
		w.in.Set.Spec.Removal.Batch = rapid.SampledFrom([]v1alpha1.MemberBatch{"", v1alpha1.BatchAll, v1alpha1.BatchMember}).Draw(t, "removal")
		w.in.Set.Spec.Removal.MinInterval = &metav1.Duration{Duration: rapid.SampledFrom([]time.Duration{0, 5 * time.Second}).Draw(t, "interval")}
	case 14: // another client has a zone under maintenance, or ends that; or the set has zones under maintenance, or no more
		if rapid.Bool().Draw(t, "another client") {
			w.another(rapid.SampledFrom([]string{"", "z1", "z2"}).Draw(t, "zone"))
		} else if w.in.Kind.Maintains != nil {
			w.in.Set.Spec.UpdateStrategy.Recreate.Maintenance = rapid.SampledFrom([]v1alpha1.MaintenanceMode{"", v1alpha1.MaintenanceManaged}).Draw(t, "maintenance")
		}
	case 6:
		w.pass()
	default:
		w.step(rapid.IntRange(-1, 3).Draw(t, "carried out"))
	}
}

func (w *world) respecify(t *rapid.T) {
	g := &w.in.Set.Spec.Groups[0]
	switch rapid.IntRange(0, 4).Draw(t, "changed") {
	case 0:
		images := []string{"etcd", "etcd:2", "etcd:3"}
		if w.in.Kind.File != nil && w.in.Set.Status.Formed == nil {
			images = append(images, "broken")
		}
		image := rapid.SampledFrom(images).Draw(t, "image")
		g.Template.Raw = []byte(`{"metadata":{"labels":{"app":"kv"}},"spec":{"containers":[{"name":"etcd","image":"` + image + `"}]}}`)
	case 1:
		g.Template.Raw = []byte(`{"metadata":{"labels":{"app":"kv","tier":"` + rapid.SampledFrom([]string{"a", "b"}).Draw(t, "tier") + `"}},"spec":{"containers":[{"name":"etcd","image":"etcd"}]}}`)
	case 2:
		if w.in.Set.Status.Formed != nil {
			g.VolumeClaimTemplates[0].Spec.Raw = []byte(`{"accessModes":["ReadWriteOnce"],"storageClassName":"` + rapid.SampledFrom([]string{"a", "b"}).Draw(t, "class") + `"}`)
		}
	case 3:
		if w.in.Set.Status.Formed != nil {
			w.in.Set.Spec.IDPrefix = rapid.SampledFrom([]string{"", "a"}).Draw(t, "prefix")
		}
	case 4: // of a list whose majority is lost it would have to be set back
		if w.in.Set.Status.Formed != nil && !w.in.Kind.Lists {
			g.VolumeClaimTemplates[0].Name = rapid.SampledFrom([]string{"data", "wal"}).Draw(t, "claim")
		}
	}
}
