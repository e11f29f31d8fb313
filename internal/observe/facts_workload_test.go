package observe

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"usher.sh/usher/internal/snapshot"
)

func TestWhatTheStrategySaysOfTwoAtOnce(t *testing.T) {
	none, one, tenth := intstr.FromInt32(0), intstr.FromInt32(1), intstr.FromString("10%")
	rolling := func(surge *intstr.IntOrString) appsv1.DeploymentStrategy {
		return appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: surge}}
	}
	for name, test := range map[string]struct {
		strategy appsv1.DeploymentStrategy
		want     bool
	}{
		"Recreate":           {appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}, true},
		"maxSurge 0":         {rolling(&none), true},
		"maxSurge 1":         {rolling(&one), false},
		"10% of 1 is 1":      {rolling(&tenth), false},
		"nothing is said":    {rolling(nil), false},
		"no strategy at all": {appsv1.DeploymentStrategy{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := DeploymentFacts(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Strategy: test.strategy}}).NoOverlap; got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}

func TestNodeThatATemplateNames(t *testing.T) {
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeName: "a"}}
	for kind, facts := range map[string]*snapshot.Workload{
		"Deployment":            DeploymentFacts(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: template}}),
		"ReplicaSet":            replicaSetFacts(&appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Template: template}}),
		"StatefulSet":           statefulSetFacts(&appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Template: template}}),
		"ReplicationController": replicationControllerFacts(&corev1.ReplicationController{Spec: corev1.ReplicationControllerSpec{Template: &template}}),
	} {
		if facts.NodeName != "a" {
			t.Errorf("%s: node %q, want a", kind, facts.NodeName)
		}
	}
	if facts := replicationControllerFacts(&corev1.ReplicationController{}); facts.NodeName != "" {
		t.Errorf("no template: node %q", facts.NodeName)
	}
}

func TestASurgeRecordWithoutItsLabelIsACopy(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	record, err := (&snapshot.SurgeRecord{Drainer: snapshot.Drainer{ID: "d1"}, Was: 1, To: 2, Since: now, Step: now}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	label := map[string]string{snapshot.SurgeLabel: "d1"}
	for _, test := range []struct {
		name            string
		labels          map[string]string
		annotation      string
		record, problem bool
	}{
		{name: "a surge under way", labels: label, annotation: record, record: true},
		{name: "brought back by an undone rollout", annotation: record},
		{name: "brought back during a later surge", labels: map[string]string{snapshot.SurgeLabel: "d2"}, annotation: record},
		{name: "no surge"},
		{name: "edited by hand", labels: label, annotation: "{", problem: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
				Labels:      test.labels,
				Annotations: map[string]string{snapshot.SurgeAnnotation: test.annotation},
			}}
			facts := DeploymentFacts(d)
			if (facts.Surge != nil) != test.record || (facts.SurgeError != "") != test.problem {
				t.Errorf("read record %v and problem %q, want a record: %t, a problem: %t", facts.Surge, facts.SurgeError, test.record, test.problem)
			}
		})
	}
}
