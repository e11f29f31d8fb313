// Package fdbreal answers: what does a real FoundationDB do? It runs the processes of a cluster on loopback, each at an address of its own as pods
// are, where the programs are there.
package fdbreal
