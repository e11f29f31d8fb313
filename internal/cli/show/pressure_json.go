package show

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/nodepressure"
	"usher.sh/usher/internal/nodepressure/forecast"
	"usher.sh/usher/internal/nodepressure/record"
)

// JSON is the page for programs: the record of the look, as it was, and what follows from it.
func (p Pressure) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(p.object(), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the record: %w", err)
	}
	return text, nil
}

// Line is JSON on one line.
func (p Pressure) Line() ([]byte, error) {
	text, err := json.Marshal(p.object())
	if err != nil {
		return nil, fmt.Errorf("writing the record: %w", err)
	}
	return text, nil
}

type pressureJSON struct {
	record.Record // first, so that the whole is a record

	Answer     string                        `json:"answer"`
	Supposed   map[nodepressure.Signal]int64 `json:"supposed,omitempty"`
	Focus      nodepressure.Signal           `json:"focus,omitempty"`
	Victim     *firstJSON                    `json:"victim,omitempty"`
	Signals    []signalJSON                  `json:"signals"`
	Conditions []corev1.NodeConditionType    `json:"conditions"`
	Taints     []corev1.Taint                `json:"taints,omitempty"`
	Ranking    []rankedJSON                  `json:"ranking"`
	OOM        []oomJSON                     `json:"oom"`
	OOMTable   nodepressure.OOMTable         `json:"oomTable"`
	OOMWithin  nodepressure.Signal           `json:"oomWithin"`
	Skipped    []nodepressure.Skipped        `json:"skipped,omitempty"`
}

type podRefJSON struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
}

type firstJSON struct {
	podRefJSON

	Signal       nodepressure.Signal `json:"signal"`
	Threshold    string              `json:"threshold"`    // hard or soft
	AfterSeconds float64             `json:"afterSeconds"` // how long the signal has to stay below
	GraceSeconds float64             `json:"graceSeconds"`
	Policy       string              `json:"policy,omitempty"`
	Why          string              `json:"why,omitempty"`
}

type signalJSON struct {
	Signal     nodepressure.Signal   `json:"signal"`
	Reading    *nodepressure.Reading `json:"reading,omitempty"`
	Thresholds []levelJSON           `json:"thresholds"`
}

type levelJSON struct {
	Kind         string                 `json:"kind"`
	Below        string                 `json:"below"`
	GraceSeconds float64                `json:"graceSeconds,omitempty"`
	Limit        *int64                 `json:"limit,omitempty"`
	Headroom     *int64                 `json:"headroom,omitempty"`
	Met          bool                   `json:"met"`
	First        *firstJSON             `json:"first,omitempty"`
	Reclaim      []nodepressure.Reclaim `json:"reclaim,omitempty"`
}

type rankedJSON struct {
	podRefJSON

	QoS      corev1.PodQOSClass `json:"qos,omitempty"`
	Priority int32              `json:"priority"`
	Request  int64              `json:"request"`
	Usage    *int64             `json:"usage,omitempty"`
	Over     *int64             `json:"over,omitempty"`
	Exempt   string             `json:"exempt,omitempty"`
	Policy   string             `json:"policy,omitempty"`
	Rule     nodepressure.Rule  `json:"rule"`
	Why      string             `json:"why"`
}

type oomJSON struct {
	podRefJSON

	Container string `json:"container"`
	Score     int    `json:"score"`
	Adj       int    `json:"oomScoreAdj"`
	Usage     *int64 `json:"usage,omitempty"`
	// Restart is the policy that applies to a container that was killed.
	Restart corev1.RestartPolicy `json:"restart,omitempty"`
}

func (p Pressure) object() pressureJSON {
	f := p.Forecast
	j := pressureJSON{
		Record: p.Record, Answer: p.Answer(), Signals: []signalJSON{}, Conditions: slices.Clone(f.Conditions), Taints: f.Taints,
		Ranking: []rankedJSON{}, OOM: []oomJSON{}, OOMTable: f.OOMTable, OOMWithin: f.OOMWithin, Skipped: f.Skipped, Victim: p.victim(),
	}
	j.Order = f.Order
	if j.Conditions == nil {
		j.Conditions = []corev1.NodeConditionType{}
	}
	if f.Focus != nil {
		j.Focus = f.Focus.Name
	}
	for _, s := range f.Signals {
		j.Signals = append(j.Signals, signalOf(s))
		if slices.Contains(p.Supposed, s.Name) {
			if j.Supposed == nil {
				j.Supposed = map[nodepressure.Signal]int64{}
			}
			j.Supposed[s.Name] = s.Reading.Available
		}
	}
	for _, r := range f.Ranking {
		j.Ranking = append(j.Ranking, rankedOf(r))
	}
	for _, o := range f.OOM {
		j.OOM = append(j.OOM, oomOf(o))
	}
	return j
}

// victim is the pod that goes as things stand, nil where no threshold is met.
func (p Pressure) victim() *firstJSON {
	if p.Forecast.Focus == nil {
		return nil
	}
	l := p.Forecast.Focus.Nearest()
	if l == nil || !l.Met() {
		return nil
	}
	return firstOf(p.Forecast.Focus.Name, l)
}

func firstOf(s nodepressure.Signal, l *forecast.Level) *firstJSON {
	if l.First == nil {
		return nil
	}
	return &firstJSON{
		podRefJSON: refOf(&l.First.Pod), Signal: s, Threshold: l.Threshold.Kind(), AfterSeconds: l.Threshold.Grace.Seconds(),
		GraceSeconds: l.First.Grace.Seconds(), Policy: l.First.Pod.Policy, Why: l.First.Why,
	}
}

func refOf(p *nodepressure.Pod) podRefJSON {
	return podRefJSON{Namespace: p.Namespace, Name: p.Name, UID: p.UID}
}

func signalOf(s forecast.Signal) signalJSON {
	j := signalJSON{Signal: s.Name, Reading: s.Reading, Thresholds: []levelJSON{}}
	for i := range s.Levels {
		l := &s.Levels[i]
		level := levelJSON{Kind: l.Threshold.Kind(), Below: l.Threshold.Below.String(), GraceSeconds: l.Threshold.Grace.Seconds()}
		if s.Reading != nil {
			level.Limit, level.Headroom, level.Met = &l.Limit, &l.Headroom, l.Met()
			level.First, level.Reclaim = firstOf(s.Name, l), l.Reclaim
		}
		j.Thresholds = append(j.Thresholds, level)
	}
	return j
}

func rankedOf(r nodepressure.Ranked) rankedJSON {
	j := rankedJSON{
		podRefJSON: refOf(&r.Pod), QoS: r.Pod.QoS, Priority: r.Pod.Priority, Request: r.Request,
		Exempt: r.Exempt, Policy: r.Pod.Policy, Rule: r.Rule, Why: r.Why,
	}
	if r.Pod.Usage != nil {
		j.Usage, j.Over = &r.Usage, &r.Over
	}
	return j
}

func oomOf(o nodepressure.OOM) oomJSON {
	j := oomJSON{podRefJSON: refOf(&o.Pod), Container: o.Container, Score: o.Score, Adj: o.Adj, Restart: o.Restart}
	if o.Usage >= 0 {
		j.Usage = &o.Usage
	}
	return j
}
