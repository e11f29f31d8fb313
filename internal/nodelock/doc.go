// Package nodelock answers: which labels and locks are to be written on nodes for a policy with spec.nodeLock, and which of its members are asked to
// leave? Its protocol has two parties, of which either may be another operator's. The waiter's label says "False" while it does its work on a node
// and "True" once it has to go, and stays when it is gone. Each holder's lock is an annotation of the node for as long as it is there. A holder that
// finds "True" leaves, and takes its lock off once it is gone; the waiter goes when no lock is left. That it stays until then is decided by package
// eviction.
//
// Label and lock are on one object, so that whichever is written second is seen by its writer beside the first.
package nodelock
