package install

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Who wants no notices has a manager that does not listen for them, and may make no maintenances.
func TestNoticesOnlyWhereTheyAreWanted(t *testing.T) {
	maintained := objects(t, Options{Maintenance: true})
	if has(maintained, "clusterrole/usher-notices") || strings.Contains(yamlOf(t, maintained), "--notices-address") {
		t.Error("notices are there without being wanted")
	}
	if !has(maintained, "validatingadmissionpolicybinding/usher-notice-requesters") {
		t.Error("without notices, who makes a NodeMaintenance may have it pass the limits of others")
	}
	all := objects(t, Options{Notices: true, Namespace: "guards"})
	for _, ref := range []string{
		"clusterrolebinding/usher-maintenance", "clusterrolebinding/usher-notices", "rolebinding/usher-notices in guards", "clusterrole/usher-notices-sender",
		"service/usher-notices in guards", "validatingadmissionpolicybinding/usher-manager-notices", "validatingadmissionpolicybinding/usher-notice-requesters",
	} {
		if !has(all, ref) {
			t.Errorf("%s is missing", ref)
		}
	}
	for _, object := range all {
		if object.GetKind() != "Deployment" {
			continue
		}
		containers, _, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
		container, _ := containers[0].(map[string]any)
		args, _, _ := unstructured.NestedStringSlice(container, "args")
		ports, _, _ := unstructured.NestedSlice(container, "ports")
		last, _ := ports[len(ports)-1].(map[string]any)
		if args[len(args)-1] != "--notices-address=:9444" || last["name"] != "notices" || last["containerPort"] != int64(9444) || len(ports) != 4 {
			t.Errorf("arguments %v, ports %v", args, ports)
		}
		return
	}
	t.Error("there is no Deployment")
}

