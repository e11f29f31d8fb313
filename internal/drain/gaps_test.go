package drain_test

import (
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
)

// What cannot be seen is said, and is not called done.
func TestVolumesThatCannotBeSeen(t *testing.T) {
	mine := pod("db", on("a"), ofSet("db"), claims("data"))
	cases := map[string]struct {
		facts fact
		want  []string
	}{
		"attachments unread, a pod with volumes left": {all(mine, unreadable("volumeattachments")), []string{"a: EvidenceUnavailable!"}},
		"attachments unread, no volumes":              {all(pod("db", on("a"), ofSet("db")), unreadable("volumeattachments")), nil},
		"claims unread, a volume of a pod that stays": {all(mine, unreadable("persistentvolumeclaims"), daemonSet("d"), pod("log", on("a"), ofDaemon("d"), claims("log")), attached("v1", "a")), []string{"a: EvidenceUnavailable!"}},
		"claims unread, no pod with volumes stays":    {all(mine, unreadable("persistentvolumeclaims"), attached("v1", "a")), []string{"a: VolumeAttached"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			req := ask("a")
			req.Surge = drain.SurgeNever
			s := tell(t, req, node("a", ours), node("b"), statefulSet("db", 1), c.facts)
			s.expect("evict db")
			s.answer(answers.Accepted)
			s.then(time.Second, gone("db"))
			s.decide()
			same(t, "blockers", c.want, nodeReasons(s.last))
		})
	}
}

func nodeReasons(d drain.Decision) []string {
	var found []string
	for _, n := range d.Nodes {
		for _, b := range n.Blockers {
			text := n.Name + ": " + string(b.Reason)
			if b.Dead {
				text += "!"
			}
			found = append(found, text)
		}
	}
	return found
}

func TestDeploymentsThatCannotBeSeen(t *testing.T) {
	req := ask("a")
	s := tell(t, req, node("a", ours), node("b"), pod("web", on("a"), of("web")), unreadable("deployments"))
	s.expect("evict web")
	if len(s.last.Notes) != 1 {
		t.Errorf("notes %q, want one that says why nothing is surged", s.last.Notes)
	}
}
