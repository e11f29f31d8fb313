package histories

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
)

// TestReplacedExcuses checks when the claim of b may be deleted.
func TestReplacedExcuses(t *testing.T) {
	cases := []struct {
		name  string
		with  func(*departure)
		fails bool
	}{
		{"its process has ended", func(*departure) {}, false},
		{"its process runs", func(d *departure) { d.podLives["b"] = runs }, true},
		{"it has crashed", func(d *departure) { d.podLives["b"], d.crashed["b"] = runs, true }, false},
		{"its pod was taken away by force", func(d *departure) { d.ghosts["b"] = ghost{} }, true},
		{"it has the last copy", func(d *departure) { d.system.disks = map[string]string{"b": "the last copy"} }, true},
		{"since a moment ago", func(d *departure) {
			d.system.disks = map[string]string{"b": "the last copy"}
			d.crash(maxAge - time.Second)
		}, false},
		{"for longer than evidence may be old", func(d *departure) {
			d.system.disks = map[string]string{"b": "the last copy"}
			d.crash(maxAge + time.Second)
		}, true},
		{"another has the last copy", func(d *departure) { d.system.disks = map[string]string{"a": "the last copy"} }, false},
		{"the successor of another has not begun", func(d *departure) { d.replacing["a"] = true }, true},
		{"its own has not", func(d *departure) { d.replacing["b"] = true }, false},
		{"it has not, and a person has taken its request away by force", func(d *departure) {
			d.replacing["a"] = true
			d.erase(&v1alpha1.ReplacementRequest{Status: v1alpha1.ReplacementRequestStatus{PodName: "a"}})
		}, false},
		{"two may be replaced at a time", func(d *departure) {
			d.replacing["a"] = true
			d.repairing = &v1alpha1.Repair{MaxInFlight: &v1alpha1.MaxInFlight{Members: new(int32(2))}}
		}, false},
		{"and the successors of two have not begun", func(d *departure) {
			d.replacing["a"], d.replacing["c"] = true, true
			d.repairing = &v1alpha1.Repair{MaxInFlight: &v1alpha1.MaxInFlight{Members: new(int32(2))}}
		}, true},
		{"two zones may have some", func(d *departure) {
			d.replacing["a"] = true
			d.repairing = &v1alpha1.Repair{MaxInFlight: &v1alpha1.MaxInFlight{Zones: new(int32(2))}}
		}, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := wrongDeparture(t)
			d.odds.replaced, d.podLives["b"] = 1, stopped
			c.with(d)
			d.checkClaimGoes(t.Context(), claimKey("b"))
			d.check(t, c.fails, "REPLACED", c.name)
		})
	}
}

// TestRestates checks what of a request's status may be written without an event: what it waits for, and no step.
func TestRestates(t *testing.T) {
	request := &v1alpha1.ReplacementRequest{}
	for _, c := range []struct {
		object client.Object
		part   part
		body   string
		want   bool
	}{
		{request, status, `{"status": {"blockers": [{"reason": "PredecessorRuns"}], "conditions": null}}`, true},
		{request, status, `{"status": {"blockers": null, "step": "Removing"}}`, false},
		{request, whole, `{"metadata": {"finalizers": ["usher.sh/replacement"]}}`, false},
		{&v1alpha1.EvictionPolicy{}, status, `{"status": {"blocked": null}}`, false},
	} {
		if got := restates(c.object, c.part, []byte(c.body)); got != c.want {
			t.Errorf("%T %s %s: %t", c.object, c.part, c.body, got)
		}
	}
}

// TestRequestsThatHaveJustMoved checks which requests may be without a blocker at the end: those of members that an operator replaces, for a moment.
func TestRequestsThatHaveJustMoved(t *testing.T) {
	cases := []struct {
		name     string
		operates string
		ago      time.Duration
		fails    bool
	}{
		{"its operator has removed the member a moment ago", "m", time.Second, false},
		{"long ago", "m", time.Minute, true},
		{"the operator is another role's", "n", time.Second, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := wrongDeparture(t)
			d.operator = d.newOperator(c.operates)
			moved := metav1.NewTime(time.Now().Add(-c.ago))
			q := &v1alpha1.ReplacementRequest{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "r"}}
			q.Spec.Member.Role, q.Spec.Member.ID = "m", "a"
			q.Status.Step, q.Status.StepTime = v1alpha1.ReplacementJoining, &moved
			if err := d.store.create(q); err != nil {
				t.Fatal(err)
			}
			d.checkReplacements()
			d.check(t, c.fails, "LIVENESS", c.name)
		})
	}
}
