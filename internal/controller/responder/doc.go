// Package responder answers: what does Usher do for a governed pod that is wanted gone? For every pod with an
// EvictionRequest it gathers the facts, lets eviction.Step decide, and carries the result out: prepare, permit, evict, and
// say in the Eviction what is being waited for.
package responder
