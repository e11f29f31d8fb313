package show

import (
	"io"
	"sync"
	"time"

	"usher.sh/usher/internal/drain"
)

// Redraws: at once after a change but at most every drawPause, and every drawTick so
// that the clocks go on.
const (
	drawPause = 100 * time.Millisecond
	drawTick  = time.Second
)

// Live shows a drain as a table that is redrawn in place.
type Live struct {
	Size func() (width, height int) // of the terminal, asked before each drawing
	Now  func() time.Time

	screen *Screen
	paint  Paint
	dirty  chan struct{}
	stop   chan struct{}
	done   chan struct{}

	mu      sync.Mutex
	picture Picture
	above   []string
}

// NewLive starts to draw on out; Close must be called.
func NewLive(out io.Writer, start Picture, paint Paint, size func() (int, int), now func() time.Time) *Live {
	l := &Live{
		Size: size, Now: now, screen: NewScreen(out), paint: paint, picture: start,
		dirty: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go l.loop()
	return l
}

// Frame takes in the whole state.
func (l *Live) Frame(_ time.Time, d drain.Decision) {
	l.change(func() { l.picture.Decision = d })
}

// Event keeps above the table what the table itself does not show.
func (l *Live) Event(e drain.Event) {
	switch e.Kind {
	case drain.EventSurge, drain.EventNote, drain.EventDeadline:
		l.change(func() { l.above = append(l.above, eventLine(e)) })
	case drain.EventNode, drain.EventPod, drain.EventBlocked, drain.EventCleared, drain.EventAnswer, drain.EventEnd:
	}
}

// Expect says when the drain is expected to be done; zero: unknown.
func (l *Live) Expect(done time.Time) { l.change(func() { l.picture.Done = done }) }

// Banner shows a line at the terminal.
func (l *Live) Banner(text string) { l.change(func() { l.picture.Banner = text }) }

// Close draws the last picture and leaves it on the terminal.
func (l *Live) Close() {
	close(l.stop)
	<-l.done
}

func (l *Live) change(f func()) {
	l.mu.Lock()
	f()
	l.mu.Unlock()
	select {
	case l.dirty <- struct{}{}:
	default:
	}
}

func (l *Live) loop() {
	defer close(l.done)
	tick := time.NewTicker(drawTick)
	defer tick.Stop()
	for {
		l.draw()
		select {
		case <-l.stop:
			l.draw()
			return
		case <-time.After(drawPause):
		}
		select {
		case <-l.stop:
			l.draw()
			return
		case <-l.dirty:
		case <-tick.C:
		}
	}
}

func (l *Live) draw() {
	l.mu.Lock()
	picture, above := l.picture, l.above
	l.above = nil
	l.mu.Unlock()
	width, height := l.Size()
	picture.Now = l.Now()
	if len(above) > 0 {
		var lines []string
		for _, line := range above {
			lines = append(lines, wrap(line, width)...)
		}
		l.screen.Above(lines, width)
	}
	// The cursor rests on the line below the block: one line of the height is its own.
	l.screen.Draw(Table(picture, width, height-1, l.paint), width)
}
