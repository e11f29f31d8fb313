//go:build !race

package histories

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/test/arangosim"
)

// realDumps are of agencies of real clusters: three coordinators, three dbservers, and agents.
var realDumps = []string{
	"agency_dump.3.7.json", "agency_dump.3.9.json", "agency_dump.3.9.satellite.json", "agency_dump.3.9.jobs.json", "agency_dump.3.10.json",
}

// realDump reads a file of real clusters, from where USHER_REAL_DATA points or from beside the project.
func realDump(t *testing.T, name string) []byte {
	t.Helper()
	folder := os.Getenv("USHER_REAL_DATA")
	if folder == "" {
		folder = filepath.Join("..", "..", "..", "shared", "data")
	}
	data, err := os.ReadFile(filepath.Join(folder, "arangodb", name))
	if err != nil {
		t.Skipf("SKIPPED, NOT TESTED: there is no dump of a real agency: %v (set USHER_REAL_DATA)", err)
	}
	return data
}

// losses is a world in which members of a deployment are lost and replaced, and nothing else goes wrong. All of Usher is the manager's own wiring.
type losses struct {
	*world

	t  *testing.T
	a  *arango
	to map[string][]string // ids of the servers that have run in each pod, the latest last
	// outage: what is lost by itself is more than the deployment can do without, so that not all of it is there for now.
	outage bool
}

// ofDump begins with a dump, and with pods of ArangoSync, of which an agency knows nothing. Its servers listen where pods of StatefulSets do.
func ofDump(data []byte) func(*world) (*arango, error) {
	return func(w *world) (*arango, error) {
		sim, err := arangosim.Load(data, arangosim.Config{Secret: arangoSecret, KeepJobs: 600, Host: setHost})
		if err != nil {
			return nil, err
		}
		a := arangoOver(w, sim)
		a.shards = sim.Shards()
		for _, role := range []string{"syncmaster", "syncworker"} {
			a.plan = append(a.plan, planned{role + "-0", "arangodb-" + role, false}, planned{role + "-1", "arangodb-" + role, false})
		}
		return a, nil
	}
}

// ofSingles is an active failover deployment, of which there is no dump, and ofSingle a single server, which has no agency.
func ofSingles(w *world) (*arango, error) {
	return deploymentOf(w, arangosim.Config{Agents: 3, Singles: 3}), nil
}

func ofSingle(w *world) (*arango, error) {
	a := deploymentOf(w, arangosim.Config{Singles: 1})
	a.plan[0].role = "arangodb-single"
	return a, nil
}

// playLosses has something happen in a world of its own.
func playLosses(t *testing.T, of func(*world) (*arango, error), happens func(*losses)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		time.Sleep(time.Until(epoch))
		ctx, cancel := context.WithCancel(context.Background())
		l := &losses{world: newWorld(ctx, 1), t: t, to: map[string][]string{}}
		l.calm, l.odds.delivery, l.odds.replaced, l.makesNone = true, 1, 1, map[string]bool{}
		a, err := of(l.world)
		if err != nil {
			t.Fatal(err)
		}
		l.a, l.site = a, a
		a.each = l.look
		if err := l.populate(); err != nil {
			t.Fatal(err)
		}
		if err := l.deploy(1); err != nil {
			t.Fatal(err)
		}
		l.settle(10 * time.Second) // until evidence is there and all pods are labelled
		happens(l)
		l.a.each = nil
		if failures := l.failures; len(failures) > 0 {
			t.Errorf("%s\n%s", strings.Join(failures, "\n"), strings.Join(l.trace, "\n"))
		}
		l.close(cancel)
	})
}

