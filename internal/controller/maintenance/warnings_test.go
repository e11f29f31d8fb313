package maintenance

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// recording is a writer that keeps what events are made of.
type recording struct{ said []string }

// Do implements runner.Writer.
func (*recording) Do(context.Context, drain.Action) answers.Answer {
	return answers.Answer{Code: answers.Accepted}
}

// Warn implements warner.
func (r *recording) Warn(_ context.Context, warnings []drain.Warning) {
	for _, w := range warnings {
		r.said = append(r.said, w.Pod.Name+" "+string(w.Reason))
	}
}

// What a drain warns of is in its state as long as it is true, at once, and in one event; what stood when the drain ended stays.
func TestWarningsAreReported(t *testing.T) {
	writer := &recording{}
	d := newDrains(Options{Now: func() time.Time { return noon }})
	d.ctx, d.writer = t.Context(), writer
	r := &run{}
	lost := drain.Warning{Reason: drain.WillBeLost, Pod: snapshot.Key{Name: "db-0"}, UID: "1"}
	local := drain.Warning{Reason: drain.LocalStorage, Pod: snapshot.Key{Name: "db-0"}, UID: "1"}
	var got [][]drain.Reason
	for i, frame := range []drain.Decision{
		{Warnings: []drain.Warning{lost}},
		{Warnings: []drain.Warning{lost, local}},
		{},
		{Warnings: []drain.Warning{lost}},
		{Outcome: drain.DeadlinePassed},
	} {
		reporter{d, r}.Frame(noon.Add(time.Duration(i)*time.Millisecond), frame)
		var reasons []drain.Reason
		for _, w := range r.state.Warnings {
			reasons = append(reasons, w.Reason)
		}
		got = append(got, reasons)
	}
	both := []drain.Reason{drain.WillBeLost, drain.LocalStorage}
	if diff := cmp.Diff([][]drain.Reason{both[:1], both, nil, both[:1], both[:1]}, got); diff != "" {
		t.Errorf("in its state (-want +got):\n%s", diff)
	}
	if want := []string{"db-0 WillBeLost", "db-0 LocalStorage"}; !slices.Equal(writer.said, want) {
		t.Errorf("events of %v, want %v", writer.said, want)
	}
}
