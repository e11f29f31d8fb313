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

// eviction says which responder works on it, and what that waits for.
func (p *requestProgress) eviction(e *snapshot.Eviction) { p.say(show.EvictionWords(e), false) }

// nothing says what to look at, where no responder has answered.
func (p *requestProgress) nothing() {
	p.say(p.commands.In("no responder has taken it up; see whether usher's manager runs: kubectl get pods -A -l app.kubernetes.io/name=usher"), true)
}

// end returns when nothing is printed any more, and keeps it so.
func (p *requestProgress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
}

func (p *requestProgress) say(words string, onlyFirst bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || words == p.said || (onlyFirst && p.said != "") {
		return
	}
	p.said = words
	fmt.Fprintf(p.out, "%s  %s\n", p.now().Format(time.TimeOnly), words)
}