// look checks at each second what must always hold, by disks and processes, and no id is one of an earlier server of another pod or disk.
func (l *losses) look() {
	if lost := l.a.sim.Lost(); len(lost) > 0 {
		l.fail("DATA", "lost: %v", lost)
	}
	if gone := l.a.sim.OutOfReach(); len(gone) > 0 && !l.outage {
		l.fail("DATA", "no server that is up has all of %v", gone)
	}
	if !l.a.sim.Quorum() && !l.outage {
		l.fail("QUORUM", "no majority of the agents is together")
	}
	for pod, id := range l.a.id {
		its := l.to[pod]
		if len(its) > 0 && its[len(its)-1] == id {
			continue
		}
		for other, ids := range l.to {
			if slices.Contains(ids, id) {
				l.fail("TWICE", "%s runs as %s, as %s has before", pod, id, other)
			}
		}
		l.to[pod] = append(its, id)
	}
}

// lose has the machine of a member stop for good, with its disk.
func (l *losses) lose(pod string) {
	l.loseMachine(pod, true)
	l.destroyMachine(pod)
}

// fence proves that the machine of a member is off.
func (l *losses) fence(pod string) {
	fence, _ := l.fenceOf(pod)
	l.prove(pod, fence)
}

// ask requests the replacement of a member.
func (l *losses) ask(pod string) { l.requestReplacement("of-"+pod, pod) }

func (l *losses) status(pod string) *v1alpha1.ReplacementRequestStatus {
	l.t.Helper()
	request := l.replacement("of-" + pod)
	if request == nil {
		l.t.Fatalf("there is no request for %s", pod)
	}
	return &request.Status
}

// enough is how long a replacement may take once nothing is in its way: the supervision needs ten seconds to find that a server has failed.
const enough = 5 * time.Minute

// replaced waits until the successor of a member does its work.
func (l *losses) replaced(pod string) {
	l.t.Helper()
	end := time.Now().Add(enough)
	for time.Now().Before(end) && !l.failed() && l.status(pod).Step != v1alpha1.ReplacementComplete {
		l.settle(time.Second)
	}
	if status := l.status(pod); status.Step != v1alpha1.ReplacementComplete {
		l.t.Errorf("%s: %s after %s: %+v", pod, status.Step, enough, status.Blockers)
	}
	l.settle(time.Minute)
	if thin := l.a.sim.Thin(); len(thin) > 0 {
		l.t.Errorf("too few servers hold %v", thin)
	}
}

// held checks that nothing becomes of a replacement, for a reason, and that everything of the member is there.
func (l *losses) held(pod string, reasons ...string) {
	l.t.Helper()
	claim, object := l.claim(pod), l.store.pod(pod)
	l.settle(3 * time.Minute)
	status := l.status(pod)
	if status.Step != v1alpha1.ReplacementWaiting {
		l.t.Errorf("%s: %s", pod, status.Step)
	}
	for _, reason := range reasons {
		if !slices.ContainsFunc(status.Blockers, func(b v1alpha1.ReplacementBlocker) bool { return b.Reason == reason }) {
			l.t.Errorf("%s: %s is not among %+v", pod, reason, status.Blockers)
		}
	}
	if now := l.claim(pod); (claim == nil) != (now == nil) || claim != nil && (now.UID != claim.UID || now.DeletionTimestamp != nil) {
		l.t.Errorf("%s: its claim is removed", pod)
	}
	if now := l.store.pod(pod); object != nil && (now == nil || now.UID != object.UID || now.DeletionTimestamp != nil) {
		l.t.Errorf("%s: its pod is removed", pod)
	}
}

// renewed checks that another server than before is in the place of a member, and that the earlier one is on no list.
func (l *losses) renewed(pod, before string) {
	l.t.Helper()
	now := l.a.id[pod]
	if now == before || !l.a.sim.Knows(now) || !l.a.sim.Runs(now) {
		l.t.Errorf("%s is in the place of %s", now, before)
	}
	if at := l.a.sim.Mentions(before); len(at) > 0 {
		l.t.Errorf("%s stands at %v", before, at)
	}
}

// kept checks that an agent is there again under its id, and that the others can do without its disk, since it has every entry.
func (l *losses) kept(pod, before string) {
	l.t.Helper()
	if now := l.a.id[pod]; now != before || !l.a.sim.Runs(now) {
		l.t.Errorf("%s is in the place of %s", now, before)
	}
	for _, p := range l.a.plan {
		if lose, why := l.a.sim.WouldLoseWithDisk(l.a.id[p.pod]); lose && p.role == "arangodb-agent" {
			l.t.Error(why)
		}
	}
}

