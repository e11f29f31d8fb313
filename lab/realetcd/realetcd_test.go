package realetcd

import (
	"testing"

	"usher.sh/usher/lab/image"
	"usher.sh/usher/lab/realnode"
	"usher.sh/usher/lab/realnode/join"
	"usher.sh/usher/lab/testlab"
)

func startNodes(t *testing.T, l *testlab.Lab, images ...string) []*realnode.Node {
	t.Helper()
	etcd := image.File{From: l.Binary(t, "etcd"), To: "/etcd"}
	nodes := l.StartRealNodes(t, join.Options{Count: size, Files: []image.File{etcd}, Images: images})
	l.ServeServices(t)
	return nodes
}

func TestRealEtcd(t *testing.T) {
	l := testlab.Get(t)
	archive, program := l.UsherImage(t)
	nodes := startNodes(t, l, archive)
	t.Run("with", func(t *testing.T) {
		install(t, l, program)
		e := startEtcd(t, l, 1, apart(true))
		e.govern(t)
		f := e.drainAll(t, nodes, e.kubectlDrain(t), *rounds, nothing)
		f.log(t, "usher")
		f.check(t, *rounds*size)
	})
}
