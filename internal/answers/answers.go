// Package answers answers: what did the apiserver say to a write? A refusal is an answer, not a failure (law 9).
package answers

import "time"

// Code says how the cluster answered.
type Code string

// The answers to a write.
const (
	Accepted             Code = "Accepted"
	Gone                 Code = "Gone"                 // 404, or the name now belongs to another UID
	Conflict             Code = "Conflict"             // the object changed since it was read: look again
	RefusedByBudget      Code = "RefusedByBudget"      // 429 with cause DisruptionBudget
	RefusedForNow        Code = "RefusedForNow"        // 429 without that cause: budget not observed yet, or the server is busy
	SeveralBudgets       Code = "SeveralBudgets"       // the 500 of a pod under more than one budget
	Denied               Code = "Denied"               // an admission webhook or policy said no
	NamespaceTerminating Code = "NamespaceTerminating" // 403 with that cause
	Forbidden            Code = "Forbidden"            // the caller may not do this
	Unavailable          Code = "Unavailable"          // no answer: network, timeout, 5xx
	Rejected             Code = "Rejected"             // anything else; it will not get better by itself
)

// Answer is what the cluster said to a write.
type Answer struct {
	Code       Code
	Message    string        // the server's words
	RetryAfter time.Duration // what the server asked for, or when what was held back is due; 0 if nothing
	Admission  bool          // RefusedForNow: a webhook has said so
	Vanishing  bool          // permits: the policy in which it was to be written is being deleted, and would take it along
}
