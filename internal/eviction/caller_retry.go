package eviction

import "time"

// callerRetryGrace is how long the responder waits for a caller that admission has refused to retry, before it evicts the pod itself. It
// runs from the caller's last retry, which is written once a minute. Callers retry by name every few seconds: were Usher faster, they
// would evict the pod that has the name next, and move a member once more that has just found its place.
const callerRetryGrace = 75 * time.Second

// pendingCaller returns the caller that is expected to retry, and until when; "" where others than admission have requested the
// eviction, or where one asks only once.
func (in *ResponderInput) pendingCaller() (who string, until time.Time) {
	if !in.OnlyAdmission {
		return "", time.Time{}
	}
	for i := range in.Requests {
		request := &in.Requests[i]
		end := request.Asked.Add(callerRetryGrace)
		switch {
		case request.Held:
			return "", time.Time{}
		case end.After(until) && end.After(in.Now) && request.Asked.Sub(in.Now) < callerRetryGrace: // or a clock was set back
			who, until = request.Requester, end
		}
	}
	return who, until
}

// waitForCaller leaves the pod to a caller.
func (in *ResponderInput) waitForCaller(verdict *Verdict, who string, until time.Time) []Action {
	return in.respond(Report{
		Message: verdict.WhyItGoes() + "; " + who + " was refused before and takes it away when asking again, or else Usher does at " +
			until.UTC().Format(time.RFC3339),
		Expected: until,
	})
}
