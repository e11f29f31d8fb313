// Package repair answers: what makes it be looked at again which members of a policy are unhealthy, and how is that written down and replaced?
//
// What follows from what is known, package replacement decides.
package repair
