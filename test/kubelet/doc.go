// Package kubelet answers: does Usher's account of node pressure agree with the kubelet's own code?
//
// Its tests give random nodes to both and compare what follows. It is a module of its own, since it links the kubelet.
package kubelet
