package histories

import (
	"time"

	"usher.sh/usher/api/v1alpha1"
)

// listing returns the site where its policy says how members leave its system's list and join it, nil where it does not.
func (w *world) listing() *httpSite {
	site, ok := w.site.(*httpSite)
	if !ok || !site.bySteps {
		return nil
	}
	return site
}

// checkLeaves: a member is taken off its system's list only for a request that stands and was not deleted, before that says that it has left, which the policy's
// status says, while nothing of it runs and others have its data, and of no more members at a time than may be. What happened after Usher began to look, or
// after the system was asked, cannot be known.
func (w *world) checkLeaves(member string, looked time.Time) {
	q := w.requestWhere(looked, func(q *v1alpha1.ReplacementRequest) bool {
		p := q.Status.Predecessor
		return q.Status.Step == v1alpha1.ReplacementRemoving && q.Spec.Member.ID == member && p != nil && (p.LeftTime == nil || !p.LeftTime.Time.Before(looked.Truncate(time.Second)))
	})
	switch {
	case q == nil:
		w.fail("REPLACED", "%s is taken off the list, and no request says that it is to leave", member)
		return
	case q.DeletionTimestamp != nil && q.DeletionTimestamp.Time.Before(looked):
		w.fail("REPLACED", "%s is taken off the list, whose request was deleted before", member)
	case !w.isReplaced(member):
		w.fail("PERMIT", "%s is taken off the list, and no policy's status says that it is replaced", member)
	case w.processRuns(member):
		w.fail("REPLACED", "%s is taken off the list, and a process of it runs", member)
	}
	if since, misses := w.safety.missed[member]; misses && time.Since(since) > maxAge+w.site.lag(w.roleOf(member)) {
		w.fail("REPLACED", "%s is taken off the list, and it alone has what it has since %.3f", member, since.Sub(w.begun).Seconds())
	}
	w.safety.excused = w.safety.excused || w.local().wouldLoseDisk(member) != ""
	w.awaits[member] = awaited{request: q.UID}
	w.checkOneAtATime(member + " is taken off the list")
}

// checkJoins: a member is put on its system's list only for a request whose predecessor has left, once another pod has its name.
func (w *world) checkJoins(member string, looked time.Time) {
	pod := w.store.pod(member)
	q := w.requestWhere(looked, func(q *v1alpha1.ReplacementRequest) bool {
		return q.Status.Step == v1alpha1.ReplacementJoining && q.Spec.Member.ID == member && q.Status.Predecessor != nil
	})
	if q == nil || pod != nil && pod.UID == q.Status.Predecessor.PodUID {
		w.fail("REPLACED", "%s is put on the list, and no request says that it is a successor", member)
	}
}

// checkListed: a member whose last replacement is complete is on its system's list.
func (w *world) checkListed() {
	site := w.listing()
	if site == nil {
		return
	}
	last := map[string]v1alpha1.ReplacementRequestStatus{}
	for _, q := range list[*v1alpha1.ReplacementRequest](w.store, replaces) {
		if was, known := last[q.Spec.Member.ID]; q.Status.StepTime != nil && (!known || was.StepTime.Before(q.Status.StepTime)) {
			last[q.Spec.Member.ID] = q.Status
		}
	}
	for _, p := range site.members() {
		if last[p.pod].Step == v1alpha1.ReplacementComplete && site.here.forgotten[p.pod] {
			w.fail("LIVENESS", "the replacement of %s is complete, and it is not on the list", p.pod)
		}
	}
}

// listed reports whether the members of a role leave their system's list.
func (w *world) listed(role string) bool {
	return w.listing() != nil && role == "keeper"
}
