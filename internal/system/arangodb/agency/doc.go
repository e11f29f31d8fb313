// Package agency answers: what does the agency of an ArangoDB deployment say about its servers and its agents?
//
// It is pure: it reads what agents answer, from bytes, and counts. Where an answer is not understood there is an error, and
// what an answer leaves out is not known: it is never taken for empty where that would make a server look safe to lose.
package agency
