// Package v1alpha1 answers: what can a person declare to Usher? It holds the types of the group usher.sh; the rules that a
// schema can say are markers on the types, so that the apiserver enforces them.
//
// +kubebuilder:object:generate=true
// +groupName=usher.sh
package v1alpha1
