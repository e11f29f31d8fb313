package realfdb

import (
	"context"
	"strings"
	"testing"
	"time"

	"usher.sh/usher/lab/image"
	"usher.sh/usher/lab/realnode/join"
	"usher.sh/usher/lab/testlab"
	"usher.sh/usher/test/fdbreal"
)

// TestMemberSet has Usher form a FoundationDB of five storage and three log servers, and replace one of them, a coordinator, while a client writes.
func TestMemberSet(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED, long runs only: managers as pods, six nodes, and some minutes")
	}
	bin := fdbreal.Programs()
	if bin == "" {
		t.Skip("SKIPPED, NOT TESTED: there is no fdbserver (set FDB_BIN to a folder with fdbserver, fdbmonitor and fdbcli)")
	}
	l := testlab.Get(t)
	fdbcli := linked(t, image.File{From: bin + "/fdbcli", To: "/usr/bin/fdbcli"})
	archive, program := l.UsherImage(t, fdbcli...)
	nodes := l.StartRealNodes(t, join.Options{Count: 6, Images: []string{archive}, Files: linked(t,
		image.File{From: bin + "/fdbserver", To: "/usr/bin/fdbserver"}, image.File{From: bin + "/fdbmonitor", To: "/usr/bin/fdbmonitor"},
		image.File{From: "/bin/sh", To: "/bin/sh"}, image.File{From: "/bin/cp", To: "/bin/cp"}, image.File{From: "/bin/sleep", To: "/bin/sleep"},
	)})
	l.ServeServices(t)
	d := &database{lab: l, namespace: l.Namespace(t), fdbcli: bin + "/fdbcli", program: program}
	d.install(t)
	for _, node := range nodes {
		d.volumes(t, node.Name)
	}
	began := time.Now()
	d.apply(t)
	defer d.drop(t)
	d.isReady(t, 8)
	t.Logf("formed in %.1f s: %s", time.Since(began).Seconds(), d.clusterFile(t))

	w := d.startWriter(t)
	member := d.coordinator(t)
	began = time.Now()
	d.replace(t, member)
	d.isReady(t, 8)
	t.Logf("replace %s: %.1f s", member, time.Since(began).Seconds())
	w.stop()

	if ids := d.kubectl(t, "", "get", "memberset", setName, "-o", "jsonpath={.status.members[*].id}"); strings.Contains(ids, member) {
		t.Errorf("%s is replaced, and the members are %s", member, ids)
	}
	if left := d.ask(t, "exclude"); strings.Contains(left, "locality_instance_id") {
		t.Errorf("it is still excluded: %s", left)
	}
	acknowledged, lost := w.check(t)
	t.Logf("acknowledged commits lost: %d of %d; %d failed; the longest pause was %.1f s", lost, acknowledged, w.failed, w.pause.Seconds())
	if lost > 0 || acknowledged == 0 {
		t.Error("commits are lost, or none was acknowledged")
	}
}

func linked(t *testing.T, programs ...image.File) []image.File {
	t.Helper()
	files, err := image.Linked(context.WithoutCancel(t.Context()), programs...)
	if err != nil {
		t.Fatal(err)
	}
	return files
}
