package realetcd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"usher.sh/usher/lab/realnode"
)

// logManagers shows what the managers have logged last, when the test has failed.
func logManagers(t *testing.T, nodes []*realnode.Node) {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, n := range nodes {
			logs, _ := filepath.Glob(filepath.Join(n.Dir, "var/log/pods", managerNamespace+"_*", "manager", "*.log"))
			for _, log := range logs {
				text, _ := os.ReadFile(log)
				t.Logf("%s:\n%s", strings.TrimPrefix(log, n.Dir), lastLines(string(text), 30))
			}
		}
	})
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
