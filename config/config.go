// Package config answers: what does a cluster need so that Usher runs in it? The manifests are for kustomize as they lie
// here, and are what usher install applies.
package config

import "embed"

// Default is the folder whose kustomization names all the others.
const Default = "default"

// Files are the manifests.
//
//go:embed default crd manager rbac webhook
var Files embed.FS
