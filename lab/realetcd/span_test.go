package realetcd

import (
	"cmp"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

// span is a stretch of time.
type span struct{ from, to time.Time }

func (s span) length() time.Duration { return s.to.Sub(s.from) }

// together are the stretches in which at least n of the lists have a span. Spans of one list do not overlap.
func together(n int, lists ...[]span) []span {
	type edge struct {
		at   time.Time
		step int
	}
	var edges []edge
	for _, list := range lists {
		for _, s := range list {
			edges = append(edges, edge{s.from, 1}, edge{s.to, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.step, b.step)) })
	var found []span
	depth := 0
	for _, e := range edges {
		if depth += e.step; depth == n && e.step > 0 {
			found = append(found, span{from: e.at})
		} else if depth == n-1 && e.step < 0 {
			found[len(found)-1].to = e.at
		}
	}
	return found
}

func sum(list []span) time.Duration {
	var all time.Duration
	for _, s := range list {
		all += s.length()
	}
	return all
}

func TestTogether(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	of := func(edges ...int) []span {
		var list []span
		for i := 0; i < len(edges); i += 2 {
			list = append(list, span{at(edges[i]), at(edges[i+1])})
		}
		return list
	}
	for name, test := range map[string]struct{ a, b, c, want []span }{
		"apart":       {of(1, 2), of(3, 4), of(5, 6), nil},
		"one by one":  {of(1, 2), of(2, 3), of(3, 4), nil},
		"overlapping": {of(1, 4), of(3, 6), nil, of(3, 4)},
		"within":      {of(1, 9), of(2, 3, 5, 6), nil, of(2, 3, 5, 6)},
		"all three":   {of(1, 4), of(2, 5), of(3, 6), of(2, 5)},
	} {
		if diff := gocmp.Diff(test.want, together(2, test.a, test.b, test.c), gocmp.AllowUnexported(span{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestPause(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	w := &writers{began: at(0), ended: at(20)}
	w.written[0] = []write{{at: at(1)}, {at: at(10)}}
	w.written[1] = []write{{at: at(4)}, {at: at(13)}}
	if got, want := w.pause(), (span{at(13), at(20)}); got != want {
		t.Errorf("pause: got %v, want %v: that before the end counts", got, want)
	}
	w.ended = at(14)
	if got, want := w.pause(), (span{at(4), at(10)}); got != want {
		t.Errorf("pause: got %v, want %v: that between two writers' writes", got, want)
	}
}