// podOf is the pod in which a server runs.
func (l *losses) podOf(id string) string {
	for pod, its := range l.a.id {
		if its == id {
			return pod
		}
	}
	return ""
}

// collected is a pod that is taken away by force, as of a node that is tainted as one that is off, or by a person.
func (l *losses) collected(pod string) {
	l.store.drop(pods, client.ObjectKey{Namespace: namespace, Name: pod})
	l.podLives[pod] = missing
}

// Every member of every role of a real cluster is lost with its machine, one in each run, and gets a successor: dbservers and coordinators under another id, and
// the lost one is off every list; agents under the same id, with an empty disk; ArangoSync's under none.
func TestEachRoleOfRealClustersIsReplaced(t *testing.T) {
	for _, file := range realDumps {
		data := realDump(t, file)
		for _, pod := range []string{
			"dbserver-0", "dbserver-1", "dbserver-2", "coordinator-0", "coordinator-2", "agent-0", "agent-1", "agent-2", "syncmaster-0", "syncworker-1",
		} {
			t.Run(file+" "+pod, func(t *testing.T) {
				playLosses(t, ofDump(data), func(l *losses) {
					before := l.a.id[pod]
					l.lose(pod)
					l.ask(pod)
					l.settle(30 * time.Second)
					if status := l.status(pod); status.Step != v1alpha1.ReplacementWaiting {
						t.Errorf("before its node is proven off: %s", status.Step)
					}
					l.fence(pod)
					l.replaced(pod)
					switch role := strings.TrimRight(pod, "-012"); role {
					case "agent":
						l.kept(pod, before)
					case "dbserver", "coordinator":
						l.renewed(pod, before)
					}
				})
			})
		}
	}
}

// An agent whose pod may still run is not replaced, whatever the API says of the pod: with two agents of one id, the agency would break.
func TestAgentsWaitUntilTheOldPodIsDeleted(t *testing.T) {
	for name, happens := range map[string]func(*losses){
		"its pod is there, on a node that is not proven off": func(l *losses) {
			l.held("agent-1", "NodeNotProvenOff", "OldPodThere")
		},
		"its pod was deleted by force, and the next one finds no node": func(l *losses) {
			l.collected("agent-1")
			l.held("agent-1", "NodeNotProvenOff")
		},
		"its pod was deleted by force, and its set makes none": func(l *losses) {
			l.makesNone["agent-1"] = true
			l.collected("agent-1")
			l.held("agent-1", "NodeNotProvenOff", "PodMissing")
		},
	} {
		for _, file := range realDumps {
			data := realDump(t, file)
			t.Run(file+": "+name, func(t *testing.T) {
				playLosses(t, ofDump(data), func(l *losses) {
					before := l.a.id["agent-1"]
					l.loseMachine("agent-1", true)
					l.ask("agent-1")
					l.settle(time.Second) // it sees where the pod is
					happens(l)
					l.fence("agent-1")
					l.settle(time.Minute)
					if l.makesNone["agent-1"] && l.status("agent-1").Step != v1alpha1.ReplacementJoining {
						t.Errorf("while no pod is made: %s %+v", l.status("agent-1").Step, l.status("agent-1").Blockers)
					}
					delete(l.makesNone, "agent-1")
					l.replaced("agent-1")
					l.kept("agent-1", before)
				})
			})
		}
	}
}

