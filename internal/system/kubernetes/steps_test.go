package kubernetes

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
)

func foreign(beat time.Time) func(*simulated) {
	return func(s *simulated) {
		s.top.Surge = &snapshot.SurgeRecord{Drainer: snapshot.Drainer{ID: "d1", By: "anna@host", Beat: beat}, Was: 1, To: 2, Since: beat, Step: beat}
		s.top.Replicas = 2
	}
}

func TestPrepareWritesWhatIsNeeded(t *testing.T) {
	cases := map[string]struct {
		s    *simulated
		want []string
		says string
	}{
		"a single replica":                         {lone(1).with(minAvailable("1")), []string{"scale to 2, was 1 for 1"}, ""},
		"two of two":                               {lone(2).with(minAvailable("2")), []string{"scale to 3, was 2 for 1"}, ""},
		"a budget that is never met":               {lone(2).with(minAvailable("3")), []string{"scale to 4, was 2 for 1"}, ""},
		"the minimum of an autoscaler first":       {lone(1).with(minAvailable("1"), scaledTo(1, 3)), []string{"minimum 2, was 1 for 1", "scale to 2, was 1 for 1"}, ""},
		"an autoscaler at its maximum":             {lone(1).with(minAvailable("1"), scaledTo(1, 1)), nil, "autoscaler web allows 1 replicas at most"},
		"a minimum that is high enough":            {lone(2).with(scaledTo(2, 5), func(s *simulated) { s.top.Replicas = 1 }), []string{"minimum 3, was 2 for 1", "scale to 3, was 2 for 1"}, ""},
		"a budget that no number meets":            {lone(1).with(maxUnavailable("0")), nil, "no number of replicas"},
		"100%":                                     {lone(1).with(minAvailable("100%")), nil, "no number of replicas"},
		"a drain that surges it":                   {lone(1).with(foreign(began)), nil, "anna@host is surging Deployment web"},
		"what a killed drain left is gone on with": {lone(1).with(foreign(began.Add(-time.Hour)), minAvailable("1")), []string{"scale to 2, was 1 for 1"}, ""},
		"a rollout":                                {lone(1).with(func(s *simulated) { s.top.Settled = false }), nil, "a rollout of Deployment web is under way"},
		"a conflict is read again":                 {lone(1).with(minAvailable("1"), func(s *simulated) { s.conflicts = 2 }), []string{"scale to 2, was 1 for 1"}, ""},
		"a StatefulSet":                            {lone(1).with(func(s *simulated) { s.top.Kind = "StatefulSet" }), nil, "the policy does not allow that"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			job, err := c.s.system().Prepare(t.Context(), step("web-a"))
			c.s.wrote(t, c.want...)
			switch {
			case c.says == "" && err != nil, c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
				t.Errorf("error %v, want %q", err, c.says)
			case !strings.HasSuffix(job.ID, ".apps/web"):
				t.Errorf("job %q", job.ID)
			}
		})
	}
}

func TestASurgeIsBegunOnceForEachPodAndEndsWithTheLast(t *testing.T) {
	s := lone(2).with(minAvailable("2"))
	n := s.system()
	for _, name := range []string{"web-a", "web-a", "web-b", "web-b"} {
		if _, err := n.Prepare(t.Context(), step(name)); err != nil {
			t.Fatal(err)
		}
	}
	s.wrote(t, "scale to 3, was 2 for 1", "scale to 4, was 2 for 2")
	s.pods = []*snapshot.Pod{pod("web-b", "b"), pod("web-c", "b"), pod("web-d", "b")}
	for _, name := range []string{"web-a", "web-b"} {
		undone, err := n.Undo(t.Context(), step(name))
		if err != nil || !undone.Done {
			t.Fatal(undone, err)
		}
	}
	s.wrote(t, "scale to 4, was 2 for 1", "scale to 2, no record")
	if s.renewed == 0 {
		t.Error("no sign of life was given")
	}
}

func TestUndoLeavesWhatIsOthers(t *testing.T) {
	surged := func(change ...func(*simulated)) *simulated {
		s := lone(1).with(minAvailable("1"), scaledTo(1, 5))
		if _, err := s.system().Prepare(t.Context(), step("web-a")); err != nil {
			t.Fatal(err)
		}
		s.writes = nil
		return s.with(change...)
	}
	cases := map[string]struct {
		s    *simulated
		want []string
	}{
		"the surge":                              {surged(), []string{"minimum 1, no record", "scale to 1, no record"}},
		"a person's replicas":                    {surged(func(s *simulated) { s.top.Replicas = 4 }), []string{"minimum 1, no record", "scale to 4, no record"}},
		"a person's minimum":                     {surged(func(s *simulated) { s.scaler.Min = 3 }), []string{"minimum 3, no record", "scale to 1, no record"}},
		"a process that ended after the minimum": {surged(func(s *simulated) { s.top.Surge, s.top.Replicas = nil, 1 }), []string{"minimum 1, no record"}},
		"nothing":                                {lone(1), nil},
		"a drain's":                              {lone(1).with(foreign(began)), nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			undone, err := c.s.system().Undo(t.Context(), step("web-a"))
			if err != nil || !undone.Done {
				t.Fatal(undone, err)
			}
			c.s.wrote(t, c.want...)
		})
	}
}

