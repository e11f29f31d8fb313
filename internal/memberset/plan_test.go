package memberset

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

// forecast is what a test looks at of one.
type forecast struct {
	Replaced, Removed, Made, Relabelled []string
	Recreated                           [][]string
	Most                                int64 // pods
	Reasons                             []Reason
}

func forecastOf(f *Forecast) forecast {
	got := forecast{Made: f.Made, Relabelled: f.Relabelled, Most: f.Most.Pods().Value()}
	for _, d := range f.Replaced {
		got.Replaced = append(got.Replaced, d.Member+": "+d.Why)
	}
	for _, d := range f.Removed {
		got.Removed = append(got.Removed, d.Member+": "+d.Why)
	}
	for _, b := range f.Recreated {
		got.Recreated = append(got.Recreated, b.Members)
	}
	for i := range f.Blockers {
		got.Reasons = append(got.Reasons, f.Blockers[i].Reason)
	}
	return got
}

// apart is a set of three members of its own zone each.
func apart(t *testing.T, kind Kind) *world {
	t.Helper()
	w := formed(t, kind, 3)
	for i := range w.in.Set.Status.Members {
		m := &w.in.Set.Status.Members[i]
		m.Zone = "z-" + m.ID[len(m.ID)-1:]
		w.podNamed(m.ID).Zone = m.Zone
	}
	return w
}

const first, second, third = "kv-member-1", "kv-member-2", "kv-member-3"

