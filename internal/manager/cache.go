package manager

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/maintenance"
	"usher.sh/usher/internal/notice"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/snapshot"
)

// cacheOptions keeps of each object what is used. Pods and nodes are handed out without a copy: nothing changes them. Of all ConfigMaps it may read the
// configuration of notices alone.
func cacheOptions(pods *slimmer, requests requests, o Options) cache.Options {
	shared := true
	all := map[client.Object]cache.ByObject{
		&corev1.Pod{}:                  {Transform: pods.pod, UnsafeDisableDeepCopy: &shared},
		&corev1.Node{}:                 {Transform: slimNode, UnsafeDisableDeepCopy: &shared},
		&corev1.Namespace{}:            {Transform: slimNamespace},
		&v1alpha1.EvictionPolicy{}:     {Transform: slimPolicy},
		&v1alpha1.ReplacementRequest{}: {Transform: slimReplacement},
		&v1alpha1.MemberSet{}:          {Transform: slimMemberSet},
	}
	if requests.served { // of a kind that is not served the cache cannot say whether it has namespaces
		all[&api.EvictionRequest{}] = cache.ByObject{Transform: slimRequest}
		all[&api.Eviction{}] = cache.ByObject{Transform: slimEviction}
	}
	if o.NoticesAddress != "" {
		own := cache.Config{FieldSelector: fields.OneTermEqualSelector("metadata.name", notice.ConfigName)}
		all[&corev1.ConfigMap{}] = cache.ByObject{Namespaces: map[string]cache.Config{o.Namespace: own}}
	}
	return cache.Options{NewInformer: pods.newInformer, ByObject: all}
}

// clientOptions reads Secrets from the apiserver: to cache them Usher would have to be allowed to list all there are.
func clientOptions() client.Options {
	return client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}}
}

// slimPod is what policies may ask for, and what an eviction needs.
func slimPod(pod *corev1.Pod) *corev1.Pod {
	slim := &corev1.Pod{
		ObjectMeta: slimMeta(&pod.ObjectMeta),
		Spec: corev1.PodSpec{
			NodeName:                      pod.Spec.NodeName,
			Hostname:                      pod.Spec.Hostname,
			Priority:                      pod.Spec.Priority,
			TerminationGracePeriodSeconds: pod.Spec.TerminationGracePeriodSeconds,
			SchedulingGroup:               pod.Spec.SchedulingGroup,
			EvictionResponders:            pod.Spec.EvictionResponders,
			Volumes:                       slimVolumes(pod.Spec.Volumes),
			Tolerations:                   slimTolerations(pod.Spec.Tolerations),
		},
		Status: corev1.PodStatus{
			Phase:      pod.Status.Phase,
			PodIP:      pod.Status.PodIP,
			Conditions: only(pod.Status.Conditions, corev1.PodReady),
		},
	}
	bound(&slim.ObjectMeta)
	policycache.SetSize(slim, pod.Size())
	return slim
}

// slimVolumes keeps which volumes hold data of the pod's own, and where, mostVolumes of each kind: that there are any of a kind is never
// lost.
func slimVolumes(volumes []corev1.Volume) []corev1.Volume {
	var slim []corev1.Volume
	var scratch, claims, ephemeral int
	for i := range volumes {
		v, kind := corev1.Volume{Name: volumes[i].Name}, (*int)(nil)
		switch source := &volumes[i].VolumeSource; {
		case source.EmptyDir != nil:
			v.EmptyDir, kind = &corev1.EmptyDirVolumeSource{}, &scratch
		case source.PersistentVolumeClaim != nil:
			v.PersistentVolumeClaim, kind = slimClaim(source.PersistentVolumeClaim), &claims
		case source.Ephemeral != nil:
			v.Ephemeral, kind = &corev1.EphemeralVolumeSource{}, &ephemeral
		default:
			continue
		}
		if *kind++; *kind <= mostVolumes {
			slim = append(slim, v)
		}
	}
	return slim
}

