package memberset

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/text"
)

// ObjectOf is what is known of an object that carries the set's label, or has a name that the set would give.
func ObjectOf(set *v1alpha1.MemberSet, o metav1.Object) Object {
	return Object{
		Name: o.GetName(), UID: o.GetUID(), Member: o.GetLabels()[v1alpha1.MemberIDLabel], Ours: metav1.IsControlledBy(o, set), Terminating: o.GetDeletionTimestamp() != nil,
		Of: other(set, o),
	}
}

// other is what an object is of, by who controls it or else by its label, where that is not this set; "": there is none. A set of this one's name, which is another one,
// is deleted, and its objects are collected. What it says of itself is a claim, and is quoted where it could be read as words.
func other(set *v1alpha1.MemberSet, o metav1.Object) string {
	if metav1.IsControlledBy(o, set) {
		return ""
	}
	owner := metav1.GetControllerOfNoCopy(o)
	if owner != nil && (owner.Kind != "MemberSet" || owner.APIVersion != v1alpha1.GroupVersion.String() || owner.Name != set.Name) {
		return text.Name(owner.Kind) + " " + text.Name(owner.Name)
	}
	if of := o.GetLabels()[v1alpha1.MemberSetLabel]; of != "" && of != set.Name {
		return "MemberSet " + of
	}
	return ""
}

// ours says of an object that no set owns whether it was made for this one.
func (o *Object) ours(set *v1alpha1.MemberSet, found metav1.Object) {
	if o.Ours = found.GetAnnotations()[SetUIDAnnotation] == string(set.UID); o.Ours {
		o.Of = ""
	}
}

// ServiceOf is what is known of a Service that carries the set's label.
func ServiceOf(set *v1alpha1.MemberSet, service *corev1.Service) Service {
	s := Service{Object: ObjectOf(set, service), IP: service.Spec.ClusterIP}
	if s.IP == corev1.ClusterIPNone {
		s.IP = ""
	}
	return s
}

// PodOf is what a pod says itself.
func PodOf(set *v1alpha1.MemberSet, pod *corev1.Pod) Pod {
	p := Pod{
		Object: ObjectOf(set, pod), Version: pod.ResourceVersion, Node: pod.Spec.NodeName, IP: pod.Status.PodIP, Finished: pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed,
		Made: pod.Annotations[TemplateHashAnnotation], OnEviction: pod.Annotations[v1alpha1.OnEvictionAnnotation], Labels: pod.Labels, Annotations: pod.Annotations, Spec: &pod.Spec,
		Ended: text.Line(strings.TrimSpace(pod.Status.Reason + " " + pod.Status.Message)), Created: pod.CreationTimestamp.Time,
	}
	for _, c := range pod.Status.Conditions {
		switch {
		case c.Type == corev1.PodReady:
			p.Ready = c.Status == corev1.ConditionTrue
		case c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse:
			p.Unscheduled = text.Line(c.Message)
		}
	}
	p.Waiting = waiting(&pod.Status)
	return p
}

// waiting is what the first container of a pod that does not start waits for; "": all have started.
func waiting(status *corev1.PodStatus) string {
	for _, c := range slices.Concat(status.InitContainerStatuses, status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil && w.Reason != "" && w.Reason != "PodInitializing" && w.Reason != "ContainerCreating" {
			return text.Line(fmt.Sprintf("container %s: %s", c.Name, strings.TrimSpace(w.Reason+" "+w.Message)))
		}
	}
	return ""
}

// ClaimOf is what a claim says itself. No set owns claims: its own are those that were made for it.
func ClaimOf(set *v1alpha1.MemberSet, claim *corev1.PersistentVolumeClaim) Claim {
	c := Claim{Object: ObjectOf(set, claim), Volume: claim.Spec.VolumeName, Unbound: claim.Spec.VolumeName == "", Made: claim.Annotations[TemplateHashAnnotation]}
	c.ours(set, claim)
	return c
}

// FileOf is what the ConfigMap says by which the system of a set is found. No set owns it: its own is the one that was made for it.
func FileOf(set *v1alpha1.MemberSet, kind *FileKind, found *corev1.ConfigMap) *File {
	f := &File{Object: ObjectOf(set, found), Version: found.ResourceVersion, Content: found.Data[kind.Key(&set.Spec.System).Key]}
	f.ours(set, found)
	return f
}

// RequestOf is what a ReplacementRequest says. Removing: it has its permit, and waits for the member to go.
func RequestOf(q *v1alpha1.ReplacementRequest, removing bool) Request {
	return Request{
		Name: q.Name, UID: q.UID, Role: q.Spec.Member.Role, Member: q.Spec.Member.ID, Own: q.Spec.Requester == Requester,
		Deleted: q.DeletionTimestamp != nil, Over: q.Status.Over(), Removing: removing,
	}
}
