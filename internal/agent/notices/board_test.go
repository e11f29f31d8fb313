package notices

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/internal/notice"
	"usher.sh/usher/internal/notice/metadata"
)

func oneQuestion() *Board {
	var l logs
	b := newBoard(l.logger())
	b.add("q", notice.EC2)
	return b
}

func standing(id string) notice.Notice {
	return notice.Notice{Source: notice.EC2, Kind: notice.Reboot, Event: id, Node: "node-1"}
}

func withdrawn(id string) notice.Notice {
	n := standing(id)
	n.Withdrawn = true
	return n
}

func (b *Board) hasChanged() bool {
	select {
	case <-b.changed:
		return true
	default:
		return false
	}
}

func TestBoard(t *testing.T) {
	b := oneQuestion()
	step := func(name string, answer metadata.Answer, changed bool, want Report) {
		t.Helper()
		b.enter("q", answer)
		if got := b.hasChanged(); got != changed {
			t.Errorf("%s: changed is %v", name, got)
		}
		want.Source = notice.EC2
		if diff := cmp.Diff([]Report{want}, b.Reports()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff([]Report{{Source: notice.EC2}}, b.Reports()); diff != "" {
		t.Errorf("at first (-want +got):\n%s", diff)
	}
	a, c := standing("a"), standing("c")
	step("not in whole", metadata.Answer{Notices: []notice.Notice{a}, Unread: "?"}, true, Report{Notices: []notice.Notice{a}})
	step("in whole", metadata.Answer{Notices: []notice.Notice{a}}, true, Report{Notices: []notice.Notice{a}, Whole: true})
	step("again", metadata.Answer{Notices: []notice.Notice{a}}, false, Report{Notices: []notice.Notice{a}, Whole: true})
	step("another, not in whole", metadata.Answer{Notices: []notice.Notice{c}, Unread: "?"}, true, Report{Notices: []notice.Notice{a, c}, Whole: true})
	step("one is over", metadata.Answer{Notices: []notice.Notice{withdrawn("a")}, Unread: "?"}, true, Report{Notices: []notice.Notice{withdrawn("a"), c}, Whole: true})
	step("the other is over, and one that was never known", metadata.Answer{Notices: []notice.Notice{withdrawn("x")}}, true,
		Report{Notices: []notice.Notice{withdrawn("a"), withdrawn("c")}, Whole: true})
	b.fail("q", errors.New("no"))
	if b.hasChanged() {
		t.Error("a failure is a change")
	}
	step("it comes again before that was stored", metadata.Answer{Notices: []notice.Notice{a}}, true,
		Report{Notices: []notice.Notice{a, withdrawn("c")}, Whole: true})
	stored := b.Reports()[0]
	step("it is over while that is being stored", metadata.None(), true, Report{Notices: []notice.Notice{withdrawn("a"), withdrawn("c")}, Whole: true})
	b.Stored(&stored)
	step("that it is over was not stored", metadata.None(), false, Report{Notices: []notice.Notice{withdrawn("a")}, Whole: true})
}

func TestBoardTightens(t *testing.T) {
	at := time.Date(2026, 9, 18, 8, 0, 0, 0, time.UTC)
	b := oneQuestion()
	for _, step := range []struct {
		at, want time.Time
		changed  bool
	}{
		{time.Time{}, time.Time{}, true},
		{at, at, true},
		{at.Add(time.Second), at, false},
		{time.Time{}, at, false},
		{at.Add(-time.Second), at.Add(-time.Second), true},
	} {
		n := standing("a")
		n.EffectiveTime = step.at
		b.enter("q", metadata.Answer{Notices: []notice.Notice{n}})
		if got := b.Reports()[0].Notices[0].EffectiveTime; !got.Equal(step.want) || b.hasChanged() != step.changed {
			t.Errorf("%v is now %v, want %v, changed: %v", step.at, got, step.want, step.changed)
		}
	}
	n := standing("a")
	n.Kind = notice.Termination
	b.enter("q", metadata.Answer{Notices: []notice.Notice{n}})
	if got := b.Reports()[0].Notices[0]; got.Kind != notice.Termination || !got.EffectiveTime.Equal(at.Add(-time.Second)) || !b.hasChanged() {
		t.Errorf("of another kind: %+v", got)
	}
}

// A source that announces without end and takes everything back is kept in bounds.
func TestBoardIsBounded(t *testing.T) {
	b := oneQuestion()
	for i := range 10 * mostWithdrawn {
		b.enter("q", metadata.Answer{Notices: []notice.Notice{standing(fmt.Sprint(i))}})
	}
	if n := len(b.Reports()[0].Notices); n != mostWithdrawn+1 {
		t.Errorf("%d are kept", n)
	}
	for i := range 1000 {
		b.Drained(notice.EC2, fmt.Sprint(i))
	}
	b.enter("q", metadata.None())
	if len(b.drained) > 0 {
		t.Errorf("%v are kept of events that do not stand", b.drained)
	}
}

func TestUnknownSource(t *testing.T) {
	if _, err := New(Options{Sources: []notice.Source{"ec3"}}); err == nil || err.Error() != `"ec3" is no source of notices on nodes: it can be ec2, gce, azure, logind` {
		t.Errorf("the error %v", err)
	}
}
