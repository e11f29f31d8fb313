package pressure

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"usher.sh/usher/lab/realnode/join"
	"usher.sh/usher/lab/testlab"
)

// TestWithoutAnAPIServer brings a node below a hard threshold while the apiserver cannot be asked.
func TestWithoutAnAPIServer(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes minutes: make test-all runs it")
	}
	l := testlab.Start(t)
	s := storm{
		name: "alone", node: join.Options{Count: 1, Memory: resource.MustParse("600Mi")}, thresholds: hardMemory(250),
		pods: append(innocents(), resident{name: "leak", uses: 60}), meter: memoryOf, ours: limit{amount: 250 * mib},
	}
	st := s.settle(t, l, l.StartRealNodes(t, s.node)[0])
	st.await(t)
	a := startAgent(t, l, st.node, s.thresholds)

	l.StopAPIServer(t)
	a.awaitEntry(t, "the agent to notice that the apiserver is away", func(e entry) bool {
		return strings.Contains(e.Msg, "the apiserver does not answer")
	})
	ctx := t.Context()
	if err := send(ctx, st.pods["leak"], "/memory?mib=380&rate=50"); err != nil {
		t.Logf("leak did not answer, as it may when it is killed: %v", err)
	}
	killed := a.awaitEntry(t, "the agent to have killed", func(e entry) bool { return e.Action == "KillLocally" && e.Answer != "" })
	if killed.name() != "leak" || killed.Killed == 0 || killed.Answer != "Unavailable" {
		t.Errorf("%+v, want processes of leak killed, and no answer", killed)
	}
	if _, err := s.meter(st.node).until(ctx, func(a amount) bool { return !s.ours.met(a) }); err != nil {
		t.Errorf("waiting for the end of the shortage: %v", err)
	}

	l.StartAPIServer(t)
	testlab.WaitFor(t, l.Pods(st.space), "the kubelet to report the end of leak", func(all []*corev1.Pod) bool {
		_, ended := st.dead(all)["leak"]
		return ended
	})
	if dead := sorted(st.dead(st.list(t))); !slices.Equal(dead, []string{"leak"}) {
		t.Errorf("%v came to harm, want leak alone", dead)
	}
	a.awaitEntry(t, "the agent to notice that the apiserver is back", func(e entry) bool {
		return strings.Contains(e.Msg, "the apiserver answers again")
	})
	st.awaitSaid(t, false)
	a.stop(t)
	st.nothingLeft(t)
}
