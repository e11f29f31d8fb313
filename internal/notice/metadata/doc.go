// Package metadata answers: what does an answer of a cloud's metadata service say of the machine that asked?
//
// Each function takes one answer as it came and returns the events that stand by it. An answer that is not what the service is documented to
// say is an error, and says nothing about any event: that a page of HTML lists none does not mean that there is none.
package metadata
