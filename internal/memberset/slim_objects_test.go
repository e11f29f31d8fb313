package memberset

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
)

// slimmable is a pod of set db with all that a decision asks for.
func slimmable(set *v1alpha1.MemberSet) *corev1.Pod {
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "db-1", UID: "u", ResourceVersion: "11", CreationTimestamp: metav1.NewTime(time.Unix(1, 0)),
			OwnerReferences: []metav1.OwnerReference{{Kind: "ConfigMap", Name: "beside"}, *metav1.NewControllerRef(set, v1alpha1.GroupVersion.WithKind("MemberSet"))},
			Labels:          map[string]string{v1alpha1.MemberSetLabel: "db", v1alpha1.MemberGroupLabel: "server", v1alpha1.MemberIDLabel: "db-1"},
			Annotations: map[string]string{
				TemplateHashAnnotation: "1", LabelsHashAnnotation: "2", FileHashAnnotation: "3", v1alpha1.OnEvictionAnnotation: v1alpha1.PodFollows,
				v1alpha1.CrashLoopPrefix + "kv": bySet, v1alpha1.EmptyConfigurationAnnotation: byPod,
			},
		},
		Spec: corev1.PodSpec{
			NodeName: "n1", Hostname: "db-1", SecurityContext: &corev1.PodSecurityContext{FSGroup: new(int64(5)), RunAsUser: new(int64(6))},
			InitContainers: []corev1.Container{{Name: "init", Resources: corev1.ResourceRequirements{Limits: requests}}},
			Containers: []corev1.Container{
				{Name: "kv", Resources: corev1.ResourceRequirements{Requests: requests}, SecurityContext: &corev1.SecurityContext{RunAsGroup: new(int64(7))}}, {Name: "sidecar"},
			},
			Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-db-1"}}}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodFailed, PodIP: "10.0.0.1", Reason: "Evicted", Message: "it was",
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no node"}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "kv", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}}},
		},
	}
}

// What a decision asks for is known of a slim pod as of the whole one, whatever that has beside.
func TestSlimPod(t *testing.T) {
	set := &v1alpha1.MemberSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "set"}}
	long := strings.Repeat("x", 100<<10)
	for name, large := range map[string]func(*corev1.Pod){
		"nothing":       func(*corev1.Pod) {},
		"labels":        func(p *corev1.Pod) { p.Labels["large"] = long },
		"annotations":   func(p *corev1.Pod) { p.Annotations["large"] = long },
		"managedFields": func(p *corev1.Pod) { p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: long}} },
		"finalizers":    func(p *corev1.Pod) { p.Finalizers = []string{long} },
		"owners":        func(p *corev1.Pod) { p.OwnerReferences[0].Name = long },
		"environment":   func(p *corev1.Pod) { p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "large", Value: long}} },
		"volumes":       func(p *corev1.Pod) { p.Spec.Volumes[0].Name = long },
		"claims that no object can be": func(p *corev1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: long}}})
		},
		"containers": func(p *corev1.Pod) {
			for i := range 1000 {
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: fmt.Sprint("large-", i), Resources: p.Spec.Containers[0].Resources, Image: long[:100]})
			}
		},
		"crash loops": func(p *corev1.Pod) {
			for i := range 1000 {
				p.Annotations[fmt.Sprint(v1alpha1.CrashLoopPrefix, "large-", i)] = bySet
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := slimmable(set)
			large(pod)
			whole := pod.DeepCopy()
			slim := SlimPod(pod)
			if size := slim.Size(); size > 12<<10 {
				t.Errorf("it has %d bytes", size)
			}
			want, got := PodOf(set, pod), PodOf(set, slim)
			if requestsMore(want.Spec, got.Spec) || requestsMore(got.Spec, want.Spec) || ownsOtherwise(want.Spec, got.Spec) {
				t.Errorf("%+v", got.Spec)
			}
			if got.Spec.Volumes[0].PersistentVolumeClaim.ClaimName != "data-db-1" {
				t.Errorf("%+v", got.Spec.Volumes)
			}
			for key, value := range slimmable(set).Annotations {
				if got.Annotations[key] != value {
					t.Errorf("annotation %s is %q, want %q", key, got.Annotations[key], value)
				}
			}
			want.Spec, want.Labels, want.Annotations, got.Spec, got.Labels, got.Annotations = nil, nil, nil, nil, nil, nil
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(whole, pod); diff != "" {
				t.Errorf("the pod itself is changed: %s", diff)
			}
		})
	}
}

// What is too long to be a name or a UID stays another than any that is one.
func TestSlimMetaOfWhatNoObjectHas(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Annotations:     map[string]string{SetUIDAnnotation: long, TemplateHashAnnotation: long},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: long, Kind: long, Name: long, UID: types.UID(long), Controller: new(true)}},
	}}
	claim.Spec.VolumeName = long
	slim := SlimClaim(claim)
	if slim.Size() > 8<<10 {
		t.Errorf("it has %d bytes", slim.Size())
	}
	set := &v1alpha1.MemberSet{ObjectMeta: metav1.ObjectMeta{Name: "db", UID: types.UID(long[:mostWord])}}
	got := ClaimOf(set, slim)
	if got.Ours || got.Of == "" || got.Volume == long[:mostWord] || got.Unbound {
		t.Errorf("%+v", got)
	}
}
