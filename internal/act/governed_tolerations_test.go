package act

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/snapshot"
)

func TestTolerationsAreChangedOnThePodThatWasDecidedUpon(t *testing.T) {
	g := governedWorld(t)
	noExecute := func(key string, seconds *int64) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: seconds}
	}
	added := eviction.TolerationChange{
		Edits: []eviction.TolerationEdit{{Insert: true, Toleration: noExecute("a", new(int64(15)))}, {At: 1, Insert: true, Toleration: noExecute("b", nil)}}, Record: "first",
	}
	changed := eviction.TolerationChange{
		Edits: []eviction.TolerationEdit{{Toleration: noExecute("a", nil)}, {At: 1, Toleration: noExecute("b", new(int64(7)))}}, Record: "second",
	}
	before := policycache.Facts(g.pod(t))
	wantCode(t, g.Tolerate(t.Context(), before, added), answers.Accepted)
	want := []corev1.Toleration{noExecute("a", new(int64(15))), noExecute("b", nil)}
	if diff := cmp.Diff(want, g.pod(t).Spec.Tolerations); diff != "" || g.pod(t).Annotations[v1alpha1.TolerationsAnnotation] != "first" {
		t.Errorf("%s%v", diff, g.pod(t).Annotations)
	}
	wantCode(t, g.Tolerate(t.Context(), before, added), answers.Conflict)
	wantCode(t, g.Tolerate(t.Context(), policycache.Facts(g.pod(t)), changed), answers.Accepted)
	want = []corev1.Toleration{noExecute("a", nil), noExecute("b", new(int64(7)))}
	if diff := cmp.Diff(want, g.pod(t).Spec.Tolerations); diff != "" || g.pod(t).Annotations[v1alpha1.TolerationsAnnotation] != "second" {
		t.Errorf("%s%v", diff, g.pod(t).Annotations)
	}
	for _, unknown := range []func(*snapshot.Pod){func(p *snapshot.Pod) { p.UID = "" }, func(p *snapshot.Pod) { p.ResourceVersion = "" }} {
		pod := policycache.Facts(g.pod(t))
		unknown(pod)
		wantCode(t, g.Tolerate(t.Context(), pod, added), answers.Rejected)
	}
}
