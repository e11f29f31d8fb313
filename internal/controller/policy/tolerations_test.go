package policy

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"usher.sh/usher/api/v1alpha1"
)

// patient is a policy whose members stay bound for so many seconds.
func patient(seconds int64, mutate ...func(*v1alpha1.EvictionPolicy)) *v1alpha1.EvictionPolicy {
	return newPolicy("db", append([]func(*v1alpha1.EvictionPolicy){func(p *v1alpha1.EvictionPolicy) {
		p.Generation = seconds
		p.Spec.Roles[0].Tolerations.NotReady = &v1alpha1.Toleration{Seconds: &seconds}
	}}, mutate...)...)
}

// bound has the apiserver's default.
func bound(name string) *corev1.Pod {
	pod := newMember(name, "db")
	pod.Spec.NodeName = "n1"
	pod.Spec.Tolerations = []corev1.Toleration{{
		Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300)),
	}}
	return pod
}

// seconds returns for how long a pod tolerates that its node is not ready.
func (r *rig) seconds(t *testing.T, name string) int64 {
	t.Helper()
	return *r.pod(t, name).Spec.Tolerations[0].TolerationSeconds
}

func (r *rig) pod(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	var pod corev1.Pod
	if err := r.Get(t.Context(), client.ObjectKey{Namespace: "prod", Name: name}, &pod); err != nil {
		t.Fatal(err)
	}
	return &pod
}

// setBack is what an operator does that knows better: the seconds alone, or the record of them as well.
func (r *rig) setBack(t *testing.T, name string, all bool) {
	t.Helper()
	pod := r.pod(t, name)
	pod.Spec.Tolerations[0].TolerationSeconds = new(int64(300))
	if all {
		pod.Annotations = nil
	}
	if err := r.Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
}

// patches counts the writes of pods, and fails those of one.
func patches(writes *int, failing string) interceptor.Funcs {
	return interceptor.Funcs{Patch: func(ctx context.Context, store client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
		if _, isPod := object.(*corev1.Pod); isPod {
			*writes++
		}
		if object.GetName() == failing {
			return errors.New("no answer")
		}
		return store.Patch(ctx, object, patch, options...)
	}}
}

func TestTolerationsOfPodsThatExist(t *testing.T) {
	writes := 0
	r := newRig(t, patches(&writes, ""), patient(15), bound("db-0"), bound("db-1"))
	r.mustLabel(t)
	if writes != 2 || r.seconds(t, "db-0") != 15 || r.seconds(t, "db-1") != 15 {
		t.Errorf("after %d writes they are %d and %d", writes, r.seconds(t, "db-0"), r.seconds(t, "db-1"))
	}
	r.setBack(t, "db-0", false)
	r.setBack(t, "db-1", true)
	r.mustLabel(t)
	if writes != 2 || r.seconds(t, "db-0") != 300 || r.seconds(t, "db-1") != 300 {
		t.Errorf("after %d writes what an operator has set back is %d and %d", writes, r.seconds(t, "db-0"), r.seconds(t, "db-1"))
	}
	r.reconciler = newReconciler(newOptions(r.Client, r.Client), r.Client, r.Client, r.reconciler.events)
	r.mustLabel(t)
	if writes != 3 || r.seconds(t, "db-0") != 300 {
		t.Errorf("after %d writes a process that takes over has %d where there is a record of it", writes, r.seconds(t, "db-0"))
	}
}

func TestTolerationsFollowTheRole(t *testing.T) {
	writes := 0
	r := newRig(t, patches(&writes, ""), patient(15), bound("db-0"))
	r.mustLabel(t)
	var policy v1alpha1.EvictionPolicy
	if err := r.Get(t.Context(), client.ObjectKey{Namespace: "prod", Name: "db"}, &policy); err != nil {
		t.Fatal(err)
	}
	policy.Spec, policy.Generation = patient(60).Spec, 60
	if err := r.Update(t.Context(), &policy); err != nil {
		t.Fatal(err)
	}
	r.mustLabel(t)
	if writes != 2 || r.seconds(t, "db-0") != 60 {
		t.Errorf("after %d writes they are %d", writes, r.seconds(t, "db-0"))
	}
}

// One pod that is refused keeps no other from it.
func TestTolerationsOfOnePodAreRefused(t *testing.T) {
	writes := 0
	r := newRig(t, patches(&writes, "db-0"), patient(15), bound("db-0"), bound("db-1"))
	if _, err := r.label(t); err == nil || r.seconds(t, "db-0") != 300 || r.seconds(t, "db-1") != 15 {
		t.Errorf("%v; they are %d and %d", err, r.seconds(t, "db-0"), r.seconds(t, "db-1"))
	}
}

func TestTolerationsInModeAudit(t *testing.T) {
	writes := 0
	audit := patient(15, func(p *v1alpha1.EvictionPolicy) { p.Spec.Mode = v1alpha1.ModeAudit })
	r := newRig(t, patches(&writes, ""), audit, bound("db-0"))
	r.mustLabel(t)
	if pod := r.pod(t, "db-0"); r.seconds(t, "db-0") != 300 || len(pod.Annotations) > 0 {
		t.Errorf("they are %d, and the annotations %v", r.seconds(t, "db-0"), pod.Annotations)
	}
}

func (r *rig) mustLabel(t *testing.T) {
	t.Helper()
	if _, err := r.label(t); err != nil {
		t.Fatal(err)
	}
}
