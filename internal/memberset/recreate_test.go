package memberset

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"usher.sh/usher/api/v1alpha1"
)

// Two of three voters were made anew of a template that cannot start. No rule that asks for a quorum passes any more, so how a pod is let go is said, of those alone.
func TestVotersOfATemplateThatCannotStart(t *testing.T) {
	const glass = `kubectl annotate pod kv-member-1 -n shop usher.sh/break-glass="its template could not start"`
	for name, test := range map[string]struct {
		waiting string
		ready   bool
		want    bool
	}{
		"it cannot start":               {"container etcd: ImagePullBackOff", false, true},
		"it is not Ready for a moment":  {"", false, false},
		"another container cannot, yet": {"container sidecar: CrashLoopBackOff", true, false},
	} {
		for _, asked := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				w := formed(t, listing, 3)
				for _, id := range []string{"kv-member-1", "kv-member-2"} {
					p := w.podNamed(id)
					p.Ready, p.Waiting, p.Asked, p.Zone = test.ready, test.waiting, asked, "z-"+id
				}
				w.image("etcd:2")
				w.in.Set.Spec.UpdateStrategy.Recreate.Batch = v1alpha1.BatchAll
				r := Decide(w.in)
				says := slices.ContainsFunc(r.Status.Blockers, func(b v1alpha1.ReplacementBlocker) bool {
					return strings.HasSuffix(b.Message, "; it does not start: "+test.waiting) && strings.HasSuffix(b.Remedy, glass)
				})
				if says != test.want || strings.Contains(allRemedies(&r.Status), "break-glass") != test.want {
					t.Errorf("it says %+v", r.Status.Blockers)
				}
			})
		}
	}
}

func allRemedies(status *v1alpha1.MemberSetStatus) string {
	var all []string
	for i := range status.Blockers {
		all = append(all, status.Blockers[i].Remedy)
	}
	return strings.Join(all, "\n")
}

// What is asked for, and what was asked for already, comes with the pod that it would be made anew as, which the apiserver has to accept.
func TestAnEvictionComesWithThePodToBe(t *testing.T) {
	w := formed(t, plain, 3)
	w.podNamed("kv-member-1").Asked = true
	w.image("etcd:2")
	w.in.Set.Spec.UpdateStrategy.Recreate.Batch = v1alpha1.BatchAll
	got := map[string]ActionKind{}
	for _, a := range Decide(w.in).Actions {
		if a.Kind == EvictPod || a.Kind == TryPod {
			got[a.Member] = a.Kind
			if a.Pod == nil || a.Pod.Name != a.Name || a.Pod.Spec.Containers[0].Image != "etcd:2" {
				t.Errorf("%s of %s comes with %+v", a.Kind, a.Member, a.Pod)
			}
		}
	}
	if want := map[string]ActionKind{"kv-member-1": TryPod, "kv-member-2": EvictPod, "kv-member-3": EvictPod}; !maps.Equal(got, want) {
		t.Errorf("actions %v, want %v", got, want)
	}
}
