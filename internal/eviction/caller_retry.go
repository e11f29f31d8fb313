package eviction

import "time"

// callerRetryGrace is how long a caller that admission has refused is left to take the pod away himself, from when he is known to
// have asked last, which is written down once a minute. Callers ask by name and again every few seconds: were Usher faster,
// they would take the pod that has the name next, and move a member once more that has just found its place.
const callerRetryGrace = 75 * time.Second

// pendingCaller returns the caller who is expected to ask again, and until when. Nobody is where others than admission want the
// pod gone, or where one asks only once.
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
func (in *ResponderInput) waitForCaller(who string, until time.Time) []Action {
	return in.tell(Report{
		Message: "its system lets it go; " + who + " was refused before and takes it away when asking again, or else Usher does at " +
			until.UTC().Format(time.RFC3339),
		Expected: until,
	})
}
