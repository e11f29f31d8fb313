// Package arangosim answers: what would a deployment of ArangoDB say and do?
//
// It keeps a real agency tree, which agents answer from over HTTP as ArangoDB's do, and a supervision that moves shards step
// by step as Tick is called. Nothing moves by itself and no time passes otherwise, so that the same calls have the same
// answers. What is on the disks is kept apart from what the tree says: WouldLose looks at disks only.
package arangosim
