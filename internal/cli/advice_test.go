package cli

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/drain"
)

// kept is a reporter that keeps what it is given.
type kept struct {
	events []drain.Event
	frame  drain.Decision
}

func (k *kept) Event(e drain.Event)                 { k.events = append(k.events, e) }
func (k *kept) Frame(_ time.Time, d drain.Decision) { k.frame = d }

func TestWhatADrainReportsNamesCommandsForTheSameCluster(t *testing.T) {
	to := &kept{}
	by := advised{to, show.Commands{Program: "usher", Flags: []string{"--context=lab"}}}
	blocker := drain.Blocker{Reason: drain.EarlierWave, Message: "usher drain", Remedy: "usher why pod/a -n b"}
	by.Event(drain.Event{Kind: drain.EventBlocked, Blocker: &blocker})
	by.Event(drain.Event{Kind: drain.EventNote, Message: "node a keeps its cordon: no; usher uncordon a tries it again"})
	by.Event(drain.Event{Kind: drain.EventAnswer, Message: "a webhook says: kubectl get pods"})
	decision := drain.Decision{
		Pods:  []drain.PodStatus{{Blockers: []drain.Blocker{blocker}}},
		Nodes: []drain.NodeStatus{{Blockers: []drain.Blocker{{Remedy: "kubectl annotate node a b-"}}}},
	}
	by.Frame(time.Time{}, decision)
	got := []string{
		to.events[0].Blocker.Remedy, to.events[1].Message, to.events[2].Message, to.frame.Pods[0].Blockers[0].Remedy, to.frame.Nodes[0].Blockers[0].Remedy,
		blocker.Remedy, decision.Pods[0].Blockers[0].Remedy, // as they were
	}
	want := []string{
		"usher --context=lab why pod/a -n b", "node a keeps its cordon: no; usher --context=lab uncordon a tries it again", "a webhook says: kubectl get pods",
		"usher --context=lab why pod/a -n b", "kubectl --context=lab annotate node a b-",
		"usher why pod/a -n b", "usher why pod/a -n b",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
