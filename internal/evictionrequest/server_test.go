package evictionrequest_test

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/internal/evictionrequest"
)

// The rules by which the server takes or refuses a status, written a second time from the specification, so that the
// judge does not use what it judges.

const (
	skew   = 30 * time.Second
	decade = 10 * 365 * 24 * time.Hour
)

// judge collects what a server would say to a status update.
type judge struct {
	now      time.Time
	old, new *api.EvictionStatus
	said     []string
}

// refusals returns why the server would not take the update; nothing when it would.
func refusals(old, to *api.EvictionStatus, now time.Time) []string {
	j := &judge{now: now, old: old, new: to}
	j.conditions()
	j.lists()
	if len(j.said) == 0 {
		j.states()
		j.entries()
	}
	return j.said
}

func (j *judge) no(format string, args ...any) { j.said = append(j.said, fmt.Sprintf(format, args...)) }

func (j *judge) final() bool {
	return evictionrequest.Failed(j.new.Conditions) || evictionrequest.Evicted(j.new.Conditions)
}

func (j *judge) conditions() {
	for _, c := range j.old.Conditions {
		now := meta.FindStatusCondition(j.new.Conditions, c.Type)
		if c.Status == metav1.ConditionTrue && (now == nil || now.Status != metav1.ConditionTrue || now.Reason != c.Reason) {
			j.no("condition %s goes back", c.Type)
		}
	}
	for _, c := range j.new.Conditions {
		if c.Reason == "" || c.LastTransitionTime.IsZero() {
			j.no("condition %s is not whole", c.Type)
		}
	}
	if j.new.ObservedGeneration == nil || j.old.ObservedGeneration != nil && *j.new.ObservedGeneration < *j.old.ObservedGeneration {
		j.no("observedGeneration goes back")
	}
}

func (j *judge) lists() {
	if len(j.new.Requesters) > 100 || len(j.new.TargetResponders) > 11 {
		j.no("%d requesters, %d responders", len(j.new.Requesters), len(j.new.TargetResponders))
	}
	if len(j.old.TargetResponders) > 0 && !slices.Equal(sorted(names(j.old.TargetResponders)), sorted(names(j.new.TargetResponders))) {
		j.no("the target responders change")
	}
	var entries []string
	for _, r := range j.new.Responders {
		entries = append(entries, r.Name)
	}
	if !slices.Equal(sorted(entries), sorted(names(j.new.TargetResponders))) {
		j.no("responders %v are not the target responders", entries)
	}
	if all := sorted(names(j.new.TargetResponders)); len(slices.Compact(all)) != len(j.new.TargetResponders) {
		j.no("a responder twice")
	}
}

// states follows the responders in the order of their priorities. The order itself is checked by a table.
func (j *judge) states() {
	before := map[string]api.ResponderStateType{}
	wasActive := -1
	for i, r := range j.new.TargetResponders {
		before[r.Name] = api.ResponderStateInactive
		for _, o := range j.old.TargetResponders {
			if o.Name == r.Name {
				before[r.Name] = o.State
			}
		}
		if before[r.Name] == api.ResponderStateActive {
			wasActive = i
		}
	}
	for i, r := range j.new.TargetResponders {
		if !slices.Contains(j.allowed(i, wasActive, before[r.Name]), r.State) {
			j.no("%s goes from %s to %s", r.Name, before[r.Name], r.State)
		}
		j.ending(r)
	}
}

var ends = []api.ResponderStateType{api.ResponderStateCompleted, api.ResponderStateCanceled, api.ResponderStateInterrupted}

func (j *judge) allowed(i, wasActive int, before api.ResponderStateType) []api.ResponderStateType {
	ended := wasActive >= 0 && slices.Contains(ends, j.new.TargetResponders[wasActive].State)
	next := len(j.old.TargetResponders) == 0 && i == 0 || ended && i == wasActive+1
	switch {
	case slices.Contains(ends, before):
		return []api.ResponderStateType{before}
	case i == wasActive && (ended || j.final()):
		return ends
	case i == wasActive, next && !j.final():
		return []api.ResponderStateType{api.ResponderStateActive}
	}
	return []api.ResponderStateType{api.ResponderStateInactive}
}

// ending checks that a responder was not ended too early.
func (j *judge) ending(r api.TargetResponder) {
	entry := entryOf(j.new, r.Name)
	if r.State == api.ResponderStateCompleted && entry.CompletionTime == nil {
		j.no("%s completes without saying so", r.Name)
	}
	if r.State == api.ResponderStateActive || entry.StartTime == nil || entry.CompletionTime != nil || j.final() {
		return
	}
	last := entry.StartTime
	if entry.HeartbeatTime != nil {
		last = entry.HeartbeatTime
	}
	if j.now.Before(last.Add(20*time.Minute - skew)) {
		j.no("%s ends although its last heartbeat was %s ago", r.Name, j.now.Sub(last.Time))
	}
}

func (j *judge) entries() {
	for _, r := range j.new.TargetResponders {
		old, now := entryOf(j.old, r.Name), entryOf(j.new, r.Name)
		if r.State == api.ResponderStateActive && now.StartTime == nil {
			j.no("%s is Active without a start", r.Name)
		}
		if old == nil {
			old = &api.ResponderStatus{Name: r.Name}
		} else if r.State != api.ResponderStateActive && !equality.Semantic.DeepEqual(old, now) {
			j.no("the entry of %s changes while it is %s", r.Name, r.State)
		}
		j.times(old, now)
		if now.Message != nil && utf8.RuneCountInString(*now.Message) > 4000 {
			j.no("%s talks too much", r.Name)
		}
	}
}

func (j *judge) times(old, now *api.ResponderStatus) {
	for what, t := range map[string][2]*metav1.Time{
		"start": {old.StartTime, now.StartTime}, "completion": {old.CompletionTime, now.CompletionTime},
		"heartbeat": {old.HeartbeatTime, now.HeartbeatTime},
	} {
		was, is := t[0], t[1]
		if was.Equal(is) {
			continue
		}
		switch {
		case was != nil && (is == nil || what != "heartbeat" || is.Before(was)):
			j.no("%s of %s changes from %v to %v", what, now.Name, was, is)
		case is.Sub(j.now).Abs() >= skew:
			j.no("%s of %s is %s away from now", what, now.Name, is.Sub(j.now))
		case is.Before(now.StartTime):
			j.no("%s of %s is before its start", what, now.Name)
		}
	}
	was, is := old.ExpectedCompletionTime, now.ExpectedCompletionTime
	if is != nil && !was.Equal(is) && (is.Before(now.StartTime) || is.Time.Before(j.now.Add(-skew)) || is.After(j.now.Add(decade))) {
		j.no("%s expects %v", now.Name, is)
	}
}

func entryOf(s *api.EvictionStatus, name string) *api.ResponderStatus {
	for i := range s.Responders {
		if s.Responders[i].Name == name {
			return &s.Responders[i]
		}
	}
	return nil
}

func names(all []api.TargetResponder) []string {
	var found []string
	for _, r := range all {
		found = append(found, r.Name)
	}
	return found
}

func sorted(all []string) []string {
	all = slices.Clone(all)
	slices.Sort(all)
	return all
}
