package cli

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/cli/show"
)

// What is asked for is never dropped because an object of the name is there.
func TestMaintainNamesWhatIsOtherwise(t *testing.T) {
	noon := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) *metav1.Time { return new(metav1.NewTime(noon.Add(d))) }
	type spec = v1alpha1.NodeMaintenanceSpec
	for name, c := range map[string]struct {
		there, wanted func(*spec)
		want          []string // none: it is the same
	}{
		"the same":          {func(*spec) {}, func(*spec) {}, nil},
		"no reason given":   {func(s *spec) { s.Reason = "kernel" }, func(*spec) {}, nil},
		"another reason":    {func(*spec) {}, func(s *spec) { s.Reason = "it's on fire" }, []string{"its reason;", `-p '{"spec":{"reason":"it'\''s on fire"}}'`}},
		"nearly the same":   {func(s *spec) { s.DeadlineTime = at(time.Hour) }, func(s *spec) { s.DeadlineTime = at(time.Hour + 50*time.Second) }, nil},
		"a deadline":        {func(*spec) {}, func(s *spec) { s.DeadlineTime = at(time.Hour) }, []string{"its deadlineTime (there: none)", `-p '{"spec":{"deadlineTime":"2026-11-27T13:00:00Z"}}'`}},
		"a tighter one":     {func(s *spec) { s.DeadlineTime = at(time.Hour) }, func(s *spec) { s.DeadlineTime = at(time.Minute) }, []string{"(there: --deadline 2026-11-27T13:00:00Z)", "kubectl patch"}},
		"a later one":       {func(s *spec) { s.DeadlineTime = at(time.Hour) }, func(s *spec) { s.DeadlineTime = at(2 * time.Hour) }, []string{"(there: --deadline 2026-11-27T13:00:00Z); give another --name"}},
		"none any more":     {func(s *spec) { s.DeadlineTime = at(time.Hour) }, func(*spec) {}, []string{"(there: --deadline 2026-11-27T13:00:00Z); give another --name"}},
		"what then":         {func(*spec) {}, func(s *spec) { s.AtDeadline = v1alpha1.DeadlineDeletePods }, []string{"its atDeadline (there: Stop)", `-p '{"spec":{"atDeadline":"DeletePods"}}'`}},
		"fewer at once":     {func(*spec) {}, func(s *spec) { s.Concurrency.Nodes = 1 }, []string{"its concurrency (there: --max-parallel 3 --max-zones 2)", `-p '{"spec":{"concurrency":{"nodes":1,"zones":2}}}'`}},
		"force":             {func(*spec) {}, func(s *spec) { s.Drain.UnmanagedPods = v1alpha1.PodsEvict }, []string{"its drain;", `"unmanagedPods":"Evict"`}},
		"another end":       {func(*spec) {}, func(s *spec) { s.WhenDrained = v1alpha1.WhenDrained{DeleteNode: &v1alpha1.DeleteNode{}} }, []string{"its whenDrained; change that: kubectl edit nodemaintenance n1"}},
		"other nodes":       {func(*spec) {}, func(s *spec) { s.Nodes.Names = []string{"n2"} }, []string{"its nodes; give another --name, or end it: usher maintain --delete n1"}},
		"another requester": {func(*spec) {}, func(s *spec) { s.Requester = "person.usher.sh/bob" }, []string{"of person.usher.sh/anna: its requester"}},
	} {
		made := func(change func(*spec)) *v1alpha1.NodeMaintenance {
			m := &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: spec{
				Nodes: v1alpha1.NodeSelection{Names: []string{"n1"}}, Requester: "person.usher.sh/anna", AtDeadline: v1alpha1.DeadlineStop,
				Concurrency: v1alpha1.MaintenanceConcurrency{Nodes: 3, Zones: 2},
			}}
			change(&m.Spec)
			return m
		}
		there, wanted := made(c.there), made(c.wanted)
		others := othersThan(there, wanted)
		if len(others) == 0 != (len(c.want) == 0) {
			t.Errorf("%s: it differs in %v", name, others)
		}
		if len(others) == 0 {
			continue
		}
		err := (&maintainOptions{commands: show.Commands{Program: "usher"}}).another(there, wanted, others)
		for _, words := range c.want {
			if !strings.Contains(err.Error(), words) {
				t.Errorf("%s: %v; want %q", name, err, words)
			}
		}
	}
}
