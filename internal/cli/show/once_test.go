package show

import (
	"strings"
	"testing"
	"time"

	"usher.sh/usher/internal/drain"
)

// What is shown once says nothing of a next look; a drain that goes on does.
func TestNothingLooksAgainAtWhatIsShownOnce(t *testing.T) {
	held := []drain.Blocker{{Reason: drain.OverdueOnNode, Pod: pod("a").Key(), Node: "worker-1", Message: "its grace ended 2m ago", Retry: noon.Add(5 * time.Minute)}}
	page := Plan{Now: noon}
	page.Blockers = held
	for name, lines := range map[string][]string{
		"why":     Why{Pod: pod("a"), Now: noon, Blockers: held}.Lines(0, Paint{}),
		"plan":    page.Lines(0, Paint{}),
		"summary": Summary{Outcome: drain.Blocked, Now: noon, Blockers: held}.Lines(0, Paint{}),
	} {
		if text := strings.Join(lines, "\n"); strings.Contains(text, "looked at again") || !strings.Contains(text, "its grace ended 2m ago") {
			t.Errorf("%s:\n%s", name, text)
		}
	}
	if text := strings.Join(BlockerLines(held, noon, 0, Paint{}), "\n"); !strings.Contains(text, "looked at again in 5m") {
		t.Errorf("where something looks again:\n%s", text)
	}
}
