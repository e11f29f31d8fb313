package memberset

import (
	"slices"
	"strings"
	"testing"
	"time"

	"usher.sh/usher/api/v1alpha1"
)

// The sentences of source 002 about how members are replaced and recreated, each with what a set does. Those about which members are unhealthy, and when they are replaced for
// that, are in package replacement.
var source002 = []struct {
	number string
	says   string
	holds  func(t *testing.T)
}{
	{"01", "The operator has two different strategies it can use on process groups that are in an undesired state: replacement and deletion. Deletion is also known as (pod) recreation.", func(t *testing.T) {
		t.Helper()
		w := formed(t, plain, 1)
		w.image("etcd:2")
		wants(t, w, "evictPod kv-member-1")
		w.in.Set.Spec.UpdateStrategy.Type = v1alpha1.UpdateReplace
		wants(t, w, "mark kv-member-1")
	}},
	{"02", "In the case of replacement, the operator will create a brand new process group, move data off of the old process group, and delete the resources for the old process group as well as the records of the process group itself.", func(t *testing.T) {
		t.Helper()
		w := formed(t, listing, 3)
		w.mark("kv-member-1")
		if !w.settle() || !slices.Equal(w.ids(), []string{"kv-member-2", "kv-member-3", "kv-member-4"}) {
			t.Errorf("members %v", w.ids())
		}
		if left := w.namesOf("kv-member-1"); len(left) > 0 {
			t.Errorf("left are %v", left)
		}
	}},
	{"03", "In the case of deletion, the operator will delete some or all of the resources for the process group and then create new objects with the same names.", func(t *testing.T) {
		t.Helper()
		w := formed(t, listing, 3)
		before := w.podNamed("kv-member-1").UID
		w.image("etcd:2")
		if !w.settle() || w.podNamed("kv-member-1").UID == before || len(w.in.Claims) != 3 {
			t.Errorf("members %v, claims %v", w.ids(), w.in.Claims)
		}
	}},
	{"04", "A process group is marked for replacement by setting the removalTimestamp on the process group.", func(t *testing.T) {
		t.Helper()
		w := formed(t, listing, 3)
		w.mark("kv-member-2")
		w.step(-1)
		if r := w.memberNamed("kv-member-2").Removal; r == nil || r.StartTime.IsZero() {
			t.Errorf("its removal: %+v", r)
		}
	}},
	{"05", "This setting is used during both replacements and shrinks, and a replacement is modeled as a grow followed by a shrink.", func(t *testing.T) {
		t.Helper()
		w := formed(t, listing, 3)
		w.mark("kv-member-1")
		grown := false
		for range 200 {
			w.pass()
			w.permit()
			w.step(-1)
			grown = grown || len(w.ids()) == 4
			if leaving(&w.in.Set.Status.Members[0]) && !grown {
				t.Fatal("it shrinks before it has grown")
			}
		}
		if !grown || len(w.ids()) != 3 {
			t.Errorf("grown: %t, members %v", grown, w.ids())
		}
	}},
	{"06", "Process groups that are marked for removal are not counted in the number of active process groups when doing a grow, so flagging a process group for removal with no other changes will cause a replacement process to be added.", func(t *testing.T) {
		t.Helper()
		w := formed(t, listing, 3)
		w.mark("kv-member-1")
		w.step(-1)
		if ids := w.ids(); len(ids) != 4 {
			t.Errorf("members %v", ids)
		}
	}},
	{"07", "Flagging a process group for removal when decreasing the desired process count will cause that process group specifically to be removed to accomplish that decrease in process count.", func(t *testing.T) {
		t.Helper()
		w := formed(t, plain, 5)
		w.mark("kv-member-2")
		w.group().Replicas = new(int32(4))
		if !w.settle() || slices.Contains(w.ids(), "kv-member-2") || len(w.ids()) != 4 {
			t.Errorf("members %v", w.ids())
		}
	}},
	{"08", "Decreasing the desired process count without marking anything for removal will cause the operator to choose process groups that should be removed to accomplish that decrease in process count.", func(t *testing.T) {
		t.Helper()
		w := formed(t, plain, 5)
		w.podNamed("kv-member-3").Ready = false // the peer's users ask for the unhealthy ones first
		w.group().Replicas = new(int32(4))
		wants(t, w, "mark kv-member-3")
	}},
	{"09", "In general, when we need to update a pod's spec we will do that by deleting and recreating the pod.", func(t *testing.T) {
		t.Helper()
		w := formed(t, plain, 1)
		w.group().Template.Raw = []byte(`{"metadata":{"labels":{"app":"kv"}},"spec":{"terminationGracePeriodSeconds":9,"containers":[{"name":"etcd","image":"etcd"}]}}`)
		wants(t, w, "evictPod kv-member-1")
	}},
	{"10", "There are some changes that we will roll out by replacing the process group instead, such as changing a volume size.", func(t *testing.T) {
		t.Helper()
		w := formed(t, listing, 3)
		w.group().VolumeClaimTemplates[0].Spec.Raw = []byte(`{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"2Gi"}}}`)
		wants(t, w, "mark kv-member-1", "mark kv-member-2", "mark kv-member-3")
	}},
	{"11", "There is also a flag in the cluster spec called podUpdateStrategy that will cause the operator to always roll out changes to Pod specs by replacement instead of deletion, either for all Pods or only for transaction system Pods.", func(t *testing.T) {
		t.Helper()
		w := formed(t, plain, 2)
		w.image("etcd:2")
		w.in.Set.Spec.UpdateStrategy.Type = v1alpha1.UpdateReplace
		wants(t, w, "mark kv-member-1", "mark kv-member-2")
		w.in.Set.Spec.UpdateStrategy.Type, w.in.Kind.Replaced = "", []string{w.group().Role}
		wants(t, w, "mark kv-member-1", "mark kv-member-2")
	}},
	{"12", "The following changes can only be rolled out through replacement: Changing the process group ID prefix", func(t *testing.T) {
		t.Helper()
		w := formed(t, listing, 3)
		w.in.Set.Spec.IDPrefix = "b"
		if !w.settle() || !slices.Equal(w.ids(), []string{"b-kv-member-4", "b-kv-member-5", "b-kv-member-6"}) {
			t.Errorf("members %v", w.ids())
		}
	}},
	{"13", "Changing the public IP source", func(t *testing.T) {
		t.Helper()
		w := formed(t, listing, 3)
		w.in.Kind.AddressFrom = append(w.in.Kind.AddressFrom, v1alpha1.AddressFromPod)
		w.group().AddressFrom = v1alpha1.AddressFromPod
		wants(t, w, "mark kv-member-1", "mark kv-member-2", "mark kv-member-3")
	}},
	{"14", "Changing the number of storage servers per pod", func(t *testing.T) {
		t.Helper()
		w := formed(t, plain, 2)
		w.in.Kind.Several, w.group().MembersPerPod = true, 2
		wants(t, w, "mark kv-member-1", "mark kv-member-2")
	}},
	{"15", "Changing the node selector", func(t *testing.T) {
		t.Helper()
		w := formed(t, plain, 2)
		w.group().Template.Raw = []byte(`{"metadata":{"labels":{"app":"kv"}},"spec":{"nodeSelector":{"disk":"ssd"},"containers":[{"name":"etcd","image":"etcd"}]}}`)
		wants(t, w, "mark kv-member-1", "mark kv-member-2")
	}},
	{"16", "Changing any part of the PVC spec", func(t *testing.T) {
		t.Helper()
		w := formed(t, plain, 2)
		w.group().VolumeClaimTemplates[0].Spec.Raw = []byte(`{"accessModes":["ReadWriteOncePod"]}`)
		wants(t, w, "mark kv-member-1", "mark kv-member-2")
	}},
	{"17", "Increasing the resource requirements, when the replaceInstancesWhenResourcesChange flag is set.", func(t *testing.T) {
		t.Helper()
		w := formed(t, plain, 1)
		w.group().Template.Raw = []byte(`{"metadata":{"labels":{"app":"kv"}},"spec":{"containers":[{"name":"etcd","image":"etcd","resources":{"requests":{"memory":"1Gi"}}}]}}`)
		wants(t, w, "evictPod kv-member-1")
		w.in.Set.Spec.UpdateStrategy.Replace.AlsoOn = []v1alpha1.TemplateChange{v1alpha1.ResourceIncrease}
		wants(t, w, "mark kv-member-1")
	}},
	{"18", "The number of inflight replacements can be configured by setting maxConcurrentReplacements, per default the operator will replace all misconfigured process groups.", func(t *testing.T) {
		t.Helper()
		w := formed(t, plain, 3)
		w.in.Set.Spec.IDPrefix = "b"
		wants(t, w, "mark kv-member-1", "mark kv-member-2", "mark kv-member-3")
		w.in.Set.Spec.UpdateStrategy.Replace.MaxInFlight = new(int32(1))
		wants(t, w, "mark kv-member-1")
	}},
	{"19", "Depending on the cluster size this can require a quota that is has double the capacity of the actual required resources.", func(t *testing.T) {
		t.Helper()
		w := formed(t, plain, 3)
		w.in.Set.Spec.IDPrefix = "b"
		w.step(-1)
		w.step(-1)
		if n := len(w.ids()); n != 6 {
			t.Errorf("%d members", n)
		}
	}},
	{"19a", "The FoundationDB Kubernetes operator supports to make use of the maintenance mode in FoundationDB.", func(t *testing.T) {
		t.Helper()
		w, p := underMaintenance(t)
		if m := w.in.Set.Status.Maintenance; m == nil || m.Zone != p.Zone {
			t.Errorf("the pod of zone %s is to go, and %+v is under maintenance", p.Zone, m)
		}
	}},
	{"19b", "Using the maintenance mode in FoundationDB will reduce the data distribution and disruption when Storage Pods must be updated.", func(t *testing.T) {
		t.Helper()
		w := maintained(t)
		before := w.podNamed("kv-member-1").UID
		w.image("fdb:2")
		for range 300 {
			w.pass()
			w.evict()
			if r := w.step(-1); ready(&r.Status) && !r.Progress {
				break
			}
			if slices.ContainsFunc(w.ids(), func(id string) bool { return w.diskOf(id).excluded || w.runs(id) && w.diskOf(id).data == 0 }) {
				t.Fatal("data is moved off a member")
			}
		}
		if w.podNamed("kv-member-1").UID == before {
			t.Error("its pod is not made anew")
		}
	}},
	{"19c", "The following addition to the FoundationDBCluster resource will enable the maintenance mode for this cluster: UseMaintenanceModeChecker: true", func(t *testing.T) {
		t.Helper()
		w := maintained(t)
		w.in.Set.Spec.UpdateStrategy.Recreate.Maintenance = "" // which is the default
		w.podNamed("kv-member-1").Wanted = true
		w.step(-1)
		if m := w.in.Set.Status.Maintenance; m != nil {
			t.Errorf("it was not asked for, and %+v", m)
		}
	}},
	{"19d", "Only Pods that are updated (deleted and recreated) will be considered during the maintenance mode.", func(t *testing.T) {
		t.Helper()
		w, p := underMaintenance(t)
		other := w.podNamed("kv-member-2")
		other.Zone, other.Ready, other.Terminating = p.Zone, false, true // it goes for another cause
		w.step(0)
		if m := w.in.Set.Status.Maintenance; m == nil || len(m.Members) != 1 || m.Members[0].ID != p.Name {
			t.Errorf("it waits for %+v", m)
		}
	}},
	{"19e", "Changes in SecurityContext - file ownership ones specifically - can cause problems where FDB is not able to use (read or write) the files. This can potentially lead to an outage and unavailability of the cluster.", func(t *testing.T) {
		t.Helper()
		w := zoned(t, "")
		w.group().Template.Raw = []byte(`{"metadata":{"labels":{"app":"kv"}},"spec":{"securityContext":{"fsGroup":7},"containers":[{"name":"etcd","image":"etcd"}]}}`)
		wants(t, w, "evictPod kv-member-1", "evictPod kv-member-2")
		w.gone("kv-member-1", "kv-member-2") // those of one zone cannot use their files, and no other zone follows them
		wants(t, w)
	}},
	{"20", "If the Operator command line parameter --replace-on-security-context-change is set to true, the Operator can automatically replace pods which have changes to any of the following fields: FSGroup, FSGroupChangePolicy, RunAsGroup, RunAsUser.", func(t *testing.T) {
		t.Helper()
		for _, field := range []string{`"fsGroup":7`, `"fsGroupChangePolicy":"Always"`, `"runAsGroup":7`, `"runAsUser":7`} {
			w := formed(t, plain, 1)
			w.group().Template.Raw = []byte(`{"metadata":{"labels":{"app":"kv"}},"spec":{"securityContext":{` + field + `},"containers":[{"name":"etcd","image":"etcd"}]}}`)
			wants(t, w, "evictPod kv-member-1")
			w.in.Set.Spec.UpdateStrategy.Replace.AlsoOn = []v1alpha1.TemplateChange{v1alpha1.FileOwnership}
			wants(t, w, "mark kv-member-1")
		}
	}},
	{"21", "The operator supports different deletion modes (All, Zone, ProcessGroup). The default deletion mode is Zone.", func(t *testing.T) {
		t.Helper()
		wants(t, zoned(t, ""), "evictPod kv-member-1", "evictPod kv-member-2")
	}},
	{"22", "All will delete all pods at once.", func(t *testing.T) {
		t.Helper()
		wants(t, zoned(t, v1alpha1.BatchAll), "evictPod kv-member-1", "evictPod kv-member-2", "evictPod kv-member-3", "evictPod kv-member-4")
	}},
	{"23", "Zone deletes all Pods in fault domain at once.", func(t *testing.T) {
		t.Helper()
		wants(t, zoned(t, v1alpha1.BatchZone), "evictPod kv-member-1", "evictPod kv-member-2")
	}},
	{"24", "ProcessGroup delete one Pod at a time.", func(t *testing.T) {
		t.Helper()
		wants(t, zoned(t, v1alpha1.BatchMember), "evictPod kv-member-1")
	}},
	{"24a", "Depending on your requirements and the underlying Kubernetes cluster you might choose a different deletion mode than the default.", func(t *testing.T) {
		t.Helper()
		w := zoned(t, "")
		wants(t, w, "evictPod kv-member-1", "evictPod kv-member-2")
		w.in.Set.Spec.UpdateStrategy.Recreate.Batch = v1alpha1.BatchMember
		wants(t, w, "evictPod kv-member-1")
		w.in.Set.Spec.UpdateStrategy.Recreate.Batch = v1alpha1.BatchNone
		wants(t, w)
	}},
	{"25", "The operator allows to limit the number of zones with unavailable pods during deletions. This is configurable through maxZonesWithUnavailablePods in the cluster spec. Which is disabled by default.", func(t *testing.T) {
		t.Helper()
		w := zoned(t, v1alpha1.BatchAll) // for which there is no limit; for the other batches it is 1 by default, where the peer has none
		w.podNamed("kv-member-1").Ready = false
		wants(t, w, "evictPod kv-member-1", "evictPod kv-member-2", "evictPod kv-member-3", "evictPod kv-member-4")
		w.in.Set.Spec.UpdateStrategy.Recreate.MaxUnavailableZones = new(int32(1))
		wants(t, w, "evictPod kv-member-1", "evictPod kv-member-2")
	}},
	{"26", "When enabled the operator will wait before deleting pods if the number of zones with unavailable pods is higher than the configured value and the pods to update do not belong to any of the zones with unavailable pods.", func(t *testing.T) {
		t.Helper()
		w := zoned(t, v1alpha1.BatchZone)
		w.in.Set.Spec.UpdateStrategy.Recreate.MaxUnavailableZones = new(int32(1))
		w.gone("kv-member-3", "kv-member-4")
		wants(t, w)
	}},
	{"26a", "This is useful to avoid deleting too many pods from different zones at once when recreating pods is not fast enough.", func(t *testing.T) {
		t.Helper()
		w := zoned(t, v1alpha1.BatchZone)
		w.in.Set.Spec.UpdateStrategy.Recreate.MaxUnavailableZones = new(int32(1))
		w.gone("kv-member-1", "kv-member-2")
		for range 3 { // however long their pods take
			w.clock = w.clock.Add(time.Hour)
			w.in.Now = w.clock
			wants(t, w)
		}
		w.step(-1)
		w.pass()
		wants(t, w, "evictPod kv-member-3", "evictPod kv-member-4")
	}},
	{"27", "Process groups that are set into the crash loop state with the Buggify setting won't be replaced by the operator.", func(t *testing.T) {
		t.Helper()
		w := formed(t, plain, 1)
		w.in.Set.Annotations = map[string]string{v1alpha1.CrashLoopPrefix + "etcd": "*"}
		for range 4 {
			w.step(-1)
			w.evict()
			w.pass()
		}
		if _, says := w.podNamed("kv-member-1").Annotations[v1alpha1.CrashLoopPrefix+"etcd"]; !says { // by which package replacement passes it over
			t.Error("its pod does not say that it is to crash")
		}
	}},
	{"27a", "If the cluster.Spec.Buggify.EmptyMonitorConf setting is active the operator won't replace any process groups.", func(t *testing.T) {
		t.Helper()
		w := formed(t, configured, 1)
		w.in.Set.Spec.Repair = &v1alpha1.Repair{Mode: v1alpha1.RepairAutomatic}
		w.in.Set.Annotations = map[string]string{v1alpha1.EmptyConfigurationAnnotation: "*"}
		w.step(-1)
		if mode := w.in.Policy.Spec.Repair.Mode; mode != v1alpha1.RepairDisabled { // whether their pods say so yet or not
			t.Errorf("repair is %s", mode)
		}
	}},
}

