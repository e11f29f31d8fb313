package sim_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/sim"
	"usher.sh/usher/internal/snapshot"
)

// A plan says what comes back to the node, and that the drain ends blocked where that is not evicted again.
func TestPodsThatComeBackAreForecast(t *testing.T) {
	pinned := func(p *snapshot.Pod) {
		p.NodeSelector = map[string]string{corev1.LabelHostname: "a"}
		p.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	cases := map[string]struct {
		template string
		options  []podOption
		outcome  drain.Outcome
		held     []drain.Reason
		notes    []string
	}{
		"the template names the node": {"a", nil, drain.Blocked, []drain.Reason{drain.StartedAfterCordon}, nil},
		"pinned, and tolerates the cordon": {
			"",
			[]podOption{pinned},
			drain.Drained, nil,
			[]string{"a pod of StatefulSet shop/web has come back to node a in place of one that left: it was started after the cordon, which it tolerates"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.node("a", "z1")
			w.node("b", "z1")
			set := *w.workload("StatefulSet", "web", []string{"a"}, c.options...)
			set.NodeName = c.template
			w.cluster.SetWorkload(&set)
			plan := sim.Forecast(w.view(), request("a"))
			if diff := cmp.Diff(c.outcome, plan.Outcome); diff != "" {
				t.Errorf("outcome: %s%+v", diff, plan.Blockers)
			}
			var held []drain.Reason
			for _, b := range plan.Blockers {
				held = append(held, b.Reason)
			}
			if diff := cmp.Diff(c.held, held); diff != "" {
				t.Errorf("blockers: %s", diff)
			}
			if diff := cmp.Diff(c.notes, plan.Notes); diff != "" {
				t.Errorf("notes: %s", diff)
			}
		})
	}
}

// What a plan advises to look at exists: a pod that only the forecast has started does not.
func TestForecastAdvisesNothingAboutItsOwnPods(t *testing.T) {
	w := newWorld()
	w.node("a", "z1")
	w.node("b", "z2")
	w.workload("Deployment", "single", []string{"a"}, func(p *snapshot.Pod) { p.NodeSelector = map[string]string{"zone": "z1"} })
	w.budget("single", "single", minAvailable("1"))
	plan := sim.Forecast(w.view(), request("a"))
	if len(plan.Blockers) != 1 || !strings.Contains(plan.Blockers[0].Remedy, "let another node run it: kubectl get -n shop deployment/single -o yaml shows") {
		t.Errorf("blockers: %+v", plan.Blockers)
	}
}
