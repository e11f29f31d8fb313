package evictionrequest

import (
	"fmt"
	"time"

	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
)

// RequestPlan is what must be written because of a request.
type RequestPlan struct {
	Status  api.EvictionRequestStatus
	Changed bool          // Status is not what the request says now
	Create  *api.Eviction // to be applied; nil if none is needed
	Again   time.Duration // when to look again although nothing changed; 0 for never
}

// UnseenFor is for how long an eviction that was created and is not seen yet counts as one that will be: until then none is created in its
// place, and then the request is looked at again. It may be gone without an event, if the watch of evictions did not show it: owned by
// another request alone, it went with that.
const UnseenFor = 10 * time.Second

// PlanRequest says what a request's status must be, and whether an eviction must be created for it. Other requests make no
// difference to it: the target's need not be known.
func PlanRequest(t Target, r *api.EvictionRequest) RequestPlan {
	if Settled(r) {
		return RequestPlan{Status: r.Status}
	}
	plan := RequestPlan{Status: *r.Status.DeepCopy()}
	relevant := t.relevant()
	if unseen := t.unseen(); relevant == nil && t.Pod == nil && unseen > 0 {
		plan.Again = unseen
		return plan
	}
	if why := t.refusal(r, relevant); why != "" {
		v := invalid.verdict()
		v.message = why
		plan.write(r, v, t.Now)
		return plan
	}
	if relevant == nil {
		plan.write(r, awaiting.verdict(), t.Now)
	} else {
		plan.write(r, verdictOf(relevant), t.Now)
	}
	if Stands(r) && (relevant == nil || Failed(relevant.Status.Conditions)) {
		plan.create(t, r)
	}
	return plan
}

// create has the next eviction created, unless that has to wait, or has been done.
func (p *RequestPlan) create(t Target, r *api.EvictionRequest) {
	if p.Again = t.pause(); p.Again > 0 {
		return
	}
	next := t.newEviction(r)
	if unseen := t.unseen(); unseen > 0 && t.Made.Name == next.Name {
		p.Again = unseen
		return
	}
	p.Again, p.Create = UnseenFor, next
}

// unseen returns for how long what was created last for the pod still counts as one that will be seen; 0 if nothing does.
func (t Target) unseen() time.Duration {
	age := t.Now.Sub(t.Made.Time)
	if t.Made.Name == "" || age < 0 || age >= UnseenFor {
		return 0
	}
	return UnseenFor - age
}

func (p *RequestPlan) write(r *api.EvictionRequest, v verdict, now time.Time) {
	v.set(&p.Status.Conditions, r.Generation, now)
	p.Status.ObservedGeneration = &r.Generation
	p.Changed = !equality.Semantic.DeepEqual(p.Status, r.Status)
}

// Settled reports whether a request has its last answer. One that failed otherwise may be served by a later eviction.
func Settled(r *api.EvictionRequest) bool {
	return Evicted(r.Status.Conditions) || isInvalid(r.Status.Conditions)
}

// refusal returns why a request can never be served; empty if it can.
func (t Target) refusal(r *api.EvictionRequest, relevant *api.Eviction) string {
	switch {
	case r.Spec.Target.Pod == nil:
		return "the request names no pod, and only pods can be evicted"
	case relevant == nil && t.Pod == nil:
		return fmt.Sprintf("there is no pod %s with UID %s; request the eviction of the pod that has this name now, if it is meant",
			t.Ref.Name, t.Ref.UID)
	case t.grouped():
		return fmt.Sprintf("pod %s belongs to a PodGroup (spec.schedulingGroup), and such pods cannot be evicted by request", t.Ref.Name)
	}
	return ""
}

// Bounds of the pause between an attempt that every responder gave up and the next one.
const (
	firstPause = 5 * time.Second
	lastPause  = 10 * time.Minute
)

// pause returns how long the next attempt must still wait. Responders that give up at once, or a client that makes evictions invalid, would
// otherwise make a new one as fast as the server can store it. An attempt that was canceled is no failure of theirs.
func (t Target) pause() time.Duration {
	pause, until := firstPause, t.Now
	for _, e := range t.evictions() {
		c := meta.FindStatusCondition(e.Status.Conditions, string(api.EvictionConditionFailed))
		if c == nil || c.Reason != string(api.EvictionConditionReasonNoFurtherResponder) && c.Reason != string(api.EvictionConditionReasonEvictionInvalid) {
			pause, until = firstPause, t.Now
			continue
		}
		until = c.LastTransitionTime.Add(pause)
		pause = min(2*pause, lastPause)
	}
	return until.Sub(t.Now)
}
