package binaries

import (
	"os"
	"slices"
	"strings"
)

// KubernetesEnv names the environment variable that says which Kubernetes labs run, as 1.30: one of Versions, the first if it
// is empty.
const KubernetesEnv = "USHER_LAB_KUBERNETES"

// Kubernetes is a version that labs can run.
type Kubernetes struct {
	Minor   string // as "1.37"
	Release string // as "v1.37.1": what the module pins
	Module  string // the folder under lab/versions
	// EvictionRequestAPI says that it can serve lifecycle.k8s.io.
	EvictionRequestAPI bool
	// StreamsLists says that its apiserver sends what there is at the beginning of a watch, by default: others refuse that,
	// and are asked for a list.
	StreamsLists bool
}

// Versions lists what labs can run, the newest first. The last is the oldest that usher install accepts.
func Versions() []Kubernetes {
	return []Kubernetes{
		{Minor: "1.37", Release: "v1.37.1", Module: "kubernetes", EvictionRequestAPI: true, StreamsLists: true},
		{Minor: "1.33", Release: "v1.33.13", Module: "kubernetes-1.33"},
		{Minor: "1.30", Release: "v1.30.14", Module: "kubernetes-1.30"},
	}
}

// Chosen returns the version that KubernetesEnv names. One that is not in Versions has no module: its programs can neither
// be found nor built, and the error names the folder.
func Chosen() Kubernetes {
	all := Versions()
	minor := os.Getenv(KubernetesEnv)
	if minor == "" {
		return all[0]
	}
	i := slices.IndexFunc(all, func(k Kubernetes) bool { return k.Minor == minor })
	if i < 0 {
		return Kubernetes{Minor: minor, Module: "kubernetes-" + minor}
	}
	return all[i]
}

func (k Kubernetes) binary(name string) Binary {
	return Binary{Name: name, Module: k.Module, Package: "k8s.io/kubernetes/cmd/" + name, LDFlags: k.stamps()}
}

// stamps make the programs say which version they are: built from a module they call themselves v0.0.0, and client-go's
// discovery and kubectl's version skew check read it.
func (k Kubernetes) stamps() string {
	major, minor, _ := strings.Cut(k.Minor, ".")
	const version = " -X k8s.io/component-base/version."
	return "-s -w" + version + "gitVersion=" + k.Release + version + "gitMajor=" + major + version + "gitMinor=" + minor + version + "gitTreeState=clean"
}
