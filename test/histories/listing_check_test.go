package histories

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

// TestListChanges checks when b may be taken off its system's list, and when it may be put there.
func TestListChanges(t *testing.T) {
	type change = func(*departure, *v1alpha1.ReplacementRequest)
	status := func(change func(*v1alpha1.ReplacementRequestStatus)) change {
		return func(d *departure, q *v1alpha1.ReplacementRequest) {
			q = duplicate(q)
			change(&q.Status)
			d.store.put(q)
		}
	}
	left := func(ago time.Duration) change {
		return func(d *departure, q *v1alpha1.ReplacementRequest) {
			status(func(s *v1alpha1.ReplacementRequestStatus) {
				s.Predecessor.LeftTime = &metav1.Time{Time: d.removal.looked.Add(-ago)}
			})(d, q)
		}
	}
	joining := status(func(s *v1alpha1.ReplacementRequestStatus) {
		s.Step, s.Predecessor = v1alpha1.ReplacementJoining, &v1alpha1.ReplacementPredecessor{PodName: "b", PodUID: "another"}
	})
	leaves := func(d *departure) { d.checkLeaves("b", d.removal.looked) }
	joins := func(d *departure) { d.checkJoins("b", d.removal.looked) }
	nothing := func(*departure, *v1alpha1.ReplacementRequest) {}
	for name, c := range map[string]struct {
		with     change
		asked    func(*departure)
		property string
	}{
		"it leaves":                      {nothing, leaves, ""},
		"it has left":                    {left(2 * time.Second), leaves, "REPLACED"},
		"it has left since the look":     {left(-2 * time.Second), leaves, ""},
		"its request was deleted before": {func(d *departure, q *v1alpha1.ReplacementRequest) { d.deleted(q, d.removal.looked.Add(-time.Second)) }, leaves, "REPLACED"},
		"no policy says so":              {func(d *departure, _ *v1alpha1.ReplacementRequest) { d.replace("a") }, leaves, "PERMIT"},
		"its process runs":               {func(d *departure, _ *v1alpha1.ReplacementRequest) { d.podLives["b"] = runs }, leaves, "REPLACED"},
		"it alone has its data": {func(d *departure, _ *v1alpha1.ReplacementRequest) {
			d.safety.missed["b"] = time.Now().Add(-time.Minute)
		}, leaves, "REPLACED"},
		"another's successor is awaited": {func(d *departure, _ *v1alpha1.ReplacementRequest) { d.replacing["a"] = true }, leaves, "REPLACED"},
		"its successor is there":         {joining, leaves, "REPLACED"},
		"it joins":                       {joining, joins, ""},
		"it joins before it has left":    {nothing, joins, "REPLACED"},
	} {
		t.Run(name, func(t *testing.T) {
			d := wrongDeparture(t)
			d.podLives["b"] = stopped
			d.odds.replaced = 1
			q := d.begin(t, "b", d.pod.UID)
			d.replace("b")
			c.with(d, q)
			c.asked(d)
			d.check(t, c.property != "", c.property, name)
		})
	}
}
