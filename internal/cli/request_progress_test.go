package cli

import (
	"strings"
	"testing"
	"time"

	"usher.sh/usher/internal/snapshot"
)

func TestRequestsThatNoResponderTakesUp(t *testing.T) {
	works := &snapshot.Eviction{Responder: "x.io/y", Message: "2 shards left"}
	tests := map[string]struct {
		calls func(p *requestProgress)
		lines []string
	}{
		"no responder": {func(p *requestProgress) { p.nothing(); p.nothing() }, []string{"no responder has taken it up; see whether usher's manager runs"}},
		"a responder":  {func(p *requestProgress) { p.eviction(works); p.eviction(works); p.nothing() }, []string{"x.io/y: 2 shards left"}},
		"an end, then no responder": {func(p *requestProgress) {
			p.eviction(works)
			p.end()
			p.nothing()
			p.eviction(&snapshot.Eviction{Responder: "x.io/y", Message: "1 left"})
		}, []string{"x.io/y: 2 shards left"}},
		"no responder, then one": {func(p *requestProgress) { p.nothing(); p.eviction(works) }, []string{"no responder has taken it up", "x.io/y: 2 shards left"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			tt.calls(&requestProgress{out: &out, now: func() time.Time { return noon }})
			got := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if len(got) != len(tt.lines) {
				t.Fatalf("it says %q", got)
			}
			for i, line := range got {
				if !strings.HasPrefix(line, "12:00:00  "+tt.lines[i]) {
					t.Errorf("it says %q, want %q", line, tt.lines[i])
				}
			}
		})
	}
}
