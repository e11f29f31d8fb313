package notice

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Reported is a notice as it was reported now.
type Reported struct {
	Notice

	// Rule made it; nil: its source itself did.
	Rule *Rule
}

// Node is a node as notices see it.
type Node struct {
	Name       string
	UID        types.UID
	Hostname   string // its label
	ProviderID string
	Taints     []corev1.Taint
	Conditions []corev1.NodeCondition
}

// Name is the name of the NodeMaintenance that a notice makes, and of its Event. Another source, event or node has another.
func (n *Notice) Name() string {
	const mostNode = 200
	node := strings.TrimRight(n.Node[:min(len(n.Node), mostNode)], ".-")
	return "notice-" + node + "-" + digest(string(n.Source), n.Event, n.Node)
}

// digest is a short digest of several words.
func digest(words ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// over reports whether a notice does not stand any more.
func (n *Notice) over(now time.Time) bool {
	return n.Withdrawn || !n.EndTime.IsZero() && !n.EndTime.After(now)
}

// earliest returns the earlier of two times; zero is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// merged is what remains of reports of the same notices, in the order in which they were made: the last one counts, and the earliest effective time.
func merged(all []Reported) []Reported {
	found := map[string]int{}
	var once []Reported
	for i := range all {
		r := all[i]
		j, is := found[r.Name()]
		if !is {
			found[r.Name()], once = len(once), append(once, r)
			continue
		}
		if !once[j].Withdrawn && !r.Withdrawn {
			r.EffectiveTime = earliest(once[j].EffectiveTime, r.EffectiveTime)
		}
		once[j] = r
	}
	return once
}
