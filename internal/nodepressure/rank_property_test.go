package nodepressure

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestRankIsTotal: the order is total, leaves no pod out and does not depend on that of the pods.
func TestRankIsTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods := drawPods(t, 12)
		order, signal := rapid.SampledFrom(Orders()).Draw(t, "order"), rapid.SampledFrom(Signals()).Draw(t, "signal")
		node := Node{Layout: rapid.SampledFrom([]Layout{Single, DedicatedImages, SplitImages}).Draw(t, "layout")}
		node.Daemons = Daemons{Known: rapid.Bool().Draw(t, "known"), MemoryUsage: rapid.Int64Range(0, 1).Draw(t, "daemons")}
		want := Rank(order, signal, node, pods)
		if diff := cmp.Diff(want, Rank(order, signal, node, rapid.Permutation(pods).Draw(t, "permutation"))); diff != "" {
			t.Fatalf("another order of pods (-want +got)\n%s", diff)
		}
		seen := map[string]bool{}
		for i := range want {
			seen[string(want[i].Pod.UID)] = true
			if (want[i].Rule == RuleLast) != (i == len(want)-1) {
				t.Errorf("%d of %d by rule %s", i, len(want), want[i].Rule)
			}
		}
		if len(seen) != len(pods) {
			t.Fatalf("%d of %d pods", len(seen), len(pods))
		}
		// Which pod is before another does not depend on the others, but for the rule on Guaranteed pods that are alone.
		if len(want) > 1 && order == OrderKubelet {
			i := rapid.IntRange(0, len(want)-2).Draw(t, "i")
			pair := Rank(order, signal, node, []Pod{want[i+1].Pod, want[i].Pod})
			if pair[0].Pod.UID != want[i].Pod.UID {
				t.Errorf("%s goes before %s alone", pair[0].Pod.Key(), pair[1].Pod.Key())
			}
		}
	})
}

// TestRankQoSKeepsClasses: in order qos, no pod goes before one of a lower class, and no Guaranteed pod while others are left.
func TestRankQoSKeepsClasses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods := drawPods(t, 12)
		ranking := Rank(OrderQoS, rapid.SampledFrom(Signals()).Draw(t, "signal"), Node{}, pods)
		others := slices.ContainsFunc(pods, func(p Pod) bool { return p.Exempt == "" && !p.guaranteed() })
		for i := range ranking {
			if i > 0 && ranking[i].Pod.class() < ranking[i-1].Pod.class() {
				t.Errorf("%s after %s", ranking[i].Pod.QoS, ranking[i-1].Pod.QoS)
			}
			if r := &ranking[i]; r.Exempt == ExemptGuaranteed && (!others || !r.Pod.guaranteed() || r.Over > 0) {
				t.Errorf("%s is passed over: others are left %v, class %s, over %d", r.Pod.Key(), others, r.Pod.QoS, r.Over)
			}
		}
	})
}

// TestForecastAndReliefAgree: in order qos, usher pressure names the pod that usher agent takes, of pods that no policy governs,
// that were not refused and that are not leaving: the page and the agent follow the same rules.
func TestForecastAndReliefAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods := drawPods(t, 8)
		for i := range pods {
			pods[i].Governed, pods[i].OnPressure = false, ""
		}
		signal := rapid.SampledFrom([]Signal{MemoryAvailable, NodeFsAvailable, NodeFsInodesFree, PIDAvailable}).Draw(t, "signal")
		limit := map[Signal]string{MemoryAvailable: "200Mi", NodeFsAvailable: "200Mi", NodeFsInodesFree: "500", PIDAvailable: "50"}[signal]
		threshold := hard(signal, limit)
		if rapid.Bool().Draw(t, "soft") {
			threshold.Grace = 20 * time.Second
		}
		most := threshold.Below.Of(0)
		reading := Reading{Available: rapid.Int64Range(0, most-1).Draw(t, "available"), Capacity: 4 * gi}
		daemons := Daemons{Known: rapid.Bool().Draw(t, "known"), MemoryUsage: rapid.Int64Range(0, 1).Draw(t, "daemons")}
		var relief Relief
		var state State
		var out Output
		var actions []Action
		for _, after := range []time.Duration{0, 10 * time.Second, 20 * time.Second} {
			now := noon.Add(after)
			reading.At = now
			node := Node{Readings: map[Signal]Reading{signal: reading}, Daemons: daemons}
			for i := range pods {
				if u := pods[i].Usage; u != nil {
					fresh := *u
					fresh.At = now
					pods[i].Usage = &fresh
				}
			}
			state, out = state.Step(Input{Now: now, Node: node, Pods: pods, Thresholds: []Threshold{threshold}, Order: OrderQoS})
			relief, actions = relief.Next(ReliefInput{Now: now, Node: node, Pods: pods, Thresholds: []Threshold{threshold}, Reachable: true})
			if threshold.Hard() {
				break
			}
		}
		var named, taken *Pod
		if out.Victim != nil {
			named = &out.Victim.Pod
		}
		for _, a := range actions {
			if a.Kind == Evict || a.Kind == Remove {
				taken = a.Pod
			}
		}
		if (named == nil) != (taken == nil) || named != nil && named.UID != taken.UID {
			t.Fatalf("usher pressure names %+v, usher agent takes %+v", named, taken)
		}
	})
}

// A step has a victim only for a threshold that is due and on a reading that is new, and takes the first that may go.
func TestStepNeverErrs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var state State
		thresholds := drawThresholds(t)
		now, last := noon, time.Time{}
		for range rapid.IntRange(1, 12).Draw(t, "looks") {
			now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "after")) * time.Second)
			at := now
			if rapid.IntRange(0, 3).Draw(t, "stale") == 0 {
				at = last
			}
			node := memoryNode(rapid.Int64Range(0, 5).Draw(t, "available")*60*mi, at)
			pods := drawPods(t, 6)
			next, out := state.Step(Input{Now: now, Node: node, Pods: pods, Thresholds: thresholds})
			if v := out.Victim; v != nil {
				i := slices.IndexFunc(out.Ranking, func(r Ranked) bool { return r.Exempt == "" })
				if v.Pod.Exempt != "" || v.Grace < time.Second || len(out.Due) == 0 || i < 0 || out.Ranking[i].Pod.UID != v.Pod.UID {
					t.Fatalf("victim %s with grace %s of %d due", v.Pod.Key(), v.Grace, len(out.Due))
				}
				if !last.IsZero() && !at.IsZero() && !at.After(last) {
					t.Fatalf("a victim on a reading of %s after one of %s", at, last)
				}
				if v.Threshold.Hard() && !v.Threshold.MetWithReclaim(node.Readings[MemoryAvailable]) {
					t.Fatalf("a victim although %+v is above", node.Readings)
				}
			}
			state, last = next, at
		}
	})
}
