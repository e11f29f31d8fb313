package memberset

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
)

// The members that crash are those that any annotation names: of the set by id or all, or of their pods (source 002, Buggify).
func TestCrashLoop(t *testing.T) {
	const etcd, sidecar = v1alpha1.CrashLoopPrefix + "etcd", v1alpha1.CrashLoopPrefix + "sidecar"
	for name, test := range map[string]struct {
		set map[string]string
		pod string // of kv-member-2, the container that its annotation names
		// crash are the members whose pods are made anew, and never made so that they would start.
		crash []string
	}{
		"none":               {nil, "", nil},
		"one":                {map[string]string{etcd: "kv-member-1"}, "", []string{"kv-member-1"}},
		"two":                {map[string]string{etcd: "kv-member-1, kv-member-3"}, "", []string{"kv-member-1", "kv-member-3"}},
		"all":                {map[string]string{etcd: "*"}, "", []string{"kv-member-1", "kv-member-2", "kv-member-3"}},
		"its pod":            {nil, "etcd", []string{"kv-member-2"}},
		"the union of all":   {map[string]string{etcd: "kv-member-1", sidecar: "kv-member-3"}, "etcd", []string{"kv-member-1", "kv-member-2", "kv-member-3"}},
		"no container":       {map[string]string{v1alpha1.CrashLoopPrefix + "etdc": "*"}, "etdc", nil},
		"another annotation": {map[string]string{"crash": "*"}, "", nil},
	} {
		for _, strategy := range []v1alpha1.MemberUpdateType{v1alpha1.UpdateRecreate, v1alpha1.UpdateReplace, v1alpha1.UpdateOnDelete} {
			t.Run(name+" "+string(strategy), func(t *testing.T) {
				w := newWorld(plain, 3, t.Fatalf)
				w.group().Template.Raw = []byte(`{"spec":{"containers":[{"name":"etcd","image":"etcd"},{"name":"sidecar","image":"sidecar"}]}}`)
				if !w.settle() {
					t.Fatalf("it has not formed: %+v", w.in.Set.Status)
				}
				w.in.Set.Spec.UpdateStrategy.Type, w.in.Set.Spec.UpdateStrategy.Recreate.Batch = strategy, v1alpha1.BatchAll
				w.in.Set.Annotations = test.set
				if test.pod != "" {
					w.podNamed("kv-member-2").Annotations[v1alpha1.CrashLoopPrefix+test.pod] = ""
				}
				w.step(-1)
				var asked []string
				for i := range w.in.Pods {
					if w.in.Pods[i].Asked {
						asked = append(asked, w.in.Pods[i].Name)
					}
				}
				if r := w.step(-1); test.pod != "" && asked == nil { // what its pod says is written first
					for _, kind := range kinds(r) {
						asked = append(asked, kind[len("evictPod "):])
					}
				}
				if slices.Sort(asked); !slices.Equal(asked, test.crash) {
					t.Errorf("pods %v go", asked)
				}
			})
		}
	}
}

// A pod that crashes says so, for repair, and goes on when its annotation is taken off.
func TestCrashLoopEnds(t *testing.T) {
	w := formed(t, plain, 1)
	w.podNamed("kv-member-1").Annotations[v1alpha1.CrashLoopPrefix+"etcd"] = "anna"
	for range 4 {
		w.step(-1)
		w.evict()
		w.pass()
	}
	p := w.podNamed("kv-member-1")
	if p.Spec.Containers[0].Command[0] != noProgram || p.Annotations[v1alpha1.CrashLoopPrefix+"etcd"] == "" {
		t.Errorf("it starts %v, and says %v", p.Spec.Containers[0].Command, p.Annotations)
	}
	delete(p.Annotations, v1alpha1.CrashLoopPrefix+"etcd")
	if !w.settle() || len(w.podNamed("kv-member-1").Spec.Containers[0].Command) > 0 {
		t.Errorf("it starts %v", w.podNamed("kv-member-1").Spec.Containers[0].Command)
	}
}

// A pod of another template, which OnDelete leaves as it is, crashes all the same where it is to.
func TestCrashLoopOfAnOutdatedPod(t *testing.T) {
	w := formed(t, plain, 3)
	w.in.Set.Spec.UpdateStrategy.Type = v1alpha1.UpdateOnDelete
	w.image("etcd:2")
	wants(t, w)
	w.in.Set.Annotations = map[string]string{v1alpha1.CrashLoopPrefix + "etcd": "kv-member-1"}
	wants(t, w, "evictPod kv-member-1")
}