// slimClaim cuts a name that no object can have: the apiserver takes any in a pod, of a megabyte as well.
func slimClaim(claim *corev1.PersistentVolumeClaimVolumeSource) *corev1.PersistentVolumeClaimVolumeSource {
	return &corev1.PersistentVolumeClaimVolumeSource{ClaimName: policycache.Short(claim.ClaimName), ReadOnly: claim.ReadOnly}
}

// slimTolerations keeps the first few of those that roles set or that apply instead of them, by which it is seen which pods are to be looked at.
func slimTolerations(tolerations []corev1.Toleration) []corev1.Toleration {
	var slim []corev1.Toleration
	for i := range tolerations {
		t := tolerations[i]
		if t.Effect != "" && t.Effect != corev1.TaintEffectNoExecute || t.Key != "" && t.Key != corev1.TaintNodeNotReady && t.Key != corev1.TaintNodeUnreachable {
			continue
		}
		if slim = append(slim, t); len(slim) == mostTolerations {
			return slim
		}
	}
	return slim
}

// only keeps one condition, without the words that came with it.
func only(conditions []corev1.PodCondition, kind corev1.PodConditionType) []corev1.PodCondition {
	for i := range conditions {
		if c := &conditions[i]; c.Type == kind {
			return []corev1.PodCondition{{Type: kind, Status: c.Status, LastTransitionTime: c.LastTransitionTime}}
		}
	}
	return nil
}

func slimNode(object any) (any, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	slim := &corev1.Node{
		ObjectMeta: slimMeta(&node.ObjectMeta),
		Spec:       corev1.NodeSpec{Unschedulable: node.Spec.Unschedulable, Taints: node.Spec.Taints, ProviderID: node.Spec.ProviderID},
	}
	slim.Status.NodeInfo.BootID = policycache.Short(node.Status.NodeInfo.BootID)
	slim.Status.NodeInfo.KubeletVersion = policycache.Short(node.Status.NodeInfo.KubeletVersion)
	slim.Annotations = policycache.NodeAnnotations(slim)
	for _, annotation := range []string{snapshot.DrainAnnotation, snapshot.MarksAnnotation} {
		if record, ok := node.Annotations[annotation]; ok {
			slim.Annotations[annotation] = record
		}
	}
	for i := range node.Status.Conditions {
		slim.Status.Conditions = append(slim.Status.Conditions, slimCondition(&node.Status.Conditions[i]))
	}
	return slim, nil
}

// slimCondition keeps the words of Ready, and of the conditions that maintenances set: by these they know their own.
func slimCondition(c *corev1.NodeCondition) corev1.NodeCondition {
	slim := corev1.NodeCondition{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime}
	if maintenance.Sets(c.Type) || c.Type == corev1.NodeReady {
		slim.Reason, slim.Message = c.Reason, c.Message
	}
	return slim
}

func slimNamespace(object any) (any, error) {
	namespace, ok := object.(*corev1.Namespace)
	if !ok {
		return object, nil
	}
	slim := &corev1.Namespace{ObjectMeta: slimMeta(&namespace.ObjectMeta)}
	slim.Annotations = nil
	return slim, nil
}

// slimMeta drops what kubectl and servers write for themselves. Rules may ask for any other annotation.
func slimMeta(meta *metav1.ObjectMeta) metav1.ObjectMeta {
	slim := metav1.ObjectMeta{
		Namespace:         meta.Namespace,
		Name:              meta.Name,
		UID:               meta.UID,
		ResourceVersion:   meta.ResourceVersion,
		CreationTimestamp: meta.CreationTimestamp,
		DeletionTimestamp: meta.DeletionTimestamp,
		Labels:            meta.Labels,
		Annotations:       meta.Annotations,
		OwnerReferences:   meta.OwnerReferences,
	}
	if _, ok := slim.Annotations[corev1.LastAppliedConfigAnnotation]; ok {
		slim.Annotations = maps.Clone(slim.Annotations)
		delete(slim.Annotations, corev1.LastAppliedConfigAnnotation)
	}
	return slim
}