// A plan names what comes of a change, and how many pods there are at once at most.
func TestPlan(t *testing.T) {
	another := ": its pod is of another template"
	all := []string{first + another, second + another, third + another}
	made := []string{"kv-member-4", "kv-member-5", "kv-member-6"}
	for name, test := range map[string]struct {
		change func(w *world)
		want   forecast
	}{
		"nothing":  {func(*world) {}, forecast{Most: 3}},
		"an image": {func(w *world) { w.image("etcd:2") }, forecast{Recreated: [][]string{{first}, {second}, {third}}, Most: 3}},
		"an image, all at once": {func(w *world) {
			w.image("etcd:2")
			w.in.Set.Spec.UpdateStrategy.Recreate.Batch = v1alpha1.BatchAll
		}, forecast{Recreated: [][]string{{first, second, third}}, Most: 3}},
		"an image, two of a zone": {func(w *world) {
			w.image("etcd:2")
			w.in.Set.Status.Members[2].Zone, w.podNamed(third).Zone = "z-1", "z-1"
		}, forecast{Recreated: [][]string{{first, third}, {second}}, Most: 3}},
		"an image, no batch": {func(w *world) {
			w.image("etcd:2")
			w.in.Set.Spec.UpdateStrategy.Recreate.Batch = v1alpha1.BatchNone
		}, forecast{Most: 3, Reasons: []Reason{UpdateDisabled, UpdateDisabled, UpdateDisabled}}},
		"an image, OnDelete": {func(w *world) { w.image("etcd:2"); w.in.Set.Spec.UpdateStrategy.Type = v1alpha1.UpdateOnDelete }, forecast{Most: 3}},
		"an image, Replace": {func(w *world) { w.image("etcd:2"); w.in.Set.Spec.UpdateStrategy.Type = v1alpha1.UpdateReplace }, forecast{
			Replaced: all, Made: made, Most: 6,
		}},
		"an image, Replace, one in flight": { // those that wait to be removed are in flight still
			func(w *world) {
				w.image("etcd:2")
				w.in.Set.Spec.UpdateStrategy = v1alpha1.MemberUpdateStrategy{Type: v1alpha1.UpdateReplace, Replace: v1alpha1.ReplacementTerms{MaxInFlight: new(int32(1))}}
			},
			forecast{Replaced: all, Made: made, Most: 4},
		},
		"an image, Replace, and no removal": {func(w *world) {
			w.image("etcd:2")
			w.in.Set.Spec.UpdateStrategy.Type, w.in.Set.Spec.Removal.Batch = v1alpha1.UpdateReplace, v1alpha1.BatchNone
		}, forecast{Replaced: all, Made: made, Most: 6, Reasons: []Reason{RemovalDisabled, RemovalDisabled, RemovalDisabled}}},
		"removals a minute apart": {func(w *world) {
			w.image("etcd:2")
			w.in.Set.Spec.UpdateStrategy.Type, w.in.Set.Spec.Removal.MinInterval = v1alpha1.UpdateReplace, &metav1.Duration{Duration: 60e9}
		}, forecast{Replaced: all, Made: made, Most: 6}},
		"none may be replaced": {func(w *world) {
			w.image("etcd:2")
			w.in.Set.Spec.UpdateStrategy = v1alpha1.MemberUpdateStrategy{Type: v1alpha1.UpdateReplace, Replace: v1alpha1.ReplacementTerms{MaxInFlight: new(int32(0))}}
		}, forecast{Most: 3, Reasons: []Reason{UpdateWaits, UpdateWaits, UpdateWaits}}},
		"growth": {func(w *world) { w.group().Replicas = new(int32(5)) }, forecast{Made: made[:2], Most: 5}},
		"labels": {func(w *world) {
			w.group().Template.Raw = []byte(`{"metadata":{"labels":{"app":"other"}},"spec":{"containers":[{"name":"etcd","image":"etcd"}]}}`)
		}, forecast{Relabelled: []string{first, second, third}, Most: 3}},
		"labels and an image": {func(w *world) {
			w.group().Template.Raw = []byte(`{"metadata":{"labels":{"app":"other"}},"spec":{"containers":[{"name":"etcd","image":"etcd:2"}]}}`)
		}, forecast{Recreated: [][]string{{first}, {second}, {third}}, Most: 3}},
		"a person's request": {func(w *world) { w.mark(second) }, forecast{
			Replaced: []string{second + ": ReplacementRequest anna-kv-member-2 stands for it already"}, Made: made[:1], Most: 4,
		}},
		"it is suspended":         {func(w *world) { w.image("etcd:2"); w.in.Set.Spec.Suspend = true }, forecast{Most: 3, Reasons: []Reason{Suspended}}},
		"a template that is none": {func(w *world) { w.group().Template.Raw = []byte(`{"spec":{"contaners":[]}}`) }, forecast{Most: 3, Reasons: []Reason{TemplateInvalid}}},
		"a member that is not Ready": {func(w *world) { w.image("etcd:2"); w.podNamed(third).Ready = false }, forecast{
			Recreated: [][]string{{third}, {first}, {second}}, Most: 3,
		}},
	} {
		for _, kind := range []Kind{listing, plain, emptying} {
			t.Run(name+", "+kind.Name, func(t *testing.T) {
				w := apart(t, kind)
				test.change(w)
				before := w.in.Set.DeepCopy()
				f := Plan(Prospect{Input: w.in})
				if diff := cmp.Diff(test.want, forecastOf(&f), cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%s\n%+v", diff, f.Blockers)
				}
				if f.Complete != (len(test.want.Reasons) == 0) {
					t.Errorf("it is said to be complete: %t", f.Complete)
				}
				if diff := cmp.Diff(before, w.in.Set); diff != "" {
					t.Errorf("the input has changed:\n%s", diff)
				}
			})
		}
	}
}

// Shrinking removes the youngest where the zones are alike; a set of etcd does not shrink below three.
func TestPlanOfShrinking(t *testing.T) {
	w := apart(t, plain)
	w.group().Replicas = new(int32(2))
	f := Plan(Prospect{Input: w.in})
	if got := forecastOf(&f); len(got.Removed) != 1 || len(got.Made) != 0 || got.Most != 3 || !f.Complete {
		t.Errorf("it says %+v", got)
	}
	w = apart(t, listing)
	w.group().Replicas = new(int32(2))
	f = Plan(Prospect{Input: w.in})
	if got := forecastOf(&f); len(got.Removed) != 0 || !cmp.Equal(got.Reasons, []Reason{ReplicasUnsafe}) {
		t.Errorf("it says %+v", got)
	}
}

