package replacement

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"usher.sh/usher/api/v1alpha1"
)

// A volume is set to Retain once, and the next look reads that.
func TestAVolumeIsRetainedOnce(t *testing.T) {
	m := newMember(t, func(m *member) {
		m.request.Status.Step, m.request.Status.Predecessor = v1alpha1.ReplacementWaiting, nil
		m.policy.Spec.Members[0].Provider.StatefulSet.VolumeClaims = v1alpha1.VolumeClaimsRetain
		m.claim.Spec.VolumeName, m.claim.Finalizers, m.claim.DeletionTimestamp = "v", []string{"test/held"}, &metav1.Time{Time: noon}
	})
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v", UID: "v"}}
	volume.Spec.ClaimRef = &corev1.ObjectReference{UID: m.claim.UID}
	if err := m.store.Create(t.Context(), volume); err != nil {
		t.Fatal(err)
	}
	sent := 0
	m.r.Act.Client = interceptor.NewClient(m.store.(client.WithWatch), interceptor.Funcs{
		Patch: func(ctx context.Context, to client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			if _, is := o.(*corev1.PersistentVolume); is {
				sent++
			}
			return to.Patch(ctx, o, patch, options...)
		},
	})
	m.now = noon.Add(1000 * later)
	if _, err := m.r.steps(t.Context(), m.looked(t).request); err != nil || sent != 1 {
		t.Errorf("it is set %d times, %v", sent, err)
	}
}
