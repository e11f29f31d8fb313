// Package config answers: what does a cluster need so that Usher runs in it? The manifests are for kustomize as they lie
// here, and are what usher install applies.
package config

import "embed"

// Default is the folder whose kustomization names all the others but Agent, ClusterAPI, Maintenance, MemberSet, NodeNotices, Notices, Replacement
// and Workloads.
const Default = "default"

// Agent is the folder of what runs on every node, for those who want it.
const Agent = "agent"

// ClusterAPI is the folder of what the manager needs to act on Machines of Cluster API beside what Notices has, for those who want that.
const ClusterAPI = "clusterapi"

// Maintenance is the folder of what the manager needs to drain nodes, for those who want that.
const Maintenance = "maintenance"

// MemberSet is the folder of what the manager needs to run members beside what Replacement has, for those who want that.
const MemberSet = "memberset"

// Notices is the folder of what the manager needs to act on notices of nodes beside what Maintenance has, for those who want that.
const Notices = "notices"

// NodeNotices is the folder of what agents need to act on notices of their nodes beside what Agent has, for those who want that.
const NodeNotices = "nodenotices"

// Replacement is the folder of what the manager needs to replace members, for those who want that.
const Replacement = "replacement"

// Workloads is the folder of the rights to read and scale plain workloads, for those who want it.
const Workloads = "workloads"

// Files are the manifests.
//
//go:embed default crd manager rbac webhook agent clusterapi maintenance memberset nodenotices notices replacement workloads
var Files embed.FS
