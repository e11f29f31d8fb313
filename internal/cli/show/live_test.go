package show

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"usher.sh/usher/internal/drain"
)

func liveOn(out *bytes.Buffer) *Live {
	size := func() (int, int) { return 80, 24 }
	return NewLive(out, Picture{Started: time.Now()}, Paint{}, size, time.Now)
}

func TestLiveDrawsTheLastFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := liveOn(&out)
		l.Frame(time.Now(), crowded())
		l.Frame(time.Now(), drain.Decision{Outcome: drain.Drained, Settled: true})
		l.Close()
		if got := out.String(); !strings.Contains(got, "drained") {
			t.Errorf("the last picture is missing in %q", got)
		}
	})
}

func TestLiveDrawsSeldomHoweverManyFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := liveOn(&out)
		for i := range 1000 {
			l.Frame(time.Now(), drain.Decision{Nodes: make([]drain.NodeStatus, i%7)})
			<-time.After(time.Millisecond) // of the bubble's clock
		}
		l.Close()
		if got := strings.Count(out.String(), "draining"); got > 15 {
			t.Errorf("%d drawings in a second, want about 10", got)
		}
	})
}

func TestLiveClockGoesOnWithoutFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := liveOn(&out)
		<-time.After(10 * time.Second) // of the bubble's clock
		synctest.Wait()
		l.Close()
		if got := out.String(); !strings.Contains(got, "9s") {
			t.Errorf("no second passed in %q", got)
		}
	})
}

func TestLiveKeepsNotesAboveTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := liveOn(&out)
		l.Event(drain.Event{At: time.Now(), Kind: drain.EventSurge, Message: "web scaled from 3 to 4"})
		l.Event(drain.Event{At: time.Now(), Kind: drain.EventPod, Pod: pod("web-1").Key(), State: "gone"})
		l.Close()
		if got := out.String(); !strings.Contains(got, "web scaled from 3 to 4") || strings.Contains(got, "web-1") {
			t.Errorf("got %q", got)
		}
	})
}
