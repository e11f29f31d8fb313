package show

import (
	"encoding/json"
	"slices"

	"usher.sh/usher/internal/drain"
)

type planJSON struct {
	Nodes      []string      `json:"nodes"`
	Outcome    string        `json:"outcome"`
	Pods       int           `json:"pods"`
	Seconds    float64       `json:"seconds"`
	Recovered  float64       `json:"recoveredSeconds"`
	Precision  float64       `json:"precisionSeconds"`
	Requests   int           `json:"requests"`
	Steps      []stepJSON    `json:"steps"`
	Order      []orderJSON   `json:"order"`
	Waves      []waveJSON    `json:"waves"`
	Budgets    []budgetJSON  `json:"budgets"`
	Surges     []surgeJSON   `json:"surges"`
	Left       []stayJSON    `json:"left"`
	Notes      []string      `json:"notes"`
	Unknown    []string      `json:"unknown"`
	Objections []blockerJSON `json:"objections"`
	Blockers   []blockerJSON `json:"blockers"`
	GoOn       string        `json:"goOn,omitempty"`
}

type stepJSON struct {
	At       float64   `json:"atSeconds"`
	Kind     string    `json:"kind"`
	Pods     []podJSON `json:"pods,omitempty"`
	Nodes    []string  `json:"nodes,omitempty"`
	Target   string    `json:"target,omitempty"`
	Replicas *int32    `json:"replicas,omitempty"`
	Why      string    `json:"why,omitempty"`
}

type waveJSON struct {
	From float64 `json:"fromSeconds"`
	To   float64 `json:"toSeconds"`
	Pods int     `json:"pods"`
}

type budgetJSON struct {
	Namespace string  `json:"namespace"`
	Name      string  `json:"name"`
	Evictions int     `json:"evictions"`
	Desired   int32   `json:"desired"`
	Lowest    int32   `json:"lowest"`
	First     float64 `json:"firstSeconds"`
	Last      float64 `json:"lastSeconds"`
}

type surgeJSON struct {
	Namespace string  `json:"namespace"`
	Name      string  `json:"name"`
	From      int32   `json:"from"`
	To        int32   `json:"to"`
	Start     float64 `json:"startSeconds"`
	End       float64 `json:"endSeconds,omitempty"`
}

type stayJSON struct {
	podJSON

	Node string `json:"node,omitempty"`
	Why  string `json:"why"`
}

// JSON is the plan for programs, with everything in it.
func (p Plan) JSON() ([]byte, error) {
	out := planJSON{
		Nodes: p.Nodes, Outcome: string(p.Outcome), Pods: p.Pods, Requests: p.Requests,
		Seconds: p.Duration.Seconds(), Recovered: p.Recovered.Seconds(), Precision: p.Tick.Seconds(),
		Steps: p.stepsJSON(), Order: ordersJSON(p.Orders), Waves: []waveJSON{}, Budgets: []budgetJSON{}, Surges: []surgeJSON{}, Left: []stayJSON{},
		Notes: append([]string{}, p.Notes...), Unknown: append([]string{}, p.Unknown...),
		Objections: blockersJSON(p.Objections), Blockers: blockersJSON(p.blockers()), GoOn: p.Accept,
	}
	for _, w := range p.Waves {
		out.Waves = append(out.Waves, waveJSON{w.From.Seconds(), w.To.Seconds(), w.Pods})
	}
	for _, b := range p.Budgets {
		out.Budgets = append(out.Budgets, budgetJSON{
			b.Budget.Namespace, b.Budget.Name, b.Evictions, b.Desired, b.Lowest, b.First.Seconds(), b.Last.Seconds(),
		})
	}
	for _, s := range p.Surges {
		out.Surges = append(out.Surges, surgeJSON{
			s.Workload.Namespace, s.Workload.Name, s.From, s.To, s.Start.Seconds(), s.End.Seconds(),
		})
	}
	for _, l := range p.Left {
		out.Left = append(out.Left, stayJSON{podJSON{l.Pod.Namespace, l.Pod.Name, string(l.Pod.UID)}, l.Node, l.Why})
	}
	if p.OneLine {
		return json.Marshal(out)
	}
	return json.MarshalIndent(out, "", "  ")
}

func (p Plan) stepsJSON() []stepJSON {
	steps := make([]stepJSON, 0, len(p.Steps))
	for _, s := range p.Steps {
		step := stepJSON{At: s.At.Seconds(), Kind: string(s.Kind), Nodes: s.Nodes, Target: s.Target, Why: s.Why}
		if slices.Contains([]drain.Kind{drain.Scale, drain.ScaleMin}, s.Kind) {
			step.Replicas = &s.Replicas
		}
		for _, pod := range s.Pods {
			step.Pods = append(step.Pods, podJSON{pod.Namespace, pod.Name, string(pod.UID)})
		}
		steps = append(steps, step)
	}
	return steps
}