// What the deployment cannot do without stays: nothing of it is removed, also where its machine is proven off.
func TestWhatRealClustersNeedIsNotReplaced(t *testing.T) {
	for name, happens := range map[string]func(*losses){
		"the last copy of shards": func(l *losses) {
			leader := l.podOf(l.a.sim.Leaders()[0])
			for _, pod := range []string{"dbserver-0", "dbserver-1", "dbserver-2"} {
				if pod != leader {
					l.halt(pod)
				}
			}
			l.settle(30 * time.Second) // it is written to while the others are away
			l.outage = true
			l.loseMachine(leader, true)
			l.ask(leader)
			l.fence(leader)
			l.held(leader, "NoFollowerInSync")
			l.repair()
			l.held(leader, "NoFollowerInSync") // what they have is old
			l.answers(leader)
			l.settle(30 * time.Second)
			l.outage = false
			l.held(leader, "PredecessorRuns")
		},
		"the second agent of three": func(l *losses) {
			l.outage = true
			for _, pod := range []string{"agent-0", "agent-2"} {
				l.loseMachine(pod, true)
				l.fence(pod)
				l.ask(pod)
			}
			l.held("agent-0", "AgencyNotServing")
			l.held("agent-2", "AgencyNotServing")
			l.answers("agent-0")
			l.settle(10 * time.Second)
			l.outage = false
			l.replaced("agent-2")
			l.kept("agent-2", l.to["agent-2"][0])
		},
		"another agent while one is replaced": func(l *losses) {
			l.lose("agent-0")
			l.fence("agent-0")
			l.makesNone["agent-0"] = true
			l.ask("agent-0")
			l.settle(30 * time.Second)
			l.ask("agent-1")
			l.held("agent-1", "AnotherIsReplaced", "EntriesAtRisk", "PredecessorRuns")
			delete(l.makesNone, "agent-0")
			l.replaced("agent-0")
		},
		"a coordinator that runs": func(l *losses) {
			l.ask("coordinator-1")
			l.held("coordinator-1", "PredecessorRuns")
		},
	} {
		for _, file := range realDumps {
			data := realDump(t, file)
			t.Run(file+": "+name, func(t *testing.T) { playLosses(t, ofDump(data), happens) })
		}
	}
}

// Whichever server of an active failover deployment is lost gets a successor under another id, once another one leads.
func TestSingleServersOfActiveFailoverAreReplaced(t *testing.T) {
	for _, pod := range []string{"single-0", "single-1", "single-2"} { // the first leads
		t.Run(pod, func(t *testing.T) {
			playLosses(t, ofSingles, func(l *losses) {
				before := l.a.id[pod]
				l.ask(pod)
				if l.held(pod, "PredecessorRuns"); l.a.leads(pod) {
					l.held(pod, "LeadsDeployment")
				}
				l.a.shards = nil // the last write would be the leader's alone
				l.settle(2 * time.Second)
				l.lose(pod)
				l.fence(pod)
				l.replaced(pod)
				l.renewed(pod, before)
			})
		})
	}
}

func TestASingleServerIsNeverReplaced(t *testing.T) {
	playLosses(t, ofSingle, func(l *losses) {
		l.ask("single-0")
		l.held("single-0", "OnlyServer")
		l.outage = true
		l.loseMachine("single-0", true)
		l.fence("single-0")
		l.held("single-0", "OnlyServer")
	})
}

// A member without a volume may have been replaced by Kubernetes itself before Usher has looked: its set has made its pod on another node. What is left of it on
// the deployment's lists goes all the same, and what earlier pods have left there.
func TestWhatKubernetesHasReplaced(t *testing.T) {
	for _, file := range realDumps {
		data := realDump(t, file)
		for _, pod := range []string{"coordinator-0", "coordinator-1", "syncmaster-0", "syncworker-1"} {
			t.Run(file+" "+pod, func(t *testing.T) {
				playLosses(t, ofDump(data), func(l *losses) {
					before := l.a.id[pod]
					for range 2 { // nothing is requested for the first one
						l.end(l.replicas[0])
						l.rebirth(0)
						l.settle(10 * time.Second)
						l.lose(pod)
						if l.moved > 0 {
							l.ask(pod)
							l.settle(10 * time.Second)
						}
						l.end(l.replicas[0])
						l.fence(pod)
						l.collected(pod)
						l.settle(30 * time.Second)
						l.rebirth(0)
					}
					second := l.to[pod][max(0, len(l.to[pod])-2)]
					l.replaced(pod)
					if strings.HasPrefix(pod, "coordinator") {
						l.renewed(pod, before)
						l.renewed(pod, second)
					}
				})
			})
		}
	}
}
