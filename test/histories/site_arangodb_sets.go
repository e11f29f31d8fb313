package histories

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// newArangoSets is a deployment whose members are in StatefulSets, of which coordinators have no volumes.
func newArangoSets(w *world) site { return newDeployment(w, w.dice.IntN(3) == 0) }

func (*arango) sets() map[string]bool {
	return map[string]bool{
		"arangodb-agent": true, "arangodb-dbserver": true, "arangodb-single-active-failover": true, "arangodb-single": true,
		"arangodb-coordinator": false, "arangodb-syncmaster": false, "arangodb-syncworker": false,
	}
}

func (*arango) container(role string) corev1.Container {
	c := corev1.Container{Name: "server"}
	if role == "arangodb-agent" {
		c.Args = []string{"--agency.activate=true", "--agency.disaster-recovery-id=$(POD_NAME)"}
	}
	return c
}

// wipe loses the disk of the server that has run in a pod.
func (a *arango) wipe(pod string) {
	a.sim.Wipe(a.id[pod])
	a.empty[pod] = true
}

func (a *arango) wouldLoseDisk(pod string) string {
	if a.empty[pod] {
		return ""
	}
	if lose, why := a.sim.WouldLoseWithDisk(a.id[pod]); lose {
		return why
	}
	return ""
}

// expelled: a server that was removed ends where it finds that.
func (a *arango) expelled(pod string) bool { return !a.empty[pod] && !a.sim.Knows(a.id[pod]) }

// checkRemoved: a server is taken off the list only when it has ended, and nothing is lost without it.
func (a *arango) checkRemoved(body string) {
	for _, id := range a.sim.Members() {
		if body != `"`+id+`"` && !strings.Contains(body, `"/arango/Plan/Singles/`+id+`":`) {
			continue
		}
		if a.sim.Runs(id) {
			a.world.fail("REPLACED", "%s is taken off the list, and runs", id)
		}
		if lose, why := a.sim.WouldLoseWithDisk(id); lose {
			a.world.fail("REPLACED", "%s is taken off the list: %s", id, why)
		}
		for _, at := range a.sim.Mentions(id) {
			if strings.HasPrefix(at, "/Plan/Collections/") || strings.HasPrefix(at, "/Current/Collections/") {
				a.world.fail("REPLACED", "%s is to be taken off the list, and stands at %s", id, at)
			}
		}
	}
}
