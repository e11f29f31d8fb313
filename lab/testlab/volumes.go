package testlab

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// driver is the CSI driver of the lab's volumes. kwok plays its attacher, so a pod that uses such a volume gets a
// VolumeAttachment from the controller-manager, and that goes away some time after the pod, as on a real cluster.
const driver = "csi.lab.usher.sh"

// Volume makes a persistent volume for the claim of that name, which may be made later (by a StatefulSet, say, as
// <template>-<pod>; its storage class must be ""). It returns the volume's name.
func (l *Lab) Volume(tb testing.TB, ns, claim string) string {
	tb.Helper()
	return l.volumeFor(tb, ns, claim, corev1.PersistentVolumeSource{
		CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: ns + "-" + claim},
	})
}

// FolderVolume makes a folder of this machine, which is made where there is none, a volume for the claim of that name, as Volume does. Pods on all real nodes can
// use it: they are all on this machine.
func (l *Lab) FolderVolume(tb testing.TB, ns, claim, folder string) {
	tb.Helper()
	l.volumeFor(tb, ns, claim, corev1.PersistentVolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: folder, Type: new(corev1.HostPathDirectoryOrCreate)},
	})
}

func (l *Lab) volumeFor(tb testing.TB, ns, claim string, source corev1.PersistentVolumeSource) (name string) {
	tb.Helper()
	name = ns + "-" + claim
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			ClaimRef:                      &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: ns, Name: claim},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        source,
		},
	}
	_, err := l.client.CoreV1().PersistentVolumes().Create(tb.Context(), pv, metav1.CreateOptions{})
	check(tb, "creating persistent volume", err)
	tb.Cleanup(func() {
		_ = l.client.CoreV1().PersistentVolumes().Delete(context.WithoutCancel(tb.Context()), name, metav1.DeleteOptions{})
	})
	return name
}

// Claim returns a claim for a volume that Volume made. It is not sent: use it as a StatefulSet's template or create it.
func Claim(name string) *corev1.PersistentVolumeClaim {
	none := ""
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &none,
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
	}
}

// Mount adds the claim to the pod as a volume.
func Mount(p *corev1.PodSpec, claim string) {
	p.Volumes = append(p.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}})
}
