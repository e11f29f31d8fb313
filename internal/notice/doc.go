// Package notice answers: which news says that a node will go, and what follows from it?
//
// A Notice is what one source has said of one node: a spot instance is interrupted, maintenance is scheduled, an alert fires. One event of a
// source is one notice, however often it is reported. Decide turns the notices of nodes, and what earlier ones have led to, into the
// NodeMaintenances to make, to tighten and to delete, and into what is only reported.
package notice
