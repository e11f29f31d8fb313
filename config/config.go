// Package config answers: what does a cluster need so that Usher runs in it? The manifests are for kustomize as they lie
// here, and are what usher install applies.
package config

import "embed"

// Default is the folder whose kustomization names all the others but Agent.
const Default = "default"

// Agent is the folder of what runs on every node, for those who want it.
const Agent = "agent"

// Files are the manifests.
//
//go:embed default crd manager rbac webhook agent
var Files embed.FS
