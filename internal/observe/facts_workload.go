package observe

import (
	"cmp"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/text"
)

// uncounted is Workload.Replicas of a kind that wants no fixed number of pods.
const uncounted = -1

// DeploymentFacts returns what decisions know of a Deployment. It is settled when
// the controller has seen the spec, every pod is of the current template and there
// are as many as wanted. A Deployment paused in the middle of a rollout has pods of
// two templates, or of a former one only, and is therefore never settled; one that
// is paused at rest is, because the controller still scales it. Readiness is not
// asked: a pod that fails is no rollout.
func DeploymentFacts(d *appsv1.Deployment) *snapshot.Workload {
	facts := workload("Deployment", d, d.Spec.Selector, &d.Spec.Template, d.Spec.Replicas, d.Spec.MinReadySeconds)
	facts.Settled = d.Status.ObservedGeneration >= d.Generation &&
		d.Status.UpdatedReplicas == facts.Replicas && d.Status.Replicas == facts.Replicas
	if !facts.Settled {
		facts.RolloutStuck = rolloutStuck(d)
	}
	facts.PodsRefused = podsRefused(d)
	facts.NoOverlap = noOverlap(&d.Spec.Strategy, int(facts.Replicas))
	facts.Surge, facts.SurgeError = surge(d)
	return facts
}

// rolloutStuck says why a rollout does not go on by itself: it is paused, or made no progress within the Deployment's
// progressDeadlineSeconds (600 s unless set), as its controller has found of the current spec.
func rolloutStuck(d *appsv1.Deployment) string {
	if d.Spec.Paused {
		return snapshot.RolloutPaused
	}
	for i := range d.Status.Conditions {
		c := &d.Status.Conditions[i]
		if c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse && d.Status.ObservedGeneration >= d.Generation {
			return "its rollout does not go on: " + words(c.Reason, c.Message)
		}
	}
	return ""
}

// podsRefused says why pods are not created: a quota is used up, or admission refuses them.
func podsRefused(d *appsv1.Deployment) string {
	for i := range d.Status.Conditions {
		if c := &d.Status.Conditions[i]; c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return text.Line(c.Message)
		}
	}
	return ""
}

// noOverlap reads the strategy; maxSurge is rounded up as the controller does, and nil
// is a quarter.
func noOverlap(strategy *appsv1.DeploymentStrategy, replicas int) bool {
	if strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return true
	}
	if strategy.RollingUpdate == nil || strategy.RollingUpdate.MaxSurge == nil {
		return false
	}
	surge, err := intstr.GetScaledValueFromIntOrPercent(strategy.RollingUpdate.MaxSurge, replicas, true)
	return err == nil && surge == 0
}

// replicaSetFacts returns what decisions know of a ReplicaSet.
func replicaSetFacts(r *appsv1.ReplicaSet) *snapshot.Workload {
	facts := workload("ReplicaSet", r, r.Spec.Selector, &r.Spec.Template, r.Spec.Replicas, r.Spec.MinReadySeconds)
	facts.Settled = r.Status.ObservedGeneration >= r.Generation && r.Status.Replicas == facts.Replicas
	return facts
}

// statefulSetFacts returns what decisions know of a StatefulSet. Pods below the
// partition keep their former revision for good, and OnDelete leaves it to others
// to renew pods: neither is a rollout.
func statefulSetFacts(s *appsv1.StatefulSet) *snapshot.Workload {
	facts := workload("StatefulSet", s, s.Spec.Selector, &s.Spec.Template, s.Spec.Replicas, s.Spec.MinReadySeconds)
	facts.Settled = s.Status.ObservedGeneration >= s.Generation &&
		s.Status.Replicas == facts.Replicas && !statefulSetRolls(s, facts.Replicas)
	return facts
}

func statefulSetRolls(s *appsv1.StatefulSet, wanted int32) bool {
	if s.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType || s.Status.CurrentRevision == s.Status.UpdateRevision {
		return false
	}
	var partition int32
	if rolling := s.Spec.UpdateStrategy.RollingUpdate; rolling != nil && rolling.Partition != nil {
		partition = *rolling.Partition
	}
	return s.Status.UpdatedReplicas < wanted-partition
}

// daemonSetFacts returns what decisions know of a DaemonSet. It has as many pods as
// nodes fit, so it wants no number.
func daemonSetFacts(d *appsv1.DaemonSet) *snapshot.Workload {
	facts := workload("DaemonSet", d, d.Spec.Selector, &d.Spec.Template, nil, d.Spec.MinReadySeconds)
	facts.Replicas = uncounted
	renewed := d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType ||
		d.Status.UpdatedNumberScheduled >= d.Status.DesiredNumberScheduled
	facts.Settled = d.Status.ObservedGeneration >= d.Generation && renewed
	return facts
}

// replicationControllerFacts returns what decisions know of a ReplicationController.
func replicationControllerFacts(r *corev1.ReplicationController) *snapshot.Workload {
	facts := workload("ReplicationController", r, &metav1.LabelSelector{MatchLabels: r.Spec.Selector}, cmp.Or(r.Spec.Template, &corev1.PodTemplateSpec{}), r.Spec.Replicas, r.Spec.MinReadySeconds)
	facts.Settled = r.Status.ObservedGeneration >= r.Generation && r.Status.Replicas == facts.Replicas
	return facts
}

// jobFacts returns what decisions know of a Job. Its parallelism is an upper limit
// and not a number that it keeps up, so it wants none, and it rolls nothing out.
func jobFacts(j *batchv1.Job) *snapshot.Workload {
	facts := workload("Job", j, j.Spec.Selector, &j.Spec.Template, nil, 0)
	facts.Replicas = uncounted
	facts.Settled = true
	return facts
}

// workload fills what all kinds share; nil replicas means 1, the API's default.
func workload(
	kind string, object metav1.Object, selector *metav1.LabelSelector, template *corev1.PodTemplateSpec, replicas *int32, minReady int32,
) *snapshot.Workload {
	wanted := int32(1)
	if replicas != nil {
		wanted = *replicas
	}
	return &snapshot.Workload{
		Kind:            kind,
		Namespace:       object.GetNamespace(),
		Name:            object.GetName(),
		UID:             object.GetUID(),
		ResourceVersion: object.GetResourceVersion(),
		Owner:           snapshot.OwnerOf(object),
		Labels:          template.Labels,
		Selector:        selectorOf(selector),
		NodeName:        template.Spec.NodeName,
		Replicas:        wanted,
		MinReady:        time.Duration(minReady) * time.Second,
	}
}

// selectorOf is a label selector as text; "", which selects everything, where there is none that can be read.
func selectorOf(selector *metav1.LabelSelector) string {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return ""
	}
	return parsed.String()
}

// surge reads the record only beside its label: the Deployment controller copies the
// annotation, and not the label, to the ReplicaSet, and an undone rollout brings it back
// from there when the surge is long over. The label names the drain, so that such a copy
// is not believed during a later surge either.
func surge(object metav1.Object) (record *snapshot.SurgeRecord, problem string) {
	id, labelled := object.GetLabels()[snapshot.SurgeLabel]
	if !labelled {
		return nil, ""
	}
	record, err := snapshot.ParseSurgeRecord(object.GetAnnotations()[snapshot.SurgeAnnotation])
	switch {
	case err != nil:
		return nil, err.Error()
	case record == nil || record.ID != id:
		return nil, ""
	}
	return record, ""
}
