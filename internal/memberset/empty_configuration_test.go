package memberset

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
)

// configured is a plain kind whose members say in a variable whether they start.
var configured = Kind{Name: "foundationdb", Configured: true, Environment: func(_ *corev1.PodSpec, _ *v1alpha1.System, start *Start) []corev1.EnvVar {
	if start.Empty {
		return []corev1.EnvVar{{Name: "CONF", Value: "none"}}
	}
	return []corev1.EnvVar{{Name: "CONF", Value: "all"}}
}}

// The members that start no process are those that any annotation names: of the set by id or all, or of their pods.
func TestEmptyConfiguration(t *testing.T) {
	const key, crash = v1alpha1.EmptyConfigurationAnnotation, v1alpha1.CrashLoopPrefix + "etcd"
	for name, test := range map[string]struct {
		set, pod map[string]string // the annotations of the set, and of the pod of kv-member-2
		want     []string          // the members that start no process
		hashes   int               // of how many kinds are the pods
	}{
		"none":                     {nil, nil, nil, 1},
		"one":                      {map[string]string{key: "kv-member-1"}, nil, []string{"kv-member-1"}, 2},
		"all":                      {map[string]string{key: "*"}, nil, []string{"kv-member-1", "kv-member-2", "kv-member-3"}, 1},
		"its pod":                  {nil, map[string]string{key: ""}, []string{"kv-member-2"}, 2},
		"the union":                {map[string]string{key: "kv-member-3, kv-member-1"}, map[string]string{key: "anna"}, []string{"kv-member-1", "kv-member-2", "kv-member-3"}, 1},
		"what a set said of a pod": {nil, map[string]string{key: bySet}, nil, 1},
		"beside a crash loop":      {map[string]string{key: "kv-member-1", crash: "kv-member-1,kv-member-3"}, nil, []string{"kv-member-1"}, 3},
	} {
		for _, strategy := range []v1alpha1.MemberUpdateType{v1alpha1.UpdateRecreate, v1alpha1.UpdateReplace, v1alpha1.UpdateOnDelete} {
			t.Run(name+" "+string(strategy), func(t *testing.T) {
				w := formed(t, configured, 3)
				w.in.Set.Spec.UpdateStrategy.Type = strategy
				w.in.Set.Annotations = test.set
				w.podNamed("kv-member-2").Annotations = merged(w.podNamed("kv-member-2").Annotations, test.pod)
				if !w.settle() {
					t.Fatalf("it waits: %+v", w.in.Set.Status.Blockers)
				}
				var empty, hashes []string
				for i := range w.in.Pods {
					p := &w.in.Pods[i]
					if p.Spec.Containers[0].Env[0].Value == "none" {
						empty = append(empty, p.Name)
						if _, says := p.Annotations[key]; !says {
							t.Errorf("%s does not say so, by which package replacement passes it over", p.Name)
						}
					}
					if !slices.Contains(hashes, p.Made) {
						hashes = append(hashes, p.Made)
					}
				}
				if slices.Sort(empty); !slices.Equal(empty, test.want) || len(hashes) != test.hashes {
					t.Errorf("%v start no process, and pods are of %v", empty, hashes)
				}
				w.in.Set.Annotations = nil
				delete(w.podNamed("kv-member-2").Annotations, key)
				if !w.settle() || slices.ContainsFunc(w.in.Pods, func(p Pod) bool { return p.Spec.Containers[0].Env[0].Value == "none" || strings.Contains(p.Made, "+") }) {
					t.Error("taken off, it has not made all pods anew as they were")
				}
			})
		}
	}
}

// A pod that starts no process goes in the batches of an update, by the rules of its role.
func TestEmptyConfigurationInBatches(t *testing.T) {
	w := formed(t, configured, 4)
	for i, id := range w.ids() {
		w.podNamed(id).Zone = "z" + string(rune('a'+i/2))
	}
	w.in.Set.Annotations = map[string]string{v1alpha1.EmptyConfigurationAnnotation: "*"}
	wants(t, w, "evictPod kv-member-1", "evictPod kv-member-2")
}

// A pod that starts no process may be Ready all the same: others go once the system has its process again, and what keeps it from that is said.
func TestEmptyConfigurationOfAReadyPod(t *testing.T) {
	kind := emptying
	kind.Configured, kind.Environment = true, configured.Environment
	w := formed(t, kind, 4)
	for i, id := range w.ids() {
		w.podNamed(id).Zone = "z" + string(rune('a'+i/2))
	}
	w.in.Set.Annotations = map[string]string{v1alpha1.EmptyConfigurationAnnotation: "*"}
	w.look()
	wants(t, w, "evictPod kv-member-1", "evictPod kv-member-2")
	for _, id := range []string{"kv-member-1", "kv-member-2"} { // they were made anew
		w.podNamed(id).Made += "+" + noProcess
		w.entryNamed(id).Processes = 0
	}
	wants(t, w)
	r := Decide(w.in)
	at := slices.IndexFunc(r.Status.Blockers, func(b v1alpha1.ReplacementBlocker) bool { return strings.HasPrefix(b.Message, "pod kv-member-3 ") })
	if at < 0 || !strings.HasSuffix(r.Status.Blockers[at].Remedy, "to have it start: kubectl annotate memberset kv -n shop usher.sh/empty-configuration-") {
		t.Errorf("it says %+v", r.Status.Blockers)
	}
}

// Where no configuration says which processes start, none can be empty: the set says so, and nothing changes.
func TestEmptyConfigurationIsRefused(t *testing.T) {
	for _, kind := range []Kind{listing, plain} {
		for name, annotate := range map[string]func(w *world){
			"the set's": func(w *world) { w.in.Set.Annotations = map[string]string{v1alpha1.EmptyConfigurationAnnotation: "*"} },
			"a pod's":   func(w *world) { w.podNamed("kv-member-1").Annotations[v1alpha1.EmptyConfigurationAnnotation] = "" },
		} {
			t.Run(kind.Name+", "+name, func(t *testing.T) {
				w := formed(t, kind, 3)
				w.in.Set.Spec.Repair = &v1alpha1.Repair{Mode: v1alpha1.RepairAutomatic}
				if !w.settle() {
					t.Fatal("it waits")
				}
				annotate(w)
				w.step(-1) // the status says what the pod does
				r := w.step(-1)
				if len(r.Actions) > 0 || len(r.Status.Blockers) != 1 || r.Status.Blockers[0].Reason != string(NotConfigured) {
					t.Errorf("it does %v, and says %+v", kinds(r), r.Status.Blockers)
				}
			})
		}
	}
}
