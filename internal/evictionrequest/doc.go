// Package evictionrequest answers: how does an eviction that several requesters want, and several responders serve, go on?
//
// It is the evictionrequest-controller and the imperative responder of KEP-4563 as functions from facts to the objects
// that must be written, and the contract with them for every other requester and responder: how to ask, how to
// withdraw, how to find one's entry, how to report so that the server accepts it. The objects are those of
// lifecycle.k8s.io/v1alpha1, also where a cluster knows them only as custom resources under lifecycle.usher.sh.
//
// The order of effects is part of the contract. A status is written only on the version of the object that it was
// computed from. A responder's end, the next one's start and the final conditions are one write, because the server
// refuses every state between them.
package evictionrequest
