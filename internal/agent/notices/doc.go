// Package notices answers: what do the services of this node's machine say of its end?
//
// Each source is asked again and again, or says so by itself, in a goroutine of its own. What stands by its answers is on a Board. An event is
// withdrawn once the source has answered without it: a source that does not answer, or not as it is documented to, withdraws nothing.
package notices
