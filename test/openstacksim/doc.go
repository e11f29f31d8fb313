// Package openstacksim answers: what would an OpenStack say and do?
//
// It answers the calls of Keystone, Nova, Neutron and Ironic that Usher makes, over HTTP, as a real Zed was seen to. Nothing moves and no time passes but by Advance, so that
// the same calls have the same answers. What Nova would hold against a request shows where Nova shows it: a request that is accepted may come to nothing.
package openstacksim
