// Package install answers: how does Usher come into a cluster, and out of it again?
//
// What is installed are the manifests of package config. Installing applies them again and again: what is there already
// is brought to their state, and what others have set on it is left alone. Uninstalling begins with what could refuse
// requests when the manager is gone, and ends with what is known to be Usher's alone.
package install
