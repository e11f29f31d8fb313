package realetcd

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"usher.sh/usher/lab/realnode"
	"usher.sh/usher/lab/testlab"
)

// figures are what a run showed.
type figures struct {
	acknowledged, failed int
	lost                 []string
	pause                span
	below                []span // fewer than a quorum of members served
	none                 []span // no member served
	slowest              time.Duration
	leaves               int
	leading              []leave // of members that led when their pods were deleted
	timeline             []string
	drains, reruns       int
	drainTime            time.Duration
	whole                time.Duration
}

// drainAll drains every node in turn, as often as asked, while writers and a sampler run. during is called at the
// beginning of every drain.
func (e *etcd) drainAll(t *testing.T, nodes []*realnode.Node, d *drainer, rounds int, during func(drain int)) figures {
	t.Helper()
	kubectl := e.lab.Binary(t, "kubectl")
	f := e.watched(t, func() {
		for i := range rounds * len(nodes) {
			node := nodes[i%len(nodes)].Name
			during(i)
			if err := d.drain(t.Context(), node); err != nil {
				t.Error(err)
			}
			if err := e.uncordon(t.Context(), kubectl, node); err != nil {
				t.Fatal(err)
			}
		}
	})
	f.drains, f.reruns, f.drainTime = d.drains, d.reruns, d.took
	return f
}

// watched does something to the members while writers and a sampler run.
func (e *etcd) watched(t *testing.T, do func()) figures {
	t.Helper()
	begin := time.Now()
	watch, sampler, writers := e.watchLeaves(t), e.startSampler(t), e.startWriters(t)
	do()
	e.lab.WaitReady(t, e.namespace, testlab.Labels(name), size)
	writers.stop()
	sampler.stop()
	f := figures{
		pause: writers.pause(), below: together(size-quorum+1, sampler.down[:]...), none: together(size, sampler.down[:]...),
		slowest: sampler.slow, whole: time.Since(begin),
	}
	for _, list := range writers.failed {
		f.failed += len(list)
	}
	var err error
	if f.acknowledged, f.lost, err = writers.check(t.Context(), e.client(t, e.endpoints()...)); err != nil {
		t.Fatal(err)
	}
	for _, l := range watch.list() {
		f.leaves++
		if leader, known := sampler.leader(l.at); !known || leader == l.member {
			f.leading = append(f.leading, l)
		}
	}
	f.timeline = timeline(sampler, watch.list(), writers)
	e.compareHashes(t)
	return f
}

// timeline is what happened to the members, in the order in which it was seen.
func timeline(s *sampler, leaves []leave, w *writers) []string {
	var lines []string
	add := func(at time.Time, format string, values ...any) {
		lines = append(lines, at.Format("15:04:05.000 ")+fmt.Sprintf(format, values...))
	}
	for _, l := range s.leads {
		add(l.at, "%s leads, term %d", member(l.member), l.term)
	}
	for _, l := range leaves {
		add(l.at, "the pod of %s is being deleted", member(l.member))
	}
	for i, list := range s.down {
		for _, d := range list {
			add(d.from, "%s does not serve for %d ms", member(i), d.length().Milliseconds())
		}
	}
	for i, list := range w.failed {
		for _, f := range list {
			add(f.from, "a put of writer %d fails after %d ms: %v", i, f.length().Milliseconds(), f.err)
		}
	}
	slices.Sort(lines)
	return lines
}

// compareHashes fails the test when members hold different data.
func (e *etcd) compareHashes(t *testing.T) {
	t.Helper()
	client := e.client(t, e.endpoints()...)
	answer, err := client.Put(t.Context(), "end", "")
	if err != nil {
		t.Fatal(err)
	}
	var first uint32
	for i, endpoint := range e.endpoints() {
		// The read makes sure that the member has that revision.
		if _, err := e.client(t, endpoint).Get(t.Context(), "end"); err != nil {
			t.Fatal(err)
		}
		hash, err := client.HashKV(t.Context(), endpoint, answer.Header.Revision)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = hash.Hash
		}
		if hash.Hash != first {
			t.Errorf("%s holds other data than %s", member(i), member(0))
		}
	}
}

func (f figures) log(t *testing.T, who string) {
	t.Helper()
	t.Logf("%s: %d drains in %.1f s (%.1f s in all), run again %d times; %d writes acknowledged, %d failed, %d lost",
		who, f.drains, f.drainTime.Seconds(), f.whole.Seconds(), f.reruns, f.acknowledged, f.failed, len(f.lost))
	t.Logf("%s: longest write pause %d ms, from %s; slowest read %d ms; below a quorum %d times, %d ms in all; no member served %d times, %d ms in all",
		who, f.pause.length().Milliseconds(), f.pause.from.Format(time.TimeOnly), f.slowest.Milliseconds(), len(f.below), sum(f.below).Milliseconds(), len(f.none), sum(f.none).Milliseconds())
	t.Logf("%s: %d pods of members were deleted, %d of them while leading:\n%s", who, f.leaves, len(f.leading), strings.Join(f.timeline, "\n"))
}

// checkData fails the test for what etcd alone is answerable for.
func (f figures) checkData(t *testing.T) {
	t.Helper()
	for _, lost := range f.lost {
		t.Errorf("a write was lost: %s", lost)
	}
	if f.acknowledged == 0 {
		t.Error("no write was acknowledged")
	}
}

// check fails the test for whatever must never be.
func (f figures) check(t *testing.T, drains int) {
	t.Helper()
	f.checkData(t)
	for _, s := range f.below {
		t.Errorf("fewer than %d members served for %d ms, from %s", quorum, s.length().Milliseconds(), s.from.Format(time.TimeOnly))
	}
	for _, l := range f.leading {
		t.Errorf("%s was deleted at %s while it led", member(l.member), l.at.Format(time.TimeOnly))
	}
	if f.drains != drains {
		t.Errorf("%d of %d drains ended", f.drains, drains)
	}
	if f.leaves < drains {
		t.Errorf("%d pods of members were deleted in %d drains, want one in each: the nodes were empty", f.leaves, drains)
	}
}

func nothing(int) {}

func pauses(with, without figures) string {
	return fmt.Sprintf("longest write pause: usher %d ms, without %d ms", with.pause.length().Milliseconds(), without.pause.length().Milliseconds())
}
