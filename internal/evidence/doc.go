// Package evidence answers: what does a policy's system say at this moment, and how old is its word?
//
// An Observer holds one connection and the newest evidence for each policy. A caller that needs evidence names the epoch
// and the age that it accepts: what is known is given at once, and only what is too old is asked for, by one observation
// for all callers that wait. Observations end by themselves, so that a system that hangs holds up only the callers that ask
// for it, and those only until their own contexts end.
package evidence
