package cli

import (
	"strings"
	"testing"
	"time"

	"usher.sh/usher/internal/snapshot"
)

func TestRequestsThatNobodyTakesUp(t *testing.T) {
	works := &snapshot.Eviction{Responder: "x.io/y", Message: "2 shards left"}
	tests := map[string]struct {
		told  func(h *requestProgress)
		lines []string
	}{
		"no responder": {func(h *requestProgress) { h.nothing(); h.nothing() }, []string{"no responder has taken it up; see whether usher's manager runs"}},
		"a responder":  {func(h *requestProgress) { h.eviction(works); h.eviction(works); h.nothing() }, []string{"x.io/y: 2 shards left"}},
		"an end, then no responder": {func(h *requestProgress) {
			h.eviction(works)
			h.end()
			h.nothing()
			h.eviction(&snapshot.Eviction{Responder: "x.io/y", Message: "1 left"})
		}, []string{"x.io/y: 2 shards left"}},
		"no responder, then one": {func(h *requestProgress) { h.nothing(); h.eviction(works) }, []string{"no responder has taken it up", "x.io/y: 2 shards left"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			tt.told(&requestProgress{out: &out, now: func() time.Time { return noon }})
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
