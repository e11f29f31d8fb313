// Package webhook answers: what is the apiserver answered when a governed pod is to be evicted, deleted or created, or
// to write a policy?
//
// The answers themselves are package eviction's. This package reads the question, gathers the facts through its ports,
// carries out what must be done before the answer is given, and words the answer as the API wants it. It ends before the
// apiserver's timeout does: a refusal that says what is still being asked is worth more than a timeout that says nothing.
//
// An error in here refuses what could lose data (evicting and deleting governed pods, writing a policy) and lets through
// what could not (creating a pod), or what is only audited.
package webhook
