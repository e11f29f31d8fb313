// Package lostnode answers: which node is lost, what is its fence to do next, and is it proven off?
//
// Begin looks at all nodes and says which fences are to be begun. Step looks at one fence and says what is written down and what is
// done then. A process that is killed between any two of these goes on from what is written down: a request that was written down and
// has no answer is unknown, what the machine says is observed before anything is asked of it, and nothing is released before the proof.
//
// What a node says of itself (labels, annotations, addresses) proves nothing. Its boot id and its Ready condition count against a fence
// only: they stop it, and make it end.
package lostnode
