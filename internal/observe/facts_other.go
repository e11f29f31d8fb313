package observe

import (
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"usher.sh/usher/internal/snapshot"
)

// AutoscalerFacts returns what decisions know of a HorizontalPodAutoscaler.
func AutoscalerFacts(h *autoscalingv2.HorizontalPodAutoscaler) *snapshot.Autoscaler {
	facts := &snapshot.Autoscaler{
		Namespace:       h.Namespace,
		Name:            h.Name,
		UID:             h.UID,
		ResourceVersion: h.ResourceVersion,
		TargetKind:      h.Spec.ScaleTargetRef.Kind,
		TargetName:      h.Spec.ScaleTargetRef.Name,
		Min:             1, // what the API takes where nothing is said
		Max:             h.Spec.MaxReplicas,
	}
	if h.Spec.MinReplicas != nil {
		facts.Min = *h.Spec.MinReplicas
	}
	facts.Surge, facts.SurgeError = surge(h)
	return facts
}

// claimFacts returns what decisions know of a PersistentVolumeClaim.
func claimFacts(c *corev1.PersistentVolumeClaim) *snapshot.Claim {
	return &snapshot.Claim{
		Namespace:       c.Namespace,
		Name:            c.Name,
		UID:             c.UID,
		ResourceVersion: c.ResourceVersion,
		Volume:          c.Spec.VolumeName,
		OfPod:           snapshot.OwnerOf(c).Kind == "Pod",
		Shared: slices.ContainsFunc(c.Spec.AccessModes, func(mode corev1.PersistentVolumeAccessMode) bool {
			return mode == corev1.ReadWriteMany || mode == corev1.ReadOnlyMany
		}),
	}
}

// volumeFacts returns what decisions know of a PersistentVolume.
func volumeFacts(v *corev1.PersistentVolume) *snapshot.Volume {
	facts := &snapshot.Volume{Name: v.Name}
	if v.Spec.NodeAffinity != nil {
		facts.Affinity = v.Spec.NodeAffinity.Required
	}
	return facts
}

// attachmentFacts returns what decisions know of a VolumeAttachment. An inline
// volume has no PersistentVolume, so Volume is "".
func attachmentFacts(a *storagev1.VolumeAttachment) *snapshot.Attachment {
	facts := &snapshot.Attachment{Name: a.Name, Node: a.Spec.NodeName}
	if a.Spec.Source.PersistentVolumeName != nil {
		facts.Volume = *a.Spec.Source.PersistentVolumeName
	}
	return facts
}
