// Package binaries answers: which programs does a lab need, where are they, and how are they built?
//
// Every program is a Go package of a module on the module proxy, pinned by a small module under lab/versions.
// Nothing is downloaded ready-made, so a lab needs only Go.
package binaries

import "slices"

// Binary is one program a lab starts.
type Binary struct {
	Name    string   // file name in the cache
	Module  string   // folder under lab/versions whose go.mod pins it
	Package string   // import path of its main package
	LDFlags string   // for go build -ldflags
	Env     []string // added to the environment of go build, as KEY=value
}

// static programs have no C in them: they run in a pod whose image holds nothing else.
var static = []string{"CGO_ENABLED=0"}

// ControlPlane lists what every lab needs. The order is the build order: the quick ones come first, so that a
// machine without a working compiler or proxy says so early.
func ControlPlane() []Binary {
	k := Chosen()
	return []Binary{
		{Name: "etcd", Module: "etcd", Package: "go.etcd.io/etcd/server/v3", LDFlags: "-s -w", Env: static},
		k.binary("kube-apiserver"),
		k.binary("kube-controller-manager"),
		k.binary("kube-scheduler"),
		k.binary("kubectl"),
		{Name: "kwok", Module: "kwok", Package: "sigs.k8s.io/kwok/cmd/kwok", LDFlags: "-s -w"},
	}
}

// Real lists what real nodes need besides ControlPlane. Their kubelet is of the newest Kubernetes.
func Real() []Binary {
	return []Binary{
		Versions()[0].binary("kubelet"),
		containerd("containerd"),
		containerd("containerd-shim-runc-v2"),
		containerd("ctr"),
	}
}

// Find returns the binary of that name, from either list.
func Find(name string) (Binary, bool) {
	all := slices.Concat(ControlPlane(), Real())
	i := slices.IndexFunc(all, func(b Binary) bool { return b.Name == name })
	if i < 0 {
		return Binary{}, false
	}
	return all[i], true
}

// containerd is built static, as its own release builds are.
func containerd(name string) Binary {
	return Binary{
		Name: name, Module: "containerd", Package: "github.com/containerd/containerd/v2/cmd/" + name,
		LDFlags: "-s -w -X github.com/containerd/containerd/v2/version.Version=2.4.2", Env: static,
	}
}
