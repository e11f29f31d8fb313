package drain_test

import (
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
)

// leave evicts the pods of this decision and sees them gone.
func (s *story) leave(facts ...fact) {
	s.t.Helper()
	s.decide()
	s.answer(answers.Accepted)
	for _, a := range s.last.Actions {
		if a.Kind == drain.Evict {
			facts = append(facts, gone(a.Pod.Name))
		}
	}
	s.then(time.Second, facts...)
	s.decide()
}

func TestRecovery(t *testing.T) {
	rest := pods("web", "b", 1)
	cases := map[string]struct {
		facts fact // on node a: pod p
		after fact
		state drain.PodState
		note  string
	}{
		"a Deployment's pod, nothing yet":          {all(deployment("web", 2), rest, pod("p", on("a"), of("web"))), all(), drain.GoneState, "Deployment/web has not started its replacement yet"},
		"a Deployment's pod, starting":             {all(deployment("web", 2), rest, pod("p", on("a"), of("web"))), pod("q", on("b"), of("web"), unready), drain.GoneState, "its replacement q is not ready"},
		"a Deployment's pod, back":                 {all(deployment("web", 2), rest, pod("p", on("a"), of("web"))), pod("q", on("b"), of("web")), drain.Replaced, ""},
		"… not ready for long enough":              {all(deployment("web", 2, minReady(time.Minute)), rest, pod("p", on("a"), of("web"))), pod("q", on("b"), of("web"), readySince(start)), drain.GoneState, "its replacement q is not ready"},
		"a Deployment scaled down meanwhile":       {all(deployment("web", 2), rest, pod("p", on("a"), of("web"))), deployment("web", 1), drain.Replaced, ""},
		"a StatefulSet's pod, back elsewhere":      {all(statefulSet("db", 1), pod("p", on("a"), ofSet("db"))), pod("p", on("b"), ofSet("db"), uid("new")), drain.Replaced, ""},
		"a StatefulSet's pod, on its way":          {all(statefulSet("db", 1), pod("p", on("a"), ofSet("db"))), pod("p", on("b"), ofSet("db"), uid("new"), unready), drain.GoneState, "its replacement p is not ready"},
		"a Job's pod":                              {all(controller("Job", "sum", -1), pod("p", on("a"), ofJob("sum"))), all(), drain.Ended, "its Job sum decides whether it runs again"},
		"a bare pod":                               {pod("p", on("a")), all(), drain.Ended, "nothing replaces it: no controller owned it"},
		"a pod of an owner that cannot be seen":    {pod("p", on("a"), ownedBy("Custom", "x", "x")), all(), drain.Ended, "its Custom x cannot be seen, so it is unknown whether it was replaced"},
		"a pod of a ReplicaSet without Deployment": {all(controller("ReplicaSet", "web-rs", 1), pod("p", on("a"), of("web"))), pod("q", on("b"), of("web")), drain.Replaced, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			req := ask("a")
			req.Surge = drain.SurgeNever
			s := tell(t, req, node("a", ours), node("b"), c.facts)
			s.leave(c.after)
			same(t, "state", c.state, s.status("p").State)
			same(t, "note", c.note, s.status("p").Note)
			same(t, "gone at", start.Add(time.Second), s.status("p").GoneAt)
		})
	}
}

func TestDaemonSetPodsRecovery(t *testing.T) {
	s := tell(t, asked(evictDaemons), node("a", ours), daemonSet("d"), pod("p", on("a"), ofDaemon("d")))
	s.leave()
	same(t, "note", "its DaemonSet runs it wherever the node may have it", s.status("p").Note)
}

// The pods that left last are the ones that are not replaced yet.
func TestFirstGoneIsFirstReplaced(t *testing.T) {
	s := tell(t, never("a"), node("a", ours), deployment("web", 3), pods("web", "b", 1), pod("one", on("a"), of("web")), pod("two", on("a"), of("web"), order(1)))
	s.leave()
	s.answer(answers.Accepted) // the second wave
	s.then(time.Second, gone("two"), pod("new", on("b"), of("web")), pod("newer", on("b"), of("web"), unready))
	s.decide()
	same(t, "states", []string{"one replaced", "two gone"}, s.states())
	same(t, "replacement", "newer", s.status("two").Replacement.Name)
}

