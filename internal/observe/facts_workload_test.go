package observe

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/internal/snapshot"
)

func TestASurgeRecordWithoutItsLabelIsACopy(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	record, err := (&snapshot.SurgeRecord{Drainer: snapshot.Drainer{ID: "d1"}, Was: 1, To: 2, Since: now, Step: now}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	label := map[string]string{snapshot.SurgeLabel: "true"}
	for _, test := range []struct {
		name            string
		labels          map[string]string
		annotation      string
		record, problem bool
	}{
		{name: "a surge under way", labels: label, annotation: record, record: true},
		{name: "brought back by an undone rollout", annotation: record},
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
