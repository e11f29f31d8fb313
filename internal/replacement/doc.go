// Package replacement answers: which members are unhealthy since when, which of them get a successor now, and what is done next for one?
//
// Step says what is done next for a member that is replaced, by a ReplacementRequest, and Written and Reported what its status is then.
//
// Observe carries what is remembered of each member (since when each of its conditions stands) on to what is known of it now. Decide says
// which members are marked for replacement, and what the others wait for. Both are functions of their input, and nothing is remembered but
// what they return: a process that is killed in between goes on from what was written down.
//
// What is not known neither sets nor clears a condition, and none leads to a replacement that the last look has not seen. The conditions, the limits
// and their defaults are those of source 002, "Automatic Replacements".
package replacement
