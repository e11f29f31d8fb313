// Package agent answers: what is done, on this node, when it runs short?
//
// One agent runs on every node. It looks at the machine itself (package machine), is woken by the kernel and by a tick that
// is the shorter the sooner something is used up (package wake), lets package nodepressure decide, and carries out what that
// says: through the API where it can, and by killing processes where that would be too late or the apiserver does not answer.
// Where it is asked to, it also looks for notices that the node's machine goes (package notices), and has NodeMaintenances be made of them.
// What it remembers can be lost at any moment: pods that are terminating, and its own conditions and taints, are read again at
// start. It works on Linux only.
package agent
