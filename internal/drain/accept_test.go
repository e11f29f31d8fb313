package drain_test

import (
	"testing"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

func TestAccept(t *testing.T) {
	local := func(p *snapshot.Pod) { p.EmptyDirs = []string{"cache"} }
	cases := map[string]struct {
		facts fact
		flags []string
	}{
		"nothing":                    {pod("p", on("a"), of("web")), nil},
		"each flag once, and sorted": {all(pod("p", on("a"), local), pod("q", on("a")), daemonSet("d"), pod("d", on("a"), ofDaemon("d"))), []string{"--delete-emptydir-data", "--force", "--ignore-daemonsets"}},
		"a DaemonSet that is gone":   {pod("d", on("a"), ofDaemon("d")), []string{"--force"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			req := drain.Request{Nodes: []string{"a"}, DaemonSets: drain.DaemonSetsObject}
			flags := drain.Accept(drain.Objections(snapshot.View{Now: start, Cluster: cluster(node("a"), c.facts)}, req))
			same(t, "flags", c.flags, flags)
		})
	}
}

// Whatever the filters object to has a flag.
func TestAcceptedDrainsDoNotObject(t *testing.T) {
	facts := all(daemonSet("d"), pod("d", on("a"), ofDaemon("d")), pod("o", on("a"), ofDaemon("gone")), pod("p", on("a"), func(p *snapshot.Pod) { p.EmptyDirs = []string{"cache"} }))
	view := snapshot.View{Now: start, Cluster: cluster(node("a"), facts)}
	req := drain.Request{Nodes: []string{"a"}, DaemonSets: drain.DaemonSetsObject}
	flags := drain.Accept(drain.Objections(view, req))
	for _, flag := range flags {
		switch flag {
		case "--force":
			req.Force = true
		case "--ignore-daemonsets":
			req.DaemonSets = drain.DaemonSetsIgnore
		case "--delete-emptydir-data":
			req.DeleteEmptyDir = true
		}
	}
	if left := drain.Objections(view, req); len(left) > 0 {
		t.Errorf("with %v it still objects: %v", flags, left)
	}
}
