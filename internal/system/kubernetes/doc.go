// Package kubernetes answers: may a pod of a plain workload leave its node without that workload falling below what its owner
// asked for, and how is a replacement started first?
//
// Its facts are read from the Kubernetes API at each observation, past every cache: which replicas are ready, on which nodes that
// stay, what budgets say, whether a rollout is under way and what an autoscaler allows. Its one step is the surge: the workload
// is scaled up by its subresource scale before the pod leaves, and back when the pod is gone or is not wanted gone any more. The
// record of a surge is the one that `usher drain` writes, so the two never surge one object both.
package kubernetes