// A person who scales during the surge wins, at once and for five minutes.
func TestAnotherClientsNumberWins(t *testing.T) {
	s := lone(1).with(minAvailable("1"))
	if _, err := s.system().Prepare(t.Context(), step("web-a")); err != nil {
		t.Fatal(err)
	}
	s.writes, s.top.Replicas = nil, 5
	_, err := s.system().Prepare(t.Context(), step("web-a"))
	if !errors.Is(err, system.ErrTerminal) || !strings.Contains(err.Error(), "another client set its replicas to 5") {
		t.Error(err)
	}
	s.wrote(t, "scale to 5, no record")
}

// A process that ends between the record and the replicas leaves a record that is only to be removed.
func TestAProcessThatEndsBetweenItsWrites(t *testing.T) {
	s := lone(1).with(minAvailable("1"), func(s *simulated) { s.cut = true })
	if _, err := s.system().Prepare(t.Context(), step("web-a")); err == nil {
		t.Fatal("the process did not end")
	}
	s.cut, s.writes = false, nil
	if undone, err := s.system().Undo(t.Context(), step("web-a")); err != nil || !undone.Done {
		t.Fatal(undone, err)
	}
	s.wrote(t, "scale to 1, no record")
}

// Without a budget that needs it a surge that leads nowhere is taken back after five minutes, and is not begun again.
func TestASurgeThatLeadsNowhereIsTakenBack(t *testing.T) {
	s := lone(1).with(maxUnavailable("1"))
	n := s.system()
	if _, err := n.Prepare(t.Context(), step("web-a")); err != nil {
		t.Fatal(err)
	}
	s.pods = append(s.pods, pending("web-b"))
	s.writes, s.now = nil, began.Add(surgePatience)
	for range 2 {
		if _, err := n.Prepare(t.Context(), step("web-a")); err != nil {
			t.Fatal(err)
		}
	}
	s.wrote(t, "scale to 1, was 1 for 1")
	if undone, err := n.Undo(t.Context(), step("web-a")); err != nil || !undone.Done {
		t.Fatal(undone, err)
	}
	s.wrote(t, "scale to 1, no record")
}

// A StatefulSet removes its last pod, so it is scaled back when those that stay are ready.
func TestAStatefulSetWaitsForItsFirstPods(t *testing.T) {
	s := lone(1).with(minAvailable("1"), func(s *simulated) {
		s.top.Kind = "StatefulSet"
		for _, p := range s.pods {
			p.Name, p.UID, p.Owner = "web-0", "web-0", snapshot.Owner{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", UID: "web"}
		}
	})
	n := &namespace{api: s, rules: limits{statefulSets: v1alpha1.StatefulSetsSurge}}
	if _, err := n.Prepare(t.Context(), step("web-0")); err != nil {
		t.Fatal(err)
	}
	s.wrote(t, "scale to 2, was 1 for 1")
	again := step("web-0") // is undone for the pod that follows
	again.Member.PodUID, again.Job.ID = "web-0-again", "StatefulSet.apps/web"
	back, next := *s.pods[0], *s.pods[0]
	back.UID, back.Ready = "web-0-again", false
	next.Name, next.UID = "web-1", "web-1"
	s.pods = []*snapshot.Pod{&back, &next}
	if undone, err := n.Undo(t.Context(), again); err != nil || undone.Done {
		t.Fatalf("while web-0 is not ready: %v, %v", undone, err)
	}
	s.wrote(t)
	back.Ready = true
	if undone, err := n.Undo(t.Context(), again); err != nil || !undone.Done {
		t.Fatal(undone, err)
	}
	s.wrote(t, "scale to 1, no record")
}

// Of a kind that cannot be found by its record nothing is written before the job is.
func TestACustomKindIsNamedFirst(t *testing.T) {
	s := lone(1).with(minAvailable("1"), func(s *simulated) { s.top.Kind, s.top.Group = "Rollout", "argoproj.io" })
	job, err := s.system().Prepare(t.Context(), step("web-a"))
	if err != nil || job.ID != "Rollout.argoproj.io/web" {
		t.Fatal(job, err)
	}
	s.wrote(t)
	next := step("web-a")
	next.Job = job
	if _, err := s.system().Prepare(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	s.wrote(t, "scale to 2, was 1 for 1")
	s.pods = nil
	next.Member.PodUID = types.UID("web-a")
	if undone, err := s.system().Undo(t.Context(), next); err != nil || !undone.Done {
		t.Fatal(undone, err)
	}
	s.wrote(t, "scale to 1, no record")
}
