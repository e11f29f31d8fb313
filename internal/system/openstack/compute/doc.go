// Package compute answers: what is on a compute host, and what is next to be asked of Nova so that nothing is?
//
// It decides on one look at Nova and does nothing itself. What Nova has answered to a request is no part of the look: it accepts with 202 what it then does
// not do, so that only its listings count.
package compute
