// Package nodelock answers: do nodes say what spec.nodeLock of policies has them say? It gathers what is known of a policy's members and their nodes,
// carries out what package internal/nodelock decides, as the policy's ServiceAccount, and says in the policy's status what keeps it from that. Its keys
// are policies; those without nodeLock are looked at only where a lock of theirs is left.
package nodelock
