package show

import (
	"encoding/json"
	"fmt"
	"time"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// Why is the answer to whether one pod may be evicted now.
type Why struct {
	Pod      *snapshot.Pod
	Blockers []drain.Blocker
	Now      time.Time
}

// Lines is the answer for people.
func (w Why) Lines(width int, paint Paint) []string {
	who := w.Pod.Key().String()
	if w.Pod.Node != "" {
		who += " on " + w.Pod.Node
	}
	if len(w.Blockers) == 0 {
		return []string{fmt.Sprintf("%s %s be evicted now", who, paint.good("may"))}
	}
	lines := []string{fmt.Sprintf("%s %s be evicted now:", who, paint.bad("may not"))}
	return append(lines, BlockerLines(w.Blockers, w.Now, width, paint)...)
}

// JSON is the answer for programs.
func (w Why) JSON() ([]byte, error) {
	return json.MarshalIndent(whyJSON{
		Pod:  podJSON{Namespace: w.Pod.Namespace, Name: w.Pod.Name, UID: string(w.Pod.UID)},
		Node: w.Pod.Node, MayGo: len(w.Blockers) == 0, Blockers: blockersJSON(w.Blockers),
	}, "", "  ")
}

type whyJSON struct {
	Pod      podJSON       `json:"pod"`
	Node     string        `json:"node,omitempty"`
	MayGo    bool          `json:"mayGo"`
	Blockers []BlockerJSON `json:"blockers"`
}