// The manager makes, changes and takes away the maintenances of notices, each of one node whose Node stays, and no others. The finalizers of all are its.
func TestTheManagerMakesMaintenancesOfNoticesOnly(t *testing.T) {
	const manager = "system:serviceaccount:usher-system:usher-manager"
	m := func(requester string, nodes ...any) tree {
		return tree{"metadata": tree{"name": "m"}, "spec": tree{"requester": requester, "nodes": tree{"names": nodes}, "whenDrained": tree{"keepCordoned": tree{}}}}
	}
	notice, person := m("ec2.notice.usher.sh/Reboot", "n1"), m("person.usher.sh/anna", "n1")
	for name, c := range map[string]struct {
		operation   string
		user        string
		old, object any
		allowed     bool
	}{
		"makes one":                        {"CREATE", manager, nil, notice, true},
		"makes a person's":                 {"CREATE", manager, nil, person, false},
		"makes one that looks like it":     {"CREATE", manager, nil, m("x/ec2.notice.usher.sh/Reboot", "n1"), false},
		"makes one of another domain":      {"CREATE", manager, nil, m("ec2.noticeXusher.sh/Reboot", "n1"), false},
		"makes one of two nodes":           {"CREATE", manager, nil, m("ec2.notice.usher.sh/Reboot", "n1", "n2"), false},
		"makes one of a selector":          {"CREATE", manager, nil, with(notice, "spec", "nodes", tree{"selector": tree{}}), false},
		"makes one that deletes the Node":  {"CREATE", manager, nil, with(notice, "spec", "whenDrained", tree{"deleteNode": tree{}}), false},
		"makes one that cordons":           {"CREATE", manager, nil, with(notice, "spec", "action", "Cordon"), true},
		"makes one with nothing after":     {"CREATE", manager, nil, with(notice, "spec", "whenDrained", nil), true},
		"tightens one":                     {"UPDATE", manager, notice, with(notice, "spec", "deadlineTime", "t"), true},
		"tightens a person's":              {"UPDATE", manager, person, with(person, "spec", "deadlineTime", "t"), false},
		"a finalizer of a person's":        {"UPDATE", manager, person, with(person, "metadata", "finalizers", []any{"usher.sh/maintenance"}), true},
		"takes one away":                   {"DELETE", manager, notice, nil, true},
		"takes a person's away":            {"DELETE", manager, person, nil, false},
		"another user takes one away":      {"DELETE", "anna", notice, nil, true},
		"another user makes its own":       {"CREATE", "anna", nil, person, true},
		"another manager makes a person's": {"CREATE", "system:serviceaccount:other:usher-manager", nil, person, true},
	} {
		got := verdict(t, "usher-manager-notices", tree{
			"request": tree{"operation": c.operation, "userInfo": tree{"username": c.user}}, "oldObject": c.old, "object": c.object, "authorizer": false,
		})
		if (got == "") != c.allowed {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A requester that passes the limits of others is for those who may patch nodes.
func TestRequestersOfNotices(t *testing.T) {
	for name, c := range map[string]struct {
		requester    string
		patchesNodes bool
		allowed      bool
	}{
		"a notice, by one who may patch nodes": {"ec2.notice.usher.sh/Reboot", true, true},
		"a notice, by one who may not":         {"ec2.notice.usher.sh/Reboot", false, false},
		"a person's, by one who may not":       {"person.usher.sh/anna", false, true},
	} {
		got := verdict(t, "usher-notice-requesters", tree{
			"request": tree{"operation": "CREATE", "userInfo": tree{"username": "anna"}}, "object": tree{"spec": tree{"requester": c.requester}}, "oldObject": nil, "authorizer": c.patchesNodes,
		})
		if (got == "") != c.allowed {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// Of the taints of a node the manager changes those alone that its record names, and none by which Kubernetes, autoscalers or Usher act.
func TestTheManagerSetsTaintsOfItsRecordOnly(t *testing.T) {
	node := func(marks string, taints ...any) tree {
		return tree{"metadata": tree{"name": "n1", "annotations": tree{"usher.sh/marks": marks}}, "spec": tree{"taints": taints}}
	}
	taint := func(key, value, effect string) tree {
		if value == "" {
			return tree{"key": key, "effect": effect}
		}
		return tree{"key": key, "value": value, "effect": effect}
	}
	bad, bare, foreign := taint("example.com/bad", "disk", "NoSchedule"), taint("bare", "", "NoExecute"), taint("a", "b", "NoSchedule")
	for name, c := range map[string]struct {
		old, object tree
		allowed     bool
	}{
		"sets one":                      {node("", foreign), node("cordon,example.com/bad=disk:NoSchedule", foreign, bad), true},
		"sets one without a value":      {node("", foreign), node("bare:NoExecute", foreign, bare), true},
		"takes one off":                 {node("example.com/bad=disk:NoSchedule", bad, foreign), node("", foreign), true},
		"sets one that is not recorded": {node(""), node("cordon", bad), false},
		"takes another's off":           {node("", foreign), node(""), false},
		"changes another's":             {node("", foreign), node("a=c:NoSchedule", taint("a", "c", "NoSchedule")), false},
		"sets one of Kubernetes":        {node(""), node("node.kubernetes.io/x:NoSchedule", taint("node.kubernetes.io/x", "", "NoSchedule")), false},
		"sets one of an autoscaler":     {node(""), node("karpenter.sh/disrupted:NoSchedule", taint("karpenter.sh/disrupted", "", "NoSchedule")), false},
		"takes one of an autoscaler":    {node("ToBeDeletedByClusterAutoscaler:NoSchedule", taint("ToBeDeletedByClusterAutoscaler", "", "NoSchedule")), node(""), false},
		"sets one of Usher":             {node(""), node("usher.sh/memory-pressure:NoSchedule", taint("usher.sh/memory-pressure", "", "NoSchedule")), false},
		"fences":                        {node(""), node("", taint("node.kubernetes.io/out-of-service", "usher", "NoExecute")), true},
		"cordons":                       {node(""), with(node("cordon"), "spec", "unschedulable", true), true},
	} {
		got := verdict(t, "usher-manager-nodes", tree{
			"request": tree{"operation": "UPDATE", "userInfo": tree{"username": "system:serviceaccount:usher-system:usher-manager"}}, "oldObject": c.old, "object": c.object,
		})
		if (got == "") != c.allowed {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// Machines are followed where that is wanted, with a role of its own, by which the manager takes its hook off and nothing else.
func TestMachinesOnlyWhereTheyAreWanted(t *testing.T) {
	if noticed := objects(t, Options{Notices: true}); has(noticed, "clusterrole/usher-machines") || strings.Contains(yamlOf(t, noticed), "--cluster-api") {
		t.Error("Machines are followed without being wanted")
	}
	if all := objects(t, Options{Notices: true, ClusterAPI: true}); !has(all, "clusterrolebinding/usher-machines") || !strings.Contains(yamlOf(t, all), "--cluster-api") {
		t.Error("Machines are not followed")
	}
	const hook = "pre-drain.delete.hook.machine.cluster.x-k8s.io/usher"
	machine := tree{"metadata": tree{"name": "m", "annotations": tree{hook: "usher", "a": "b"}, "finalizers": []any{"machine.cluster.x-k8s.io"}}, "spec": tree{"clusterName": "c"}}
	bare := with(machine, "metadata", "annotations", tree{"a": "b"})
	for name, c := range map[string]struct {
		operation   string
		old, object any
		allowed     bool
	}{
		"its hook":                 {"UPDATE", machine, bare, true},
		"its hook, set":            {"UPDATE", bare, machine, false},
		"another annotation":       {"UPDATE", machine, with(machine, "metadata", "annotations", tree{hook: "usher"}), false},
		"its hook and a finalizer": {"UPDATE", machine, with(bare, "metadata", "finalizers", nil), false},
		"its hook and the spec":    {"UPDATE", machine, with(bare, "spec", "clusterName", "d"), false},
		"its hook and a status":    {"UPDATE", machine, with(bare, "status", "phase", "Deleted"), false},
		"a deletion":               {"DELETE", machine, nil, false},
	} {
		got := verdict(t, "usher-manager-machines", tree{
			"request": tree{"operation": c.operation, "userInfo": tree{"username": "system:serviceaccount:usher-system:usher-manager"}}, "oldObject": c.old, "object": c.object,
		})
		if (got == "") != c.allowed {
			t.Errorf("%s: %q", name, got)
		}
	}
}
