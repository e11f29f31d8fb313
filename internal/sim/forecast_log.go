package sim

import (
	"cmp"
	"slices"
	"time"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// forecastLog writes down what happens in a forecast.
type forecastLog struct {
	sim    *Sim
	steps  []Step
	uses   map[*budgetTracker]*BudgetUse
	surges map[snapshot.Key]*Surge
	ended  time.Duration
	writes int
}

func newDiary(s *Sim) forecastLog {
	return forecastLog{sim: s, uses: map[*budgetTracker]*BudgetUse{}, surges: map[snapshot.Key]*Surge{}}
}

func (y *forecastLog) now() time.Duration { return y.sim.now.Sub(y.sim.start) }

// note enters an action that was accepted.
func (y *forecastLog) note(a drain.Action) {
	y.writes++
	step := y.stepFor(a)
	switch a.Kind {
	case drain.Evict, drain.Delete:
		step.leave++
		step.Pods = append(step.Pods, a.Pod)
		y.use(a.Pod)
	case drain.LowerCost, drain.RestoreCost:
		step.Pods = append(step.Pods, a.Pod)
	case drain.Scale:
		step.Target, step.Replicas = a.Workload.Kind+" "+a.Workload.Key().String(), a.Replicas
		step.leave = min(y.chosen(a.Workload), max(0, int(a.Workload.Replicas-a.Replicas)))
		y.scaled(a)
	case drain.ScaleMin:
		step.Target, step.Replicas = "HorizontalPodAutoscaler "+a.Autoscaler.Key().String(), a.Replicas
	case drain.Ask:
		step.leave++
		step.Pods = append(step.Pods, a.Pod)
	case drain.Withdraw, drain.RenewLease, drain.DeleteLease:
	case drain.Cordon, drain.Mark, drain.Uncordon, drain.Unmark:
		step.Nodes = append(step.Nodes, a.Node.Name)
	}
}

// asked returns how many pods the drain only asked for: a policy governs them.
func (y *forecastLog) asked() int {
	n := 0
	for i := range y.steps {
		if y.steps[i].Kind == drain.Ask {
			n += len(y.steps[i].Pods)
		}
	}
	return n
}

// stepFor returns the step of this moment that takes the action in, a new one for
// what scales something.
func (y *forecastLog) stepFor(a drain.Action) *Step {
	now := y.now()
	for i := len(y.steps) - 1; i >= 0 && y.steps[i].At == now; i-- {
		s := &y.steps[i]
		if s.Kind == a.Kind && s.Why == a.Why && s.Target == "" {
			return s
		}
	}
	y.steps = append(y.steps, Step{At: now, Kind: a.Kind, Why: a.Why})
	return &y.steps[len(y.steps)-1]
}

func (y *forecastLog) use(p *snapshot.Pod) {
	for _, g := range y.sim.guards.of(p) {
		u := y.uses[g]
		if u == nil {
			u = &BudgetUse{Budget: g.budget.Key(), First: y.now()}
			y.uses[g] = u
		}
		u.Evictions++
		u.Last = y.now()
	}
}

// chosen counts the pods of a Deployment that a scaling down removes first. They are
// counted before it happens.
func (y *forecastLog) chosen(w *snapshot.Workload) int {
	n := 0
	for _, set := range y.sim.truth.WorkloadsOf(w.AsOwner()) {
		for _, p := range y.sim.truth.PodsOf(set.AsOwner()) {
			if p.CostMark != "" && !p.Terminating() {
				n++
			}
		}
	}
	return n
}

func (y *forecastLog) scaled(a drain.Action) {
	key := a.Workload.Key()
	s := y.surges[key]
	if s == nil && a.Surge == nil {
		return // it takes back what another client has started
	}
	if s == nil {
		s = &Surge{Workload: key, From: a.Workload.Replicas, Start: y.now()}
		y.surges[key] = s
	}
	s.To = max(s.To, a.Replicas)
	s.End = 0
	if a.Surge == nil {
		s.End = y.now()
	}
}

func (y *forecastLog) budgets() []BudgetUse {
	all := make([]BudgetUse, 0, len(y.uses))
	for g, u := range y.uses {
		u.Lowest, u.Desired = g.lowest, g.budget.Desired
		all = append(all, *u)
	}
	slices.SortFunc(all, func(a, b BudgetUse) int {
		return cmp.Or(cmp.Compare(a.Budget.Namespace, b.Budget.Namespace), cmp.Compare(a.Budget.Name, b.Budget.Name))
	})
	return all
}

func (y *forecastLog) surgeList() []Surge {
	all := make([]Surge, 0, len(y.surges))
	for _, s := range y.surges {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b Surge) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Workload.String(), b.Workload.String()))
	})
	return all
}

// waves groups the removals: a pause longer than a tick begins a new one.
func (y *forecastLog) waves(tick time.Duration) []Wave {
	var all []Wave
	for i := range y.steps {
		s := &y.steps[i]
		if s.leave == 0 {
			continue
		}
		if n := len(all); n == 0 || s.At-all[n-1].To > tick {
			all = append(all, Wave{From: s.At})
		}
		last := &all[len(all)-1]
		last.To, last.Pods = s.At, last.Pods+s.leave
	}
	return all
}
