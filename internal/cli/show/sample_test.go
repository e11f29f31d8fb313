package show

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func pod(name string) *snapshot.Pod {
	return &snapshot.Pod{Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Node: "worker-1"}
}

func held(name string, reason drain.Reason, message string, dead bool) drain.PodStatus {
	p := pod(name)
	return drain.PodStatus{Pod: p, State: drain.Waiting, Blockers: []drain.Blocker{{
		Reason: reason, Pod: p.Key(), Node: p.Node, Message: message, Remedy: "do something about " + string(reason),
		Since: noon.Add(-3 * time.Minute), Dead: dead,
	}}}
}

// crowded is a node of 250 pods in every state.
func crowded() drain.Decision {
	d := drain.Decision{Nodes: []drain.NodeStatus{{Name: "worker-1", State: drain.NodeDraining, Left: 120}}}
	d.Pods = append(d.Pods, held("db-0", drain.BudgetNeverAllows, "budget db can never allow it: minAvailable 1 asks for 1 healthy, of 1 pod", true))
	for i := range 8 {
		p := pod(fmt.Sprintf("api-7d9f8b6c5d-%05d", i))
		p.Deletion, p.Grace = noon.Add(20*time.Second), 30*time.Second
		d.Pods = append(d.Pods, drain.PodStatus{Pod: p, State: drain.Terminating})
	}
	for i := range 111 {
		d.Pods = append(d.Pods, held(fmt.Sprintf("web-%03d", i), drain.BudgetExhausted, "budget web needs 9 healthy and has 9", false))
	}
	for i := range 3 {
		d.Pods = append(d.Pods, drain.PodStatus{Pod: pod(fmt.Sprintf("cache-%d", i)), State: drain.GoneState})
	}
	for i := range 117 {
		d.Pods = append(d.Pods, drain.PodStatus{Pod: pod(fmt.Sprintf("done-%d", i)), State: drain.Replaced})
	}
	for i := range 10 {
		d.Pods = append(d.Pods, drain.PodStatus{Pod: pod(fmt.Sprintf("daemon-%d", i)), State: drain.Staying, Note: "DaemonSet pod"})
	}
	return d
}
