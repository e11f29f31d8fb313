// Package etcd answers: what is true of an etcd cluster and its members, and how is leadership moved off one of them?
//
// Every member is asked at its own endpoints, and a member's word on itself is never enough: it counts as healthy only if
// a linearizable read through it reaches the quorum, if it sees the members that the quorum sees, and if it names the
// leader and the term that a quorum of voters names. What contradicts itself is left out, so that rules about it do not
// pass.
//
// The policy's endpoints are where the list of members is found; from then on each member is asked at the client URLs
// that the list names as well. An answer belongs to the member that signs it, whatever the URL, so a Service in front of
// the members, or members that advertise URLs that lead nowhere, do no harm as long as some URL leads to each of them.
package etcd
