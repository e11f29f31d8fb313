package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// Programs read what a drain prints line by line, its plan too.
func TestPlanOfADrainIsOneLine(t *testing.T) {
	var out bytes.Buffer
	v := newVoice(genericiooptions.IOStreams{Out: &out, ErrOut: &out}, "json", show.Commands{})
	view := snapshot.View{Now: noon, Cluster: snapshot.NewCluster()}
	view.Cluster.SetNode(&snapshot.Node{Name: "a", UID: "a", Ready: true})
	if err := printPlan(v, view, drain.Request{Nodes: []string{"a"}}, typed{}, show.Plan{OneLine: true}); err != nil {
		t.Error(err)
	}
	if strings.Count(out.String(), "\n") != 1 || !json.Valid(out.Bytes()) {
		t.Errorf("not one object on a line:\n%s", out.String())
	}
}

// The order in which roles leave is that of the pods on the nodes that are drained.
func TestPlanHasTheOrderOfRoles(t *testing.T) {
	view := snapshot.View{Now: noon, Cluster: snapshot.NewCluster()}
	policy := &snapshot.Policy{Namespace: "shop", Name: "cloud"}
	for role, after := range map[string][]string{"vm": nil, "l2": {"vm"}} {
		policy.Members = append(policy.Members, snapshot.PolicyMember{Role: role, Selector: labels.SelectorFromSet(labels.Set{"app": role}), LeavesAfter: after})
	}
	view.Cluster.SetPolicy(policy)
	for _, node := range []string{"a", "b"} {
		view.Cluster.SetNode(&snapshot.Node{Name: node, UID: types.UID(node), Ready: true})
		for _, role := range []string{"vm", "l2"} {
			view.Cluster.SetPod(&snapshot.Pod{Namespace: "shop", Name: role + "-" + node, UID: types.UID(role + node), Node: node, Labels: map[string]string{"app": role}})
		}
	}
	var out bytes.Buffer
	v := newVoice(genericiooptions.IOStreams{Out: &out, ErrOut: &out}, "text", show.Commands{})
	_ = printPlan(v, view, drain.Request{Nodes: []string{"a"}}, typed{flags: pflag.NewFlagSet("", pflag.ContinueOnError)}, show.Plan{})
	if want := "leaves before it\n  l2: l2-a\n  └─ vm: vm-a\n"; !strings.Contains(out.String(), want) {
		t.Errorf("no %q in\n%s", want, out.String())
	}
}

// The end of a forecast lies ahead: how long something has lasted is said as of now.
func TestPlanCountsTimeFromNow(t *testing.T) {
	view := snapshot.View{Now: noon, Cluster: snapshot.NewCluster()}
	view.Cluster.SetNode(&snapshot.Node{Name: "a", UID: "a", Ready: true})
	overdue := &snapshot.Pod{Namespace: "shop", Name: "web", UID: "web", Node: "a", Deletion: noon.Add(-104 * time.Second)}
	view.Cluster.SetPod(overdue)
	view.Cluster.SetPod(&snapshot.Pod{Namespace: "shop", Name: "later", UID: "later", Node: "a", Deletion: noon.Add(time.Second)})
	ahead := view
	ahead.Now = noon.Add(5 * time.Minute)
	var found []drain.Blocker
	for _, pod := range view.Cluster.PodsOn("a") {
		found = append(found, drain.Why(ahead, pod)...)
	}
	said := map[string]string{}
	for _, b := range asOfNow(view, found) {
		if b.Reason == drain.OverdueOnNode {
			said[b.Pod.Name] = b.Message
		}
	}
	want := map[string]string{"web": "its grace ended 1m44s ago and the kubelet still has it", "later": "at the end of the drain: its grace ended 4m59s ago and the kubelet still has it"}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Error(diff)
	}
}
