package realfdb

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"usher.sh/usher/lab/image"
	"usher.sh/usher/lab/realnode/join"
	"usher.sh/usher/lab/testlab"
	"usher.sh/usher/test/fdbreal"
)

// otherImage is a second name of the image that members run, of which the manager gets fdbcli.
const otherImage = "lab.usher.sh/workload:again"

// TestMemberSet has Usher, as pods, run a FoundationDB of five storage and three log servers on real nodes while a client writes: what may happen to a set happens
// to it, one thing after the other, and managers are killed meanwhile. All of it takes half an hour; with -short it is what is short of it.
func TestMemberSet(t *testing.T) {
	d := formed(t)
	t.Logf("seed %d (-seed)", *seed)
	x := &trouble{d: d, dice: rand.New(rand.NewPCG(*seed, 0))}
	for _, step := range []struct {
		what  string
		do    func(*testing.T)
		calm  bool // no manager is killed: one counts anew for how long a member is missing
		brief bool
	}{
		{what: "replace one storage member", do: d.replace},
		{what: "cancel a replacement", do: d.cancel},
		{what: "kill a node", do: d.kill, brief: true},
		{what: "drain a node by replacements", do: d.drainReplacing},
		{what: "drain a node by recreations", do: d.drainRecreating},
		{what: "taint a node", do: d.taint},
		{what: "another image", do: d.anotherImage},
		{what: "another image of log servers", do: d.anotherLogImage},
		{what: "another size of claims", do: d.anotherClaim},
		{what: "grow", do: d.grow, brief: true},
		{what: "shrink", do: d.shrink, brief: true},
		{what: "lose a node", do: d.lose, calm: true},
	} {
		if testing.Short() && !step.brief {
			continue
		}
		if !t.Run(step.what, func(t *testing.T) {
			began := time.Now()
			if !step.calm && !*figured {
				defer x.during(t)()
			}
			step.do(t)
			took, pauses := time.Since(began), d.writer.pauses(began)
			t.Logf("%s: %.1f s, unavailable %.1f s, longest pause %.1f s", step.what, took.Seconds(), unavailable(pauses).Seconds(), slices.Max(pauses).Seconds())
			if acknowledged, lost := d.writer.check(t); len(lost) > 0 {
				t.Errorf("of %d commits these are lost: %v", acknowledged, lost)
			}
		}) {
			break
		}
	}
	t.Logf("%d managers were killed", x.kills)
	d.checkCommits(t)
}

// formed has nodes with managers and a set on them, to which a client writes.
func formed(t *testing.T) *database {
	t.Helper()
	bin := fdbreal.Programs()
	if bin == "" {
		t.Skip("SKIPPED, NOT TESTED: there is no fdbserver (set FDB_BIN to a folder with fdbserver, fdbmonitor and fdbcli)")
	}
	l := testlab.Get(t)
	archive, program := l.UsherImage(t)
	programs := linked(t,
		image.File{From: bin + "/fdbmonitor", To: "/usr/bin/fdbmonitor"}, image.File{From: bin + "/fdbserver", To: "/usr/bin/fdbserver"},
		image.File{From: "/bin/sh", To: "/bin/sh"}, image.File{From: "/bin/cp", To: "/bin/cp"}, image.File{From: "/bin/sleep", To: "/bin/sleep"},
		image.File{From: bin + "/fdbcli", To: "/usr/bin/fdbcli"}, image.File{From: "/bin/bash", To: "/bin/bash"},
	)
	programs = append(programs, image.File{From: "/usr/bin/ldd", To: "/usr/bin/ldd", Linked: true}) // a script for bash
	again := filepath.Join(t.TempDir(), "again.tar")
	if err := image.WriteFile(again, image.Spec{Name: otherImage, Entry: programs[0], Files: programs[1:]}); err != nil {
		t.Fatal(err)
	}
	nodes := l.StartRealNodes(t, join.Options{Count: storages + 1, Images: []string{archive, again}, Files: programs})
	l.ServeServices(t)
	d := &database{lab: l, nodes: nodes, namespace: l.Namespace(t), fdbcli: bin + "/fdbcli", program: program, own: l.UsherAPI(t)}
	d.install(t)
	began := time.Now()
	t.Cleanup(func() { d.drop(t) })
	d.apply(t)
	d.isWhole(t, size)
	t.Logf("form: %.1f s: %s", time.Since(began).Seconds(), d.clusterFile(t))
	d.writer = d.startWriter(t)
	return d
}

// checkCommits fails the test when an acknowledged commit is lost.
func (d *database) checkCommits(t *testing.T) {
	t.Helper()
	d.writer.stop()
	acknowledged, lost := d.writer.check(t)
	for _, err := range d.writer.failures {
		t.Logf("a commit failed: %v", err)
	}
	t.Logf("%d commits failed; longest pause %.1f s", len(d.writer.failures), slices.Max(d.writer.pauses(d.writer.began)).Seconds())
	figure(t, "acknowledged commits lost: %d of %d", len(lost), acknowledged)
	if len(lost) > 0 || acknowledged == 0 {
		t.Errorf("commits are lost, or none was acknowledged: %v", lost)
	}
}

// figure prints one by itself where figures are asked for.
func figure(t *testing.T, format string, values ...any) {
	t.Helper()
	if *figured {
		fmt.Printf(format+"\n", values...)
		return
	}
	t.Logf(format, values...)
}

func linked(t *testing.T, programs ...image.File) []image.File {
	t.Helper()
	files, err := image.Linked(context.WithoutCancel(t.Context()), programs...)
	if err != nil {
		t.Fatal(err)
	}
	return files
}
