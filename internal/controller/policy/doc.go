// Package policy answers: what does a policy's status say, and which of the things that were done for its members can be
// settled? It looks at the policy, its pods and the newest evidence, writes what it sees into the status, carries out what
// eviction.ReconcileStatus decides, and keeps the labels by which admission finds governed pods and namespaces.
//
// Epoch, leaving and preparations in the status are never written from here but by the actions that were decided upon with
// the policy's resource version; the rest of the status is this package's alone.
package policy
