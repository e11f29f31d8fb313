// Package openstack answers: how are virtual machines kept running when the host that runs them leaves?
//
// A member is what is on a host, by the host's name. What decides is what Nova's listings show, never that it has accepted a request. The decisions are
// in package compute; here is what they are made of, and how they are carried out.
package openstack
