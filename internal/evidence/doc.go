// Package evidence answers: what does a policy's system say at this moment, and how old is its word?
//
// An Observer holds one connection and the newest evidence for each policy. Whoever needs evidence names the epoch and the
// age that it can live with: what is known is given at once, and only what is too old is asked for, by one observation
// for all who wait. Observations end by themselves, so that a system that hangs holds up only those that ask for it,
// and those only until their own patience ends.
package evidence
