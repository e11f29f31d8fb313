package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/snapshot"
)

// requestProgress prints what becomes of a request, each thing once. Its methods may be called from several goroutines.
type requestProgress struct {
	out io.Writer
	now func() time.Time

	commands show.Commands

	mu   sync.Mutex
	said string
	over bool
}

// eviction says who works on it, and what that waits for.
func (h *requestProgress) eviction(e *snapshot.Eviction) { h.say(show.EvictionWords(e), false) }

// nothing says what to look at, where no responder has answered.
func (h *requestProgress) nothing() {
	h.say(h.commands.In("no responder has taken it up; see whether usher's manager runs: kubectl get pods -A -l app.kubernetes.io/name=usher"), true)
}

// end returns when nothing is printed any more, and keeps it so.
func (h *requestProgress) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
}

func (h *requestProgress) say(words string, onlyFirst bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over || words == h.said || (onlyFirst && h.said != "") {
		return
	}
	h.said = words
	fmt.Fprintf(h.out, "%s  %s\n", h.now().Format(time.TimeOnly), words)
}
