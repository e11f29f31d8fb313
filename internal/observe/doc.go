// Package observe answers: what is true right now? It holds all reads of the
// cluster and turns API objects into the facts of package snapshot.
//
// # What it costs
//
// A Look reads once what decides about single pods, by fewer than ten requests for one pod, whatever the size of the cluster; or
// everything, by one request for each 500 objects.
//
// An Observer watches; it never polls, never resyncs and never gets a single
// object. Each watch costs one request when it starts (it brings the present
// objects first), two on a server without that kind of watch (a list, then
// a watch), and one more each five to ten minutes, when the server ends it. Of
// what decides about the nodes of a drain it watches no more than
//
//	always                                nodes; the pods of each node; pods that
//	                                      drains have marked
//	in each namespace of their pods       poddisruptionbudgets, and the pods under
//	                                      those that count one of them
//	a pod of a ReplicaSet                 that one and its Deployment by name, the
//	                                      Deployment's ReplicaSets and pods,
//	                                      horizontalpodautoscalers of the namespace,
//	                                      and what drains have surged anywhere
//	a pod of a StatefulSet, a
//	ReplicationController or a Job        that one by name, and its pods
//	a pod of a DaemonSet                  that one by name
//	a pod of any other owner              the namespace's pods
//	a pod with a volume claim             persistentvolumeclaims of the namespace,
//	                                      volumeattachments
//	a governed pod                        evictionrequests and evictions of the
//	                                      namespace, and what drains request anywhere
//	a pod elsewhere that is not ready     its owner by name
//
// From eight of a kind in one namespace on, all of the namespace is watched, and from
// 200 in all, all of the cluster.
package observe
