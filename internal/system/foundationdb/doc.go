// Package foundationdb answers: what may leave a FoundationDB cluster, and how is it made ready?
//
// The cluster is asked through fdbcli, one process for each question: nothing is linked, and what that program makes of the network stays in a
// process that ends. What it says is the status document, which the cluster itself puts together and which is incomplete for seconds after every
// recovery; package status decides what may be built on it. Exit codes of fdbcli say nothing, so the effect of a command is looked for in the next
// document. Whether data is gone from what is excluded is asked of the cluster's own list of exclusions in progress: the roles of a process do not
// tell.
package foundationdb
