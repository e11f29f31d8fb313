package drain_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// localVolume is a volume that node a alone can use.
func localVolume(name string) fact {
	return func(c *snapshot.Cluster) {
		c.SetVolume(&snapshot.Volume{Name: name, Affinity: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}},
		}}}})
	}
}

// Of the members of a policy on a node that goes by itself those are asked for first whose data it has alone, and the others once a responder has looked at these.
func TestDataThatWouldBeLostGoesFirst(t *testing.T) {
	set := statefulSet("db", 3)
	member := func(name string, options ...func(*snapshot.Pod)) fact {
		return pod(name, append([]func(*snapshot.Pod){on("a"), ofSet("db"), governed}, options...)...)
	}
	both := []string{"ask cache", "ask db-0"}
	for name, c := range map[string]struct {
		facts  []fact
		change func(*drain.Request)
		after  time.Duration
		want   []string
	}{
		"emptyDir":                       {facts: []fact{member("cache"), member("db-0", emptyDir("data"))}, want: both[1:]},
		"a local volume":                 {facts: []fact{member("cache"), member("db-0", claims("data")), claim("data", "v", false), localVolume("v")}, want: both[1:]},
		"a volume of a zone":             {facts: []fact{member("cache"), member("db-0", claims("data")), claim("data", "v", false), volumeIn("v", "z1")}, want: both},
		"a volume that was not read":     {facts: []fact{member("cache"), member("db-0", claims("data")), claim("data", "v", false)}, want: both},
		"both have such data":            {facts: []fact{member("cache", emptyDir("tmp")), member("db-0", emptyDir("data"))}, want: both},
		"another policy's":               {facts: []fact{member("cache", in("other")), member("db-0", emptyDir("data"))}, want: []string{"ask db-0", "ask cache"}},
		"a node that stays":              {facts: []fact{member("cache"), member("db-0", emptyDir("data"))}, change: func(r *drain.Request) { r.NodeGoes = false }, want: both},
		"no deadline":                    {facts: []fact{member("cache"), member("db-0", emptyDir("data"))}, change: func(r *drain.Request) { r.Deadline = time.Time{} }, want: both},
		"a responder has looked":         {facts: []fact{member("cache"), member("db-0", emptyDir("data")), askedBy(theirs, "db-0"), evictionOf("db-0", "x.io/y", "shards move")}, want: both[:1]},
		"none has yet":                   {facts: []fact{member("cache"), member("db-0", emptyDir("data")), askedBy(theirs, "db-0"), evictionOf("db-0", "x.io/y", "")}},
		"… and the time is over":         {facts: []fact{member("cache"), member("db-0", emptyDir("data")), askedBy(theirs, "db-0")}, after: 10 * time.Second, want: both[:1]},
		"it leaves already":              {facts: []fact{member("cache"), member("db-0", emptyDir("data"), endsAt(start.Add(time.Minute)))}, want: both[:1]},
		"what has no policy is no order": {facts: []fact{pod("cache", on("a"), ofSet("db")), member("db-0", emptyDir("data"))}, want: []string{"evict cache", "ask db-0"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := interrupted(t, append(c.facts, set)...)
			if c.change != nil {
				c.change(&s.req)
			}
			s.beat(c.after)
			s.expect(c.want...)
		})
	}
}

func TestWaitsForDataSaysSo(t *testing.T) {
	s := interrupted(t, statefulSet("db", 3), pod("cache", on("a"), ofSet("db"), governed), pod("db-0", on("a"), ofSet("db"), governed, emptyDir("data")))
	s.decide()
	same(t, "blockers", []string{"cache: EarlierWave"}, reasons(s.last))
	same(t, "words", "its eviction is requested once a responder has looked at db-0, whose data is on this node alone, at the latest at 12:00:10", s.status("cache").Blockers[0].Message)
	if s.last.Next.After(start.Add(10 * time.Second)) {
		t.Errorf("it looks again at %s", s.last.Next)
	}
}
