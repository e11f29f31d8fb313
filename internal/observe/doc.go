// Package observe answers: what is true right now? It holds the reads of drains and of
// commands, and turns API objects into the facts of package snapshot.
//
// # What it costs
//
// A Look reads once what decides about single pods, by fewer than ten requests for one pod, whatever the size of the cluster; or
// everything, by one request for each 500 objects.
//
// An Observer watches; it never polls, never resyncs and never gets a single
// object. A question is what one watch, its feed, reads: objects of a resource, in a namespace or in all, that selectors select. Each
// costs one request when it starts (it brings the present objects first), two on a server without that kind of watch (a list, then
// a watch; the first few are refused once besides), and one more each half hour to hour, when the server ends it. Of what decides
// about the pods of nodes it asks no more than
//
//	always                         the nodes by name, the pods of each; what drains have left anywhere, by
//	                               labels: nodes with a record, surged deployments and
//	                               horizontalpodautoscalers, marked pods, evictionrequests
//	in each namespace of the pods  poddisruptionbudgets, and the pods under those that count one of them
//	a pod of a ReplicaSet          that one and its Deployment by name, the pods that the Deployment
//	                               selects, horizontalpodautoscalers of the namespace
//	a pod of a StatefulSet, a
//	ReplicationController, a Job   that one by name, and the pods that it selects
//	a pod of a DaemonSet           that one by name
//	a pod with a volume claim      that one by name, volumeattachments: all, no selector names their node
//	a governed pod                 evictionrequests, evictions and evictionpolicies of the namespace
//	a pod that may go elsewhere    one node that may run it: a list of 20 nodes with the labels that it asks
//	                               for, and one of them by name; where none of them may, all with the labels
//	a pod elsewhere that such a    its owner by name, and the pods that this one selects while it is not settled;
//	budget counts                  its node by name while it is not ready
//	a Deployment that is surged    its autoscalers, budgets and pods
//
// Where more than eight feeds would read some objects of a resource and a namespace, by names or by selectors, all of the namespace are watched,
// and from 500 feeds of a resource on, all of the resource. In place of a selector of more than 2 KiB all of its namespace is watched; of what a
// pod asks of the labels of nodes, as much counts as 2 KiB have room for. Of more than 200 nodes, everything is watched. A feed ends once another
// one shows all that it shows: who may write objects decides how many selectors there are, and what is written on an object comes by each.
//
// What was needed because of an owner is forgotten once nothing has it, and it is not there.
//
// What several feeds show of one object is merged: the newest state counts, what was seen gone stays gone, and what a label selector
// selects no longer stays while another feed shows it. One state of a pod is kept once. What has turned out to be needed, and has not
// come, is waited for, and then is a gap (or, of pods, nodes and budgets, makes the view blind), never empty.
package observe