// TestSource002 is source 002, sentence by sentence.
func TestSource002(t *testing.T) {
	for i, s := range source002 {
		if i > 0 && s.number <= source002[i-1].number || strings.TrimSpace(s.says) == "" {
			t.Errorf("sentence %s", s.number)
		}
		t.Run(s.number, func(t *testing.T) {
			t.Log(s.says)
			s.holds(t)
		})
	}
}

// wants fails unless these actions, of those that change members, follow.
func wants(t *testing.T, w *world, want ...string) {
	t.Helper()
	var got []string
	r := Decide(w.in)
	for _, kind := range kinds(r) {
		if strings.HasPrefix(kind, "mark ") || strings.HasPrefix(kind, "evictPod ") {
			got = append(got, kind)
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("it does %v, not %v: %+v", got, want, r.Status.Blockers)
	}
}

// zoned is a set of four members, two in each zone, whose pods are outdated.
func zoned(t *testing.T, batch v1alpha1.MemberBatch) *world {
	t.Helper()
	w := formed(t, plain, 4)
	for i, id := range w.ids() {
		w.podNamed(id).Zone = "z" + string(rune('a'+i/2))
	}
	w.clock = w.clock.Add(time.Minute)
	w.image("etcd:2")
	w.in.Set.Spec.UpdateStrategy.Recreate.Batch = batch
	return w
}

// namesOf are the names of what there is for a member.
func (w *world) namesOf(id string) []string {
	var names []string
	for i := range w.in.Pods {
		names = append(names, w.in.Pods[i].Name)
	}
	for i := range w.in.Claims {
		names = append(names, w.in.Claims[i].Name)
	}
	for i := range w.in.Services {
		names = append(names, w.in.Services[i].Name)
	}
	return slices.DeleteFunc(names, func(name string) bool { return name != id && !strings.HasSuffix(name, "-"+id) })
}
