package install

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// What agents make of notices is limited to their node, to notices, and to what empties the node.
func TestAgentsMaintenancesAreLimited(t *testing.T) {
	user := func(name, node string) tree {
		info := tree{"username": name}
		if node != "" {
			info["extra"] = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
		}
		return info
	}
	agent := user("system:serviceaccount:usher-system-agent:usher-agent", "n1")
	m := tree{
		"metadata": tree{
			"name": "notice-n1-1", "annotations": tree{"notice.usher.sh/event": "interruption"},
			"ownerReferences": []any{tree{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u"}},
		},
		"spec": tree{
			"nodes": tree{"names": []any{"n1"}}, "requester": "ec2.notice.usher.sh/SpotInterruption", "deadlineTime": "2026-09-18T08:02:00Z",
			"drain": tree{"surge": "Auto"}, "whenDrained": tree{"keepCordoned": tree{}}, "atDeadline": "Stop",
		},
	}
	of := func(requester string) tree { return with(m, "spec", "requester", requester) }
	then := func(field string) tree {
		return with(m, "spec", "whenDrained", tree{"keepCordoned": tree{}, field: tree{}})
	}
	for name, c := range map[string]struct {
		operation   string
		user        tree
		old, object tree
		allowed     bool
	}{
		"its own":                       {"CREATE", agent, nil, m, true},
		"one of logind":                 {"CREATE", agent, nil, of("logind.notice.usher.sh/Shutdown"), true},
		"one without an owner":          {"CREATE", agent, nil, with(m, "metadata", "ownerReferences", nil), true},
		"elsewhere":                     {"CREATE", user(agent["username"].(string), "n2"), nil, m, false},
		"of a token of no node":         {"CREATE", user(agent["username"].(string), ""), nil, m, false},
		"of two nodes":                  {"CREATE", agent, nil, with(m, "spec", "nodes", tree{"names": []any{"n1", "n2"}}), false},
		"of two, one of them twice":     {"CREATE", agent, nil, with(m, "spec", "nodes", tree{"names": []any{"n1", "n1"}}), false},
		"of a selector":                 {"CREATE", agent, nil, with(m, "spec", "nodes", tree{"selector": tree{}}), false},
		"a person's":                    {"CREATE", agent, nil, of("person.usher.sh/anna"), false},
		"one of an alert":               {"CREATE", agent, nil, of("alertmanager.notice.usher.sh/Problem"), false},
		"one of a domain that is alike": {"CREATE", agent, nil, of("ec2.notice.usher.sh.example.com/SpotInterruption"), false},
		"of another name":               {"CREATE", agent, nil, with(m, "metadata", "name", "upgrade"), false},
		"with a hook":                   {"CREATE", agent, nil, then("hook"), false},
		"with a wait":                   {"CREATE", agent, nil, then("wait"), false},
		"which deletes the node":        {"CREATE", agent, nil, with(m, "spec", "whenDrained", tree{"deleteNode": tree{}}), false},
		"which gives the node back":     {"CREATE", agent, nil, with(m, "spec", "whenDrained", tree{}), false},
		"which cordons it":              {"CREATE", agent, nil, with(m, "spec", "action", "Cordon"), true},
		"which taints it":               {"CREATE", agent, nil, with(m, "spec", "action", "Taint"), false},
		"with a label":                  {"CREATE", agent, nil, with(m, "metadata", "labels", tree{"a": "b"}), false},
		"with a finalizer":              {"CREATE", agent, nil, with(m, "metadata", "finalizers", []any{"a.example/b"}), false},
		"owned by another":              {"CREATE", agent, nil, with(m, "metadata", "ownerReferences", []any{tree{"apiVersion": "v1", "kind": "Node", "name": "n2"}}), false},
		"a deadline":                    {"UPDATE", agent, m, with(m, "spec", "deadlineTime", "2026-09-18T08:01:00Z"), true},
		"force":                         {"UPDATE", agent, m, with(m, "spec", "atDeadline", "DeletePods"), true},
		"a suspension":                  {"UPDATE", agent, m, with(m, "spec", "suspend", true), true},
		"what is known of it":           {"UPDATE", agent, m, with(m, "metadata", "annotations", tree{"notice.usher.sh/event": "interruption", "notice.usher.sh/end-time": "x"}), true},
		"another annotation":            {"UPDATE", agent, m, with(m, "metadata", "annotations", tree{"notice.usher.sh/event": "interruption", "a": "b"}), false},
		"more than it evicts":           {"UPDATE", agent, m, with(m, "spec", "drain", tree{"surge": "Never"}), false},
		"what follows":                  {"UPDATE", agent, m, with(m, "spec", "whenDrained", tree{"deleteNode": tree{}}), false},
		"the manager's finalizer":       {"UPDATE", agent, with(m, "metadata", "finalizers", []any{"usher.sh/undo"}), m, false},
		"its status":                    {"UPDATE", agent, m, with(m, "status", "counts", tree{}), false},
		"a person's deadline":           {"UPDATE", agent, of("person.usher.sh/anna"), with(of("person.usher.sh/anna"), "spec", "deadlineTime", "2026-09-18T08:01:00Z"), false},
		"its end":                       {"DELETE", agent, m, nil, true},
		"a person's end":                {"DELETE", agent, of("person.usher.sh/anna"), nil, false},
		"the end of one elsewhere":      {"DELETE", user(agent["username"].(string), "n2"), m, nil, false},
		"a person is not limited":       {"CREATE", user("anna", ""), nil, of("person.usher.sh/anna"), true},
	} {
		variables := tree{"request": tree{"operation": c.operation, "userInfo": c.user}, "object": c.object, "oldObject": c.old}
		if refused := verdict(t, "usher-agent-maintenances", variables); (refused == "") != c.allowed {
			t.Errorf("%s: refused: %q", name, refused)
		}
	}
}

func TestObjectsWithNodeNotices(t *testing.T) {
	all := objects(t, Options{NodeNotices: []string{"ec2", "logind"}, Namespace: "guards"})
	for _, there := range []string{"clusterrole/usher-agent-notices", "clusterrole/usher-maintenance", "role/usher-agent-notices in guards", "validatingadmissionpolicy/usher-agent-maintenances"} {
		if !has(all, there) {
			t.Errorf("there is no %s", there)
		}
	}
	for _, object := range all {
		if object.GetKind() != "DaemonSet" {
			continue
		}
		var agents appsv1.DaemonSet
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &agents); err != nil {
			t.Fatal(err)
		}
		pod := agents.Spec.Template.Spec
		want := []string{"agent", "--state-dir=/state", "--notices=ec2,logind", "--namespace=guards"}
		if !slices.Equal(pod.Containers[0].Args, want) || !pod.HostNetwork || pod.DNSPolicy != corev1.DNSClusterFirstWithHostNet {
			t.Errorf("%q, %v, %s", pod.Containers[0].Args, pod.HostNetwork, pod.DNSPolicy)
		}
		return
	}
	t.Error("no agents are installed")
}