// What takes the place of a StatefulSet's pod has its name.
func TestPodsOfAStatefulSetComeBackByName(t *testing.T) {
	s := tell(t, never("a"), node("a", ours), node("b"), statefulSet("db", 3), pod("db-0", on("a"), ofSet("db")), pod("db-1", on("b"), ofSet("db")), pod("db-2", on("a"), ofSet("db")))
	s.leave(pod("db-2", on("b"), ofSet("db"), uid("new-2")))
	same(t, "states", []string{"db-0 gone", "db-2 replaced"}, s.states())
	same(t, "note", "StatefulSet/db has not started its replacement yet", s.status("db-0").Note)

	s.then(time.Second, pod("db-0", on("b"), ofSet("db"), uid("new-0"), unready), pod("db-2", on("a"), ofSet("db"), uid("newer-2"), createdAt(s.now)))
	s.decide()
	same(t, "note of what came back", "db-2 has come back to the node in its place", s.noteOf("uid-db-2"))
	same(t, "note of what comes", "its replacement db-0 is not ready", s.noteOf("uid-db-0"))

	s.then(time.Second, pod("db-0", on("b"), ofSet("db"), uid("new-0")))
	s.decide()
	same(t, "note of what came back", "db-2 has come back to the node in its place", s.noteOf("uid-db-2"))
	same(t, "note of what is ready", "", s.noteOf("uid-db-0"))
}

// noteOf returns the note of the pod of this UID: another one may have its name.
func (s *story) noteOf(uid string) string {
	s.t.Helper()
	for i := range s.last.Pods {
		if string(s.last.Pods[i].Pod.UID) == uid {
			return s.last.Pods[i].Note
		}
	}
	s.t.Fatalf("no pod with UID %q in the decision", uid)
	return ""
}

// What was said of a pod that left is not said of another one at the next look.
func TestReplacementsAreKept(t *testing.T) {
	s := tell(t, never("a"), node("a", ours), node("b"), deployment("web", 3), pod("one", on("a"), of("web")), pod("two", on("a"), of("web"), order(1)), pod("three", on("a"), of("web"), order(2)))
	s.leave(pod("back", on("a"), of("web"), createdAt(start.Add(time.Second))))
	same(t, "note", "back has come back to the node in its place", s.status("one").Note)
	s.answer(answers.Accepted)
	s.then(time.Second, gone("two"), pod("second", on("b"), of("web")))
	s.decide()
	same(t, "note", "back has come back to the node in its place", s.status("one").Note)
	same(t, "state", drain.Replaced, s.status("two").State)
	s.answer(answers.Accepted)
	s.then(time.Second, gone("three"), pod("new", on("b"), of("web"), unready))
	s.decide()
	same(t, "replacement", "new", s.status("three").Replacement.Name)
	s.then(time.Second, pod("earlier", on("b"), of("web"), unready))
	s.decide()
	same(t, "replacement", "new", s.status("three").Replacement.Name)
	same(t, "state", drain.Replaced, s.status("two").State)
}

// What its owner has released takes the place of no pod.
func TestReleasedPodsReplaceNothing(t *testing.T) {
	s := tell(t, never("a"), node("a", ours), node("b"), deployment("web", 1), pod("one", on("a"), of("web")))
	s.leave(pod("next", on("b"), of("web"), unready))
	same(t, "replacement", "next", s.status("one").Replacement.Name)
	s.then(time.Second, pod("next", on("b"), of("web")))
	s.decide()
	same(t, "states", []string{"one replaced"}, s.states())
	s.then(time.Second, pod("next", on("b")))
	s.decide()
	same(t, "states", []string{"one gone"}, s.states())
}

// Pods of two ReplicaSets of one Deployment lack the same replacements: each is
// missing once.
func TestPodsOfTwoReplicaSetsOfOneDeployment(t *testing.T) {
	old := workload("ReplicaSet", "old-rs", 1)
	s := tell(t, never("a"), node("a", ours), deployment("web", 2), pod("p", on("a"), of("web")), pod("q", on("a"), ownedBy("ReplicaSet", "old-rs", "web")),
		func(c *clusterOf) { old.Owner = c.Workload("uid-web-rs").Owner; c.SetWorkload(old) })
	s.leave(pod("new", on("b"), of("web")))
	same(t, "states", []string{"p replaced", "q gone"}, s.states())
}

func TestWaitReplaced(t *testing.T) {
	req := never("a")
	req.WaitReplaced = true
	s := tell(t, req, node("a", ours), deployment("web", 2), pods("web", "b", 1), pod("p", on("a"), of("web")))
	s.leave()
	s.answer(answers.Accepted) // the mark
	s.then(time.Second, node("a", ours, state("drained"), version("2")), pod("q", on("b"), of("web"), unready))
	s.expect()
	s.holds("p: NotReplaced")
	s.ends(drain.Running)
	s.then(time.Second, pod("q", on("b"), of("web")))
	s.expect()
	s.ends(drain.Drained)
}

func TestDefaultDoesNotWaitForReplacements(t *testing.T) {
	s := tell(t, never("a"), node("a", ours), deployment("web", 2), pods("web", "b", 1), pod("p", on("a"), of("web")))
	s.leave()
	s.answer(answers.Accepted)
	s.then(time.Second, node("a", ours, state("drained"), version("2")))
	s.expect()
	s.ends(drain.Drained)
	same(t, "states", []string{"p gone"}, s.states())
}
