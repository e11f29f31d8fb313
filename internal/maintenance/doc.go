// Package maintenance answers: which nodes leave service now, on what terms, and when are they given back?
//
// Decide turns all NodeMaintenances and nodes, and what the drains of this process do, into what is to be done to each node and the status
// of each maintenance. What it begins it has written in a status first: an order rests on an entry that was read, never on one that is
// only about to be written. So whoever leads next finds every node that was begun.
package maintenance
