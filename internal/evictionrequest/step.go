package evictionrequest

import (
	"slices"
	"time"

	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// step moves the responders on and returns the outcome that may be written with them: an end waits until the active
// responder may have had its last word, and the last responder's end is the end of the eviction.
func (t Target) step(s *api.EvictionStatus, o outcome) (outcome, time.Duration) {
	if len(s.TargetResponders) == 0 {
		if o == awaiting {
			t.choose(s)
			return o, HeartbeatDeadline
		}
		return o, 0
	}
	active := activeIndex(s.TargetResponders)
	if active >= 0 {
		state, wait := t.endOf(statusOf(s, s.TargetResponders[active].Name), o)
		if state == api.ResponderStateActive {
			return awaiting, wait
		}
		s.TargetResponders[active].State = state
	}
	if o != awaiting {
		return o, 0
	}
	if !t.activateNext(s) {
		return exhausted, 0
	}
	return o, HeartbeatDeadline
}

// endOf reports whether the active responder ends now, and as what; if not, how long it has at most.
func (t Target) endOf(r *api.ResponderStatus, o outcome) (api.ResponderStateType, time.Duration) {
	completed := r != nil && r.CompletionTime != nil
	switch {
	case o.ended() && completed:
		return api.ResponderStateCompleted, 0
	case o.ended():
		return orInterrupted(t.endGrace())
	case o == canceled, o == invalid:
		return api.ResponderStateCanceled, 0
	case completed:
		return api.ResponderStateCompleted, 0
	}
	return orInterrupted(t.lastSign(r).Add(HeartbeatDeadline).Sub(t.Now))
}

func orInterrupted(left time.Duration) (api.ResponderStateType, time.Duration) {
	if left > 0 {
		return api.ResponderStateActive, left
	}
	return api.ResponderStateInterrupted, 0
}

func (t Target) endGrace() time.Duration {
	if t.EndedSince.IsZero() {
		return EndGrace
	}
	return t.EndedSince.Add(EndGrace).Sub(t.Now)
}

// lastSign is when the responder last gave a sign of life; its start counts as one. A time more than HeartbeatDeadline ahead is
// none: the custom resource, unlike Kubernetes' own API, takes any time that a responder writes, and a deadline after such a
// time would never pass.
func (t Target) lastSign(r *api.ResponderStatus) time.Time {
	if r == nil {
		return time.Time{}
	}
	for _, sign := range []*metav1.Time{r.HeartbeatTime, r.StartTime} {
		if sign != nil && !sign.After(t.Now.Add(HeartbeatDeadline)) {
			return sign.Time
		}
	}
	return time.Time{}
}

func activeIndex(all []api.TargetResponder) int {
	return slices.IndexFunc(all, func(r api.TargetResponder) bool { return r.State == api.ResponderStateActive })
}

// activateNext starts the first responder that has not run; false if there is none.
func (t Target) activateNext(s *api.EvictionStatus) bool {
	order := slices.Clone(s.TargetResponders)
	sortResponders(order)
	for _, r := range order {
		if r.State == api.ResponderStateInactive {
			t.activate(s, r.Name)
			return true
		}
	}
	return false
}

func (t Target) activate(s *api.EvictionStatus, name string) {
	for i := range s.TargetResponders {
		if s.TargetResponders[i].Name == name {
			s.TargetResponders[i].State = api.ResponderStateActive
		}
	}
	if r := statusOf(s, name); r != nil && r.StartTime == nil {
		r.StartTime = &metav1.Time{Time: t.Now}
	}
}

func statusOf(s *api.EvictionStatus, name string) *api.ResponderStatus {
	for i := range s.Responders {
		if s.Responders[i].Name == name {
			return &s.Responders[i]
		}
	}
	return nil
}
