// Package observe answers: what is true right now? It holds all reads of the
// cluster and turns API objects into the facts of package snapshot.
//
// # What it costs
//
// A Look reads once what decides about single pods, by fewer than ten requests for one pod, whatever the size of the cluster; or
// everything, by one request for each 500 objects.
//
// An Observer watches; it never polls, never resyncs and never gets a single
// object. Each kind costs one request when it starts (a watch that brings the
// present objects first), two on a server without that kind of watch (a list, then
// a watch), and one more each five to ten minutes, when the server ends the watch.
//
//	always                                pods, nodes, poddisruptionbudgets        3
//	a pod of a ReplicaSet on the nodes    replicasets, deployments,
//	                                      horizontalpodautoscalers                 3
//	a pod of a StatefulSet, a DaemonSet,
//	a ReplicationController or a Job      that kind                                1 each
//	a pod with a volume claim             persistentvolumeclaims,
//	                                      volumeattachments                        2
//	a governed pod                        evictionrequests, evictions              2,
//	                                      and 1 or 2 to find their group
//
// So a drain costs 3 to 16 requests to observe, whatever the number of pods.
package observe
