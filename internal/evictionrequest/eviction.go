package evictionrequest

import (
	"time"

	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// EvictionPlan is what an eviction's status must be.
type EvictionPlan struct {
	// Status is whole: also what responders wrote, which StatusPatch leaves to them.
	Status  api.EvictionStatus
	Changed bool
	Again   time.Duration // when to look again although nothing changed; 0 for never
}

// PlanEviction takes an eviction one step further.
func PlanEviction(t Target, e *api.Eviction) EvictionPlan {
	if Final(e) {
		return EvictionPlan{Status: e.Status}
	}
	plan := EvictionPlan{Status: *e.Status.DeepCopy()}
	found, why := t.outcome(e)
	o, again := t.step(&plan.Status, found)
	plan.Again = again
	v := o.verdict()
	if o == invalid {
		v.message = why
	}
	v.set(&plan.Status.Conditions, e.Generation, t.Now)
	plan.Status.ObservedGeneration = &e.Generation
	if o != awaiting || !found.ended() { // or else it ends soon, and that is one write
		plan.Status.Requesters = t.requesters(e.Status.Requesters)
	}
	plan.Changed = !equality.Semantic.DeepEqual(plan.Status, e.Status)
	return plan
}

// outcome says what the facts alone make of an eviction, and why it is invalid if it is.
func (t Target) outcome(e *api.Eviction) (outcome, string) {
	relevant := t.relevant()
	switch {
	case e.Spec.Target.Pod == nil:
		return invalid, "the eviction names no pod, and only pods can be evicted"
	case relevant != nil && relevant.Name != e.Name:
		return invalid, "eviction " + relevant.Name + " of the same pod came first"
	case t.grouped():
		return invalid, "the pod belongs to a PodGroup (spec.schedulingGroup)"
	case t.Pod == nil:
		return deleted, ""
	case t.terminal():
		return terminal, ""
	case !t.wanted():
		return canceled, ""
	}
	return awaiting, ""
}
