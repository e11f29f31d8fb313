// Package network answers: what does a host's agent of Neutron have, and what is next to be asked of Neutron so that it has nothing?
//
// It decides on one look at Neutron and does nothing itself. A request that was accepted is no part of the look: only what the agents' lists show counts.
package network
