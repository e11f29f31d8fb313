package testlab

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"usher.sh/usher/lab/await"
)

// provisionerName is what storage classes and volumes name for their provisioner.
const provisionerName = "volumes.lab.usher.sh"

// What a scheduler writes on a claim, and a provisioner on a volume.
const (
	selectedNode  = "volume.kubernetes.io/selected-node"
	provisionedBy = "pv.kubernetes.io/provisioned-by"
)

// LocalVolumes makes a storage class whose volumes are made once a pod that uses them is scheduled, can be used on its node alone and are
// deleted with their claims, as a provisioner of local volumes does, until the test ends. They are folders of this machine, so that kubelets of
// real nodes can mount them.
func (l *Lab) LocalVolumes(tb testing.TB, class string) {
	tb.Helper()
	made := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: provisionerName, VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	_, err := l.client.StorageV1().StorageClasses().Create(tb.Context(), made, metav1.CreateOptions{})
	check(tb, "creating storage class", err)
	p := &provisioner{client: l.client, class: class, dir: filepath.Join(l.cluster.Dir, "volumes", class)}
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		claims := await.Source[*corev1.PersistentVolumeClaim]{Client: l.client.CoreV1().RESTClient(), Resource: "persistentvolumeclaims"}
		provision(ctx, tb, claims, p.makeVolumes)
	})
	running.Go(func() {
		volumes := await.Source[*corev1.PersistentVolume]{Client: l.client.CoreV1().RESTClient(), Resource: "persistentvolumes"}
		provision(ctx, tb, volumes, p.deleteVolumes)
	})
	tb.Cleanup(func() {
		cancel()
		running.Wait()
		_ = l.client.StorageV1().StorageClasses().Delete(context.WithoutCancel(tb.Context()), class, metav1.DeleteOptions{})
		all, err := l.client.CoreV1().PersistentVolumes().List(context.WithoutCancel(tb.Context()), metav1.ListOptions{})
		check(tb, "listing persistent volumes", err)
		for i := range all.Items {
			if all.Items[i].Spec.StorageClassName == class {
				_ = l.client.CoreV1().PersistentVolumes().Delete(context.WithoutCancel(tb.Context()), all.Items[i].Name, metav1.DeleteOptions{})
			}
		}
	})
}

// provision has each change of a source looked at until ctx ends. What fails is tried again with the next change.
func provision[T await.Object](ctx context.Context, tb testing.TB, source await.Source[T], look func(context.Context, []T) error) {
	tb.Helper()
	err := await.Until(ctx, source, func(all []T) bool {
		if err := look(ctx, all); err != nil && ctx.Err() == nil {
			tb.Logf("provisioning volumes: %v", err)
		}
		return false
	})
	if ctx.Err() == nil {
		tb.Errorf("provisioning volumes: %v", err)
	}
}

// provisioner makes and deletes the volumes of one class.
type provisioner struct {
	client kubernetes.Interface
	class  string
	dir    string
}

// makeVolumes makes volumes for claims whose pods are scheduled.
func (p *provisioner) makeVolumes(ctx context.Context, all []*corev1.PersistentVolumeClaim) error {
	var failed []error
	for _, claim := range all {
		node := claim.Annotations[selectedNode]
		if node == "" || claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil || claim.Spec.StorageClassName == nil || *claim.Spec.StorageClassName != p.class {
			continue
		}
		_, err := p.client.CoreV1().PersistentVolumes().Create(ctx, p.volume(claim, node), metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

func (p *provisioner) volume(claim *corev1.PersistentVolumeClaim, node string) *corev1.PersistentVolume {
	name := "pvc-" + string(claim.UID)
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{provisionedBy: provisionerName}},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: claim.Spec.AccessModes, Capacity: claim.Spec.Resources.Requests, StorageClassName: p.class,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{
				Path: p.folder(name), Type: new(corev1.HostPathDirectoryOrCreate),
			}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}}},
		},
	}
}

// deleteVolumes deletes volumes whose claims are gone, and what is in them, where they are not to be kept.
func (p *provisioner) deleteVolumes(ctx context.Context, all []*corev1.PersistentVolume) error {
	var failed []error
	for _, v := range all {
		kept := v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete
		if v.Spec.StorageClassName != p.class || kept || v.Status.Phase != corev1.VolumeReleased || v.DeletionTimestamp != nil {
			continue
		}
		if err := os.RemoveAll(p.folder(v.Name)); err != nil {
			failed = append(failed, err)
			continue
		}
		if err := p.client.CoreV1().PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// folder is where the volume of that name is.
func (p *provisioner) folder(volume string) string { return filepath.Join(p.dir, volume) }
