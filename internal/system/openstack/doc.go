// Package openstack answers: how are virtual machines, and the networks that they need, kept running when the host that runs them leaves?
//
// A member is what is on a host, by the host's name, in each role. What decides is what the listings of Nova and Neutron show, never that they have accepted
// a request. The decisions are in packages compute and network; here is what they are made of, and how they are carried out.
package openstack
