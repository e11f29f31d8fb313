// Package memberset answers: what is done next for a MemberSet? Which members are made, which are marked to go, and how do they join and leave?
//
// Decide is a function of what is known of a set, its members' objects, its system's list and the ReplacementRequests, which are the marks. A member that is
// marked does not count where the set grows, so that another is made for it; it goes once there are enough without it, and its request says that it may. The
// model is source 002: a replacement is growth, followed by a removal.
//
// What a decision rests on is in the set's status before anything is done by it, so that a process that is killed in between goes on from there.
package memberset