// A set that is not there yet is made, also of a system whose first members form it together.
func TestPlanOfANewSet(t *testing.T) {
	for _, kind := range []Kind{listing, plain, emptying} {
		w := newWorld(kind, 3, t.Fatalf)
		f := Plan(Prospect{Input: w.in})
		if diff := cmp.Diff(forecast{Made: []string{first, second, third}, Most: 3}, forecastOf(&f)); diff != "" || !f.Complete {
			t.Errorf("%s: %s\n%+v", kind.Name, diff, f.Blockers)
		}
		if diff := cmp.Diff([]GroupForecast{{Name: "member", Role: "etcd-member", After: 3}}, f.Groups); diff != "" {
			t.Error(diff)
		}
	}
}

func quotaOf(name string, hard, used corev1.ResourceList) corev1.ResourceQuota {
	return corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.ResourceQuotaStatus{Hard: hard, Used: used}}
}

// What members request is summed over all that there are at once, and set beside what quotas leave.
func TestPlanOfRequests(t *testing.T) {
	w := newWorld(plain, 3, t.Fatalf)
	template := func(cpu string) {
		w.group().Template.Raw = []byte(`{"spec":{"containers":[{"name":"etcd","image":"etcd","resources":{"requests":{"cpu":"` + cpu + `"},"limits":{"memory":"1Gi"}}}]}}`)
	}
	template("500m")
	w.group().VolumeClaimTemplates[0].Spec.Raw = []byte(`{"accessModes":["ReadWriteOnce"],"storageClassName":"fast","resources":{"requests":{"storage":"8Gi"}}}`)
	if !w.settle() {
		t.Fatal("it has not formed")
	}
	storage := map[string]*corev1.PersistentVolumeClaimSpec{}
	for _, c := range w.in.Claims {
		storage[c.Name] = &corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("fast"), Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("8Gi")}},
		}
	}
	template("1")
	w.in.Set.Spec.UpdateStrategy.Replace.AlsoOn = []v1alpha1.TemplateChange{v1alpha1.ResourceIncrease}
	quantity := resource.MustParse
	of := func(resources map[string]string) corev1.ResourceList {
		list := corev1.ResourceList{}
		for name, value := range resources {
			list[corev1.ResourceName(name)] = quantity(value)
		}
		return list
	}
	scoped := quotaOf("scoped", of(map[string]string{"pods": "1"}), nil)
	scoped.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeNotTerminating}
	f := Plan(Prospect{Input: w.in, Storage: storage, Quotas: []corev1.ResourceQuota{
		quotaOf("compute", of(map[string]string{"cpu": "4", "requests.memory": "6Gi", "secrets": "1"}), of(map[string]string{"cpu": "1500m", "requests.memory": "3Gi"})),
		quotaOf("objects", of(map[string]string{"count/pods": "20", "fast.storageclass.storage.k8s.io/requests.storage": "40Gi"}),
			of(map[string]string{"count/pods": "7", "fast.storageclass.storage.k8s.io/requests.storage": "24Gi"})),
		scoped,
	}})
	words := func(list corev1.ResourceList) map[string]string {
		all := map[string]string{}
		for name, q := range list {
			all[string(name)] = q.String()
		}
		return all
	}
	want := map[string]string{
		"pods": "6", "requests.cpu": "4500m", "requests.memory": "6Gi", "limits.memory": "6Gi", "requests.storage": "48Gi", "persistentvolumeclaims": "6",
		"fast.storageclass.storage.k8s.io/requests.storage": "48Gi", "fast.storageclass.storage.k8s.io/persistentvolumeclaims": "6",
	}
	if diff := cmp.Diff(want, words(f.Most)); diff != "" {
		t.Error(diff)
	}
	if got := words(f.After); got["requests.cpu"] != "3" || got["pods"] != "3" || got["requests.storage"] != "24Gi" {
		t.Errorf("in the end there is %v", got)
	}
	exceeded := map[string]bool{}
	for _, q := range f.Quotas {
		exceeded[q.Quota+" "+string(q.Resource)+" "+q.Most.String()] = q.Exceeded
	}
	if diff := cmp.Diff(map[string]bool{
		"compute cpu 4500m": true, "compute requests.memory 6Gi": false, "objects count/pods 10": false, "objects fast.storageclass.storage.k8s.io/requests.storage 48Gi": true,
	}, exceeded); diff != "" {
		t.Error(diff)
	}
}