// Pods that are to crash go zone by zone, and the first never become Ready: what they are kept by is said, and where more may be unavailable they go on.
func TestCrashLoopInBatches(t *testing.T) {
	const etcd = v1alpha1.CrashLoopPrefix + "etcd"
	for name, test := range map[string]struct {
		kind   Kind
		change func(w *world)
		remedy string
	}{
		"all, by the set": {plain, func(w *world) { w.in.Set.Annotations = map[string]string{etcd: "*"} }, "to have it start: kubectl annotate memberset kv -n shop crash-loop.usher.sh/etcd-"},
		"an empty configuration": {configured, func(w *world) {
			w.in.Set.Annotations = map[string]string{v1alpha1.EmptyConfigurationAnnotation: "*"}
		}, "to have it start: kubectl annotate memberset kv -n shop usher.sh/empty-configuration-"},
		"by the pods": {plain, func(w *world) {
			for i := range w.in.Pods {
				w.in.Pods[i].Annotations[etcd] = "anna"
			}
		}, "to have it start: kubectl annotate pod kv-member-1 -n shop crash-loop.usher.sh/etcd-"},
		"for another cause": {plain, func(w *world) { w.image("etcd:2") }, "wait; see the logs of these pods"},
	} {
		t.Run(name, func(t *testing.T) {
			w := formed(t, test.kind, 3)
			for _, id := range w.ids() {
				w.podNamed(id).Zone = "z-" + id
			}
			test.change(w)
			w.step(-1)
			w.step(-1)
			w.gone("kv-member-1")
			w.step(-1) // it is made anew
			w.podNamed("kv-member-1").Node, w.podNamed("kv-member-1").Zone, w.podNamed("kv-member-1").Ready = "n1", "z-kv-member-1", false
			r := Decide(w.in)
			for _, id := range []string{"kv-member-2", "kv-member-3"} {
				at := slices.IndexFunc(r.Status.Blockers, func(b v1alpha1.ReplacementBlocker) bool {
					return b.Reason == string(UpdateWaits) && strings.HasPrefix(b.Message, "pod "+id)
				})
				if at < 0 || !strings.HasSuffix(r.Status.Blockers[at].Remedy, test.remedy) {
					t.Errorf("of %s it says %+v", id, r.Status.Blockers)
				}
			}
			w.in.Set.Spec.UpdateStrategy.Recreate.MaxUnavailableZones = new(int32(2))
			if got := kinds(Decide(w.in)); !slices.Contains(got, "evictPod kv-member-2") {
				t.Errorf("two zones may be unavailable, and it does %v", got)
			}
		})
	}
}

// What has a container crash that there is none of says so, and the set goes on.
func TestCrashLoopOfNoContainer(t *testing.T) {
	const prefix = v1alpha1.CrashLoopPrefix
	unknown := func(object, lacks, takes string) []v1alpha1.ReplacementBlocker {
		return []v1alpha1.ReplacementBlocker{{
			Reason: "ContainerUnknown", Message: "annotations of " + object + ", which begin with crash-loop.usher.sh/, have containers crash that there are none of: " + lacks,
			Remedy: "name one of etcd; and take what is there off: kubectl annotate " + object + " -n shop " + takes,
		}}
	}
	many := map[string]string{}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		many[prefix+name] = "*"
	}
	for name, test := range map[string]struct {
		set map[string]string
		pod string // a container that kv-member-2 names
		all []v1alpha1.ReplacementBlocker
	}{
		"none":           {},
		"one that is":    {set: map[string]string{prefix + "etcd": ""}},
		"one that isn't": {set: map[string]string{prefix + "etdc": "kv-member-1"}, all: unknown("memberset kv", "etdc", "crash-loop.usher.sh/etdc-")},
		"many":           {set: many, all: unknown("memberset kv", "a, b, c, d, e and 2 more", "crash-loop.usher.sh/a-")},
		"of a pod":       {pod: "etdc", all: unknown("pod kv-member-2", "etdc", "crash-loop.usher.sh/etdc-")},
	} {
		t.Run(name, func(t *testing.T) {
			w := formed(t, plain, 3)
			w.in.Set.Annotations = test.set
			if test.pod != "" {
				w.podNamed("kv-member-2").Annotations[prefix+test.pod] = ""
			}
			w.step(-1)
			r := w.step(-1)
			if diff := cmp.Diff(test.all, r.Status.Blockers); diff != "" {
				t.Error(diff)
			}
			if len(r.Actions) > 0 || !Rests(&r.Status) {
				t.Errorf("%v", kinds(r))
			}
		})
	}
}
