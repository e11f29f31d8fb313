package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

// other is one thing in which a maintenance that is there differs from the one that is wanted.
type other struct {
	field string // of the spec
	fixed bool   // it cannot be changed into what is wanted
	there string // where that is short
}

// sameDeadline is by how much deadlines differ at most that mean the same: one that is given as a duration is another one with every call.
const sameDeadline = time.Minute

// othersThan lists in what a maintenance that is there differs from the one that is wanted. A reason that is not given says nothing.
func othersThan(there, wanted *v1alpha1.NodeMaintenance) []other {
	is, want := &there.Spec, &wanted.Spec
	var all []other
	add := func(differs bool, o other) {
		if differs {
			all = append(all, o)
		}
	}
	add(is.Requester != want.Requester, other{"requester", true, is.Requester})
	add(!apiequality.Semantic.DeepEqual(is.Nodes, want.Nodes), other{field: "nodes", fixed: true})
	add(is.Drain != want.Drain, other{field: "drain"})
	add(!apiequality.Semantic.DeepEqual(is.WhenDrained, want.WhenDrained), other{field: "whenDrained"})
	add(is.Concurrency != want.Concurrency, other{field: "concurrency", there: fmt.Sprintf("--max-parallel %d --max-zones %d", is.Concurrency.Nodes, is.Concurrency.Zones)})
	add(want.Reason != "" && is.Reason != want.Reason, other{field: "reason"})
	add(is.AtDeadline != want.AtDeadline, other{"atDeadline", false, string(is.AtDeadline)})
	add(!closeDeadlines(is.DeadlineTime, want.DeadlineTime), other{"deadlineTime", later(is.DeadlineTime, want.DeadlineTime), deadlineWords(is.DeadlineTime)})
	return all
}

func closeDeadlines(a, b *metav1.Time) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Sub(b.Time).Abs() <= sameDeadline
}

// later reports whether a deadline is later than that of an object that is there, which can only be tightened.
func later(there, wanted *metav1.Time) bool {
	return there != nil && (wanted == nil || wanted.After(there.Time))
}

func deadlineWords(at *metav1.Time) string {
	if at == nil {
		return "none"
	}
	return "--deadline " + at.UTC().Format(time.RFC3339)
}

// another says in what a maintenance of the wanted name is another one, and what can be done.
func (o *maintainOptions) another(there, wanted *v1alpha1.NodeMaintenance, others []other) error {
	var fields []string
	fixed, edit := false, false
	for _, d := range others {
		words := d.field
		if d.there != "" {
			words += " (there: " + d.there + ")"
		}
		fields = append(fields, words)
		fixed, edit = fixed || d.fixed, edit || d.field == "whenDrained"
	}
	ways := []string{"give another --name", "or end it: " + o.commands.In("usher maintain --delete "+there.Name)}
	switch {
	case fixed:
	case edit:
		ways = append([]string{"change that: kubectl edit nodemaintenance " + there.Name}, ways...)
	default:
		patch, err := patchFor(wanted, others)
		if err != nil {
			return err
		}
		ways = append([]string{fmt.Sprintf("change that: kubectl patch nodemaintenance %s --type=merge -p '%s'", there.Name, patch)}, ways...)
	}
	return fmt.Errorf("there is a NodeMaintenance %s with another content, of %s: its %s; %s",
		there.Name, there.Spec.Requester, strings.Join(fields, ", "), strings.Join(ways, ", "))
}

// termsPatch changes what of a maintenance can be changed.
type termsPatch struct {
	Spec struct {
		Reason       *string                          `json:"reason,omitempty"`
		Drain        *v1alpha1.MaintenanceDrain       `json:"drain,omitempty"`
		Concurrency  *v1alpha1.MaintenanceConcurrency `json:"concurrency,omitempty"`
		DeadlineTime *metav1.Time                     `json:"deadlineTime,omitempty"`
		AtDeadline   v1alpha1.DeadlineAction          `json:"atDeadline,omitempty"`
	} `json:"spec"`
}

// patchFor is the patch that makes a maintenance what is wanted, as a shell takes it in single quotes.
func patchFor(wanted *v1alpha1.NodeMaintenance, others []other) (string, error) {
	var p termsPatch
	for _, d := range others {
		switch d.field {
		case "reason":
			p.Spec.Reason = &wanted.Spec.Reason
		case "drain":
			p.Spec.Drain = &wanted.Spec.Drain
		case "concurrency":
			p.Spec.Concurrency = &wanted.Spec.Concurrency
		case "deadlineTime":
			p.Spec.DeadlineTime = wanted.Spec.DeadlineTime
		case "atDeadline":
			p.Spec.AtDeadline = wanted.Spec.AtDeadline
		}
	}
	text, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("writing a patch: %w", err)
	}
	return strings.ReplaceAll(string(text), "'", `'\''`), nil
}
