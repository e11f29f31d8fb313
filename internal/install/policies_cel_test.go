package install

import (
	"maps"
	"testing"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/ext"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// verdict evaluates an admission policy as the apiserver does: "" if it lets a request through, or else the expression that
// refuses it. A policy whose conditions do not match lets through.
func verdict(t *testing.T, name string, variables map[string]any) string {
	t.Helper()
	policy := admissionPolicy(t, name)
	env, err := cel.NewEnv(
		cel.OptionalTypes(), ext.Strings(),
		cel.Variable("request", cel.DynType), cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType), cel.Variable("variables", cel.DynType),
		cel.Variable("authorizer", cel.DynType), authorizes("group"), authorizes("resource"), authorizes("check"),
		cel.Function("allowed", cel.MemberOverload("allowed", []*cel.Type{cel.DynType}, cel.BoolType, cel.UnaryBinding(func(may ref.Val) ref.Val { return may }))),
	)
	if err != nil {
		t.Fatal(err)
	}
	eval := func(expression string) any {
		ast, issues := env.Compile(expression)
		if issues.Err() != nil {
			t.Fatalf("%s: %v", expression, issues.Err())
		}
		program, err := env.Program(ast)
		if err != nil {
			t.Fatal(err)
		}
		value, _, err := program.Eval(variables)
		if err != nil {
			return err
		}
		return value.Value()
	}
	for _, condition := range policy.Spec.MatchConditions {
		if eval(condition.Expression) != true {
			return ""
		}
	}
	known := map[string]any{}
	variables["variables"] = known
	for _, variable := range policy.Spec.Variables {
		known[variable.Name] = eval(variable.Expression)
	}
	for _, validation := range policy.Spec.Validations {
		if eval(validation.Expression) == true {
			continue
		}
		if validation.MessageExpression == "" {
			return validation.Message
		}
		message, ok := eval(validation.MessageExpression).(string)
		if !ok {
			t.Errorf("%s gives no message", validation.MessageExpression)
		}
		return message
	}
	return ""
}

// authorizes declares a step of what an expression asks the apiserver's authorizer. The variable authorizer is its answer.
func authorizes(step string) cel.EnvOption {
	return cel.Function(step, cel.MemberOverload(step, []*cel.Type{cel.DynType, cel.StringType}, cel.DynType, cel.BinaryBinding(func(may, _ ref.Val) ref.Val { return may })))
}

func admissionPolicy(t *testing.T, name string) *admissionv1.ValidatingAdmissionPolicy {
	t.Helper()
	for _, object := range objects(t, Options{Agent: true, NodeNotices: []string{"ec2"}, Workloads: true, Notices: true, ClusterAPI: true, MemberSets: true}) {
		if object.GetKind() == "ValidatingAdmissionPolicy" && object.GetName() == name {
			policy := &admissionv1.ValidatingAdmissionPolicy{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, policy); err != nil {
				t.Fatal(err)
			}
			return policy
		}
	}
	t.Fatalf("there is no admission policy %s", name)
	return nil
}

type tree = map[string]any

// with returns a tree with one field of one of its parts set; nil removes it.
func with(object tree, part, field string, value any) tree {
	changed := maps.Clone(object)
	inner, _ := changed[part].(tree)
	inner = maps.Clone(inner)
	if inner == nil {
		inner = tree{}
	}
	inner[field] = value
	if value == nil {
		delete(inner, field)
	}
	changed[part] = inner
	return changed
}

func TestAdmissionPoliciesLimitAccounts(t *testing.T) {
	const agent, manager = "system:serviceaccount:usher-system-agent:usher-agent", "system:serviceaccount:usher-system:usher-manager"
	user := func(name, node string) tree {
		info := tree{"username": name}
		if node != "" {
			info["extra"] = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
		}
		return info
	}
	pod := tree{
		"metadata": tree{"name": "web", "labels": tree{"app": "web"}, "annotations": tree{"a": "b"}},
		"spec":     tree{"nodeName": "n1", "containers": []any{tree{"name": "main", "image": "web:1"}}},
		"status":   tree{"phase": "Running"},
	}
	owned := func(by tree) tree {
		return with(pod, "metadata", "ownerReferences", []any{by})
	}
	member := owned(tree{"kind": "MemberSet", "apiVersion": "usher.sh/v1alpha1", "controller": true})
	replica := owned(tree{"kind": "MemberSet", "apiVersion": "example.com/v1", "controller": true})
	bare := tree{"metadata": tree{"name": "web"}, "spec": tree{"nodeName": "n1"}}
	tolerant := func(seconds int) tree {
		return with(pod, "spec", "tolerations", []any{tree{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "tolerationSeconds": seconds}})
	}
	node := tree{
		"metadata": tree{"name": "n1", "labels": tree{"zone": "a"}}, "spec": tree{"taints": []any{tree{"key": "a", "effect": "NoSchedule"}}},
		"status": tree{"conditions": []any{tree{"type": "Ready", "status": "True"}}, "capacity": tree{"cpu": "2"}},
	}
	namespace := tree{"metadata": tree{"name": "shop"}, "spec": tree{"finalizers": []any{"kubernetes"}}}
	hook := func(field string, value any) tree {
		config := tree{"service": tree{"name": "usher-webhook"}, "caBundle": "old"}
		webhook := tree{"name": "evict.usher.sh", "clientConfig": config, "failurePolicy": "Fail", "rules": []any{tree{"resources": []any{"pods/eviction"}}}}
		if field != "" {
			webhook = with(webhook, "clientConfig", "caBundle", "new")
			webhook[field] = value
		}
		return tree{"metadata": tree{"name": "usher"}, "webhooks": []any{webhook}}
	}
	request := func(requester string) tree { return tree{"spec": tree{"requester": requester}} }
	glass := tree{"a": "b", "usher.sh/break-glass": "fire"}
	image := []any{tree{"name": "main", "image": "evil"}}
	taints := []any{tree{"key": "a", "effect": "NoSchedule"}, tree{"key": "usher.sh/memory-pressure", "effect": "NoSchedule"}}
	conditions := []any{tree{"type": "Ready", "status": "True"}, tree{"type": "usher.sh/MemoryPressure", "status": "True"}}
	web := tree{
		"metadata": tree{"name": "web", "labels": tree{"app": "web"}, "annotations": tree{"a": "b"}},
		"spec":     tree{"replicas": 1, "template": tree{"spec": tree{"containers": image}}},
	}
	scaler := tree{"metadata": tree{"name": "web"}, "spec": tree{"minReplicas": 1, "maxReplicas": 3, "scaleTargetRef": tree{"name": "web"}}}
	record := tree{"a": "b", "usher.sh/surge": "{}"}
	for name, c := range map[string]struct {
		policy, operation string
		user              tree
		old, object       tree
		allowed           bool
	}{
		"an agent, its annotation":            {"usher-agent-pods", "UPDATE", user(agent, "n1"), pod, with(pod, "metadata", "annotations", glass), true},
		"the same, taken back":                {"usher-agent-pods", "UPDATE", user(agent, "n1"), with(pod, "metadata", "annotations", glass), pod, true},
		"the same, of a pod with none":        {"usher-agent-pods", "UPDATE", user(agent, "n1"), bare, with(bare, "metadata", "annotations", tree{"usher.sh/break-glass": "fire"}), true},
		"the same, elsewhere":                 {"usher-agent-pods", "UPDATE", user(agent, "n2"), pod, with(pod, "metadata", "annotations", glass), false},
		"the same, of a token of no node":     {"usher-agent-pods", "UPDATE", user(agent, ""), pod, with(pod, "metadata", "annotations", glass), false},
		"a token of no node, a pod on none":   {"usher-agent-pods", "DELETE", user(agent, ""), with(pod, "spec", "nodeName", nil), nil, false},
		"an agent, another annotation":        {"usher-agent-pods", "UPDATE", user(agent, "n1"), pod, with(pod, "metadata", "annotations", tree{"a": "c"}), false},
		"an agent, one less":                  {"usher-agent-pods", "UPDATE", user(agent, "n1"), pod, with(pod, "metadata", "annotations", nil), false},
		"an agent, a label":                   {"usher-agent-pods", "UPDATE", user(agent, "n1"), pod, with(pod, "metadata", "labels", tree{"app": "db"}), false},
		"an agent, a finalizer":               {"usher-agent-pods", "UPDATE", user(agent, "n1"), pod, with(pod, "metadata", "finalizers", []any{"x"}), false},
		"an agent, an image":                  {"usher-agent-pods", "UPDATE", user(agent, "n1"), pod, with(pod, "spec", "containers", image), false},
		"an agent, a condition":               {"usher-agent-pods", "UPDATE", user(agent, "n1"), pod, with(pod, "status", "conditions", []any{}), true},
		"an agent, a DELETE":                  {"usher-agent-pods", "DELETE", user(agent, "n1"), pod, nil, true},
		"an agent, a DELETE elsewhere":        {"usher-agent-pods", "DELETE", user(agent, "n2"), pod, nil, false},
		"another user":                        {"usher-agent-pods", "UPDATE", user("jane", ""), pod, with(pod, "spec", "containers", image), true},
		"an agent, its taint":                 {"usher-agent-nodes", "UPDATE", user(agent, "n1"), node, with(node, "spec", "taints", taints), true},
		"an agent, its condition":             {"usher-agent-nodes", "UPDATE", user(agent, "n1"), node, with(node, "status", "conditions", conditions), true},
		"an agent, a taint elsewhere":         {"usher-agent-nodes", "UPDATE", user(agent, "n2"), node, with(node, "spec", "taints", taints), false},
		"an agent, another's taint":           {"usher-agent-nodes", "UPDATE", user(agent, "n1"), node, with(node, "spec", "taints", nil), false},
		"an agent, a cordon":                  {"usher-agent-nodes", "UPDATE", user(agent, "n1"), node, with(node, "spec", "unschedulable", true), false},
		"an agent, a node's label":            {"usher-agent-nodes", "UPDATE", user(agent, "n1"), node, with(node, "metadata", "labels", nil), false},
		"an agent, a kubelet's condition":     {"usher-agent-nodes", "UPDATE", user(agent, "n1"), node, with(node, "status", "conditions", nil), false},
		"an agent, a node's capacity":         {"usher-agent-nodes", "UPDATE", user(agent, "n1"), node, with(node, "status", "capacity", tree{"cpu": "9"}), false},
		"an agent, its request":               {"usher-agent-requests", "CREATE", user(agent, "n1"), nil, request("pressure.usher.sh/agent"), true},
		"an agent, the end of its request":    {"usher-agent-requests", "DELETE", user(agent, "n1"), request("pressure.usher.sh/agent"), nil, true},
		"an agent, another's request":         {"usher-agent-requests", "UPDATE", user(agent, "n1"), request("jane.example/x"), request("jane.example/x"), false},
		"the manager, its label":              {"usher-manager-pods", "UPDATE", user(manager, ""), pod, with(pod, "metadata", "labels", tree{"app": "web", "usher.sh/policy": "db"}), true},
		"the manager, its first label":        {"usher-manager-pods", "UPDATE", user(manager, ""), bare, with(bare, "metadata", "labels", tree{"usher.sh/policy": "db"}), true},
		"the manager, the label of Audit":     {"usher-manager-pods", "UPDATE", user(manager, ""), pod, with(pod, "metadata", "labels", tree{"app": "web", "usher.sh/audit": "db"}), true},
		"the manager, its label of Audit off": {"usher-manager-pods", "UPDATE", user(manager, ""), with(pod, "metadata", "labels", tree{"app": "web", "usher.sh/audit": "db"}), pod, true},
		"the manager, an audited namespace":   {"usher-manager-namespaces", "UPDATE", user(manager, ""), namespace, with(namespace, "metadata", "labels", tree{"usher.sh/audited": "true"}), true},
		"the manager, a label of a pod":       {"usher-manager-namespaces", "UPDATE", user(manager, ""), namespace, with(namespace, "metadata", "labels", tree{"usher.sh/audit": "db"}), false},
		"the manager, another label":          {"usher-manager-pods", "UPDATE", user(manager, ""), pod, with(pod, "metadata", "labels", tree{"app": "db"}), false},
		"the manager, an annotation":          {"usher-manager-pods", "UPDATE", user(manager, ""), pod, with(pod, "metadata", "annotations", glass), false},
		"the manager, a member's label":       {"usher-manager-pods", "UPDATE", user(manager, ""), member, with(member, "metadata", "labels", tree{"app": "db"}), true},
		"the manager, a member's annotation":  {"usher-manager-pods", "UPDATE", user(manager, ""), member, with(member, "metadata", "annotations", tree{"a": "b", "usher.sh/on-eviction": "Replace"}), true},
		"the manager, a member's glass":       {"usher-manager-pods", "UPDATE", user(manager, ""), member, with(member, "metadata", "annotations", tree{"a": "b", "usher.sh/break-glass": "x"}), false},
		"the manager, a member's image":       {"usher-manager-pods", "UPDATE", user(manager, ""), member, with(member, "spec", "containers", image), false},
		"the manager, another kind's member":  {"usher-manager-pods", "UPDATE", user(manager, ""), replica, with(replica, "metadata", "labels", tree{"app": "db"}), false},
		"the manager, an image":               {"usher-manager-pods", "UPDATE", user(manager, ""), pod, with(pod, "spec", "containers", image), false},
		"the manager, tolerations":            {"usher-manager-pods", "UPDATE", user(manager, ""), tolerant(60), with(tolerant(15), "metadata", "annotations", tree{"a": "b", "usher.sh/tolerations": "{}"}), true},
		"the manager, first tolerations":      {"usher-manager-pods", "UPDATE", user(manager, ""), pod, with(tolerant(15), "metadata", "annotations", tree{"a": "b", "usher.sh/tolerations": "{}"}), true},
		"the manager, other tolerations":      {"usher-manager-pods", "UPDATE", user(manager, ""), pod, with(pod, "spec", "tolerations", []any{tree{"operator": "Exists", "effect": "NoExecute"}}), false},
		"the manager, tolerating a cordon":    {"usher-manager-pods", "UPDATE", user(manager, ""), pod, with(pod, "spec", "tolerations", []any{tree{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}}), false},
		"the manager, a node":                 {"usher-manager-pods", "UPDATE", user(manager, ""), pod, with(pod, "spec", "nodeName", "n2"), false},
		"the manager, no node":                {"usher-manager-pods", "UPDATE", user(manager, ""), pod, with(pod, "spec", "nodeName", nil), false},
		"the manager, a deadline":             {"usher-manager-pods", "UPDATE", user(manager, ""), pod, with(pod, "spec", "activeDeadlineSeconds", 1), false},
		"the manager, a namespace":            {"usher-manager-namespaces", "UPDATE", user(manager, ""), namespace, with(namespace, "metadata", "labels", tree{"usher.sh/governed": "true"}), true},
		"the manager, a namespace's label":    {"usher-manager-namespaces", "UPDATE", user(manager, ""), namespace, with(namespace, "metadata", "labels", tree{"pod-security.kubernetes.io/enforce": "privileged"}), false},
		"the manager, a namespace's end":      {"usher-manager-namespaces", "UPDATE", user(manager, ""), namespace, with(namespace, "spec", "finalizers", nil), false},
		"the manager, authorities":            {"usher-manager-webhooks", "UPDATE", user(manager, ""), hook("", nil), hook("name", "evict.usher.sh"), true},
		"the manager, where to":               {"usher-manager-webhooks", "UPDATE", user(manager, ""), hook("", nil), hook("clientConfig", tree{"url": "https://evil"}), false},
		"the manager, what is asked":          {"usher-manager-webhooks", "UPDATE", user(manager, ""), hook("", nil), hook("rules", []any{tree{"resources": []any{"*"}}}), false},
		"the manager, when it fails":          {"usher-manager-webhooks", "UPDATE", user(manager, ""), hook("", nil), hook("failurePolicy", "Ignore"), false},
		"the manager, a condition":            {"usher-manager-webhooks", "UPDATE", user(manager, ""), hook("", nil), hook("matchConditions", []any{tree{"name": "a", "expression": "false"}}), false},
		"the manager, another's name":         {"usher-manager-webhooks", "UPDATE", user(manager, ""), hook("", nil), hook("name", "evil"), false},
		"the manager, no webhooks":            {"usher-manager-webhooks", "UPDATE", user(manager, ""), hook("", nil), tree{"metadata": tree{"name": "usher"}}, false},
		"the manager, a label":                {"usher-manager-webhooks", "UPDATE", user(manager, ""), hook("", nil), with(hook("", nil), "metadata", "labels", tree{"a": "b"}), false},
		"the manager, its record":             {"usher-manager-workloads", "UPDATE", user(manager, ""), web, with(web, "metadata", "annotations", record), true},
		"the same, taken off":                 {"usher-manager-workloads", "UPDATE", user(manager, ""), with(web, "metadata", "annotations", record), web, true},
		"the manager, its record's label":     {"usher-manager-workloads", "UPDATE", user(manager, ""), web, with(web, "metadata", "labels", tree{"app": "web", "usher.sh/surge": "manager"}), true},
		"the manager, a workload's template":  {"usher-manager-workloads", "UPDATE", user(manager, ""), web, with(web, "spec", "template", tree{}), false},
		"the manager, a workload's label":     {"usher-manager-workloads", "UPDATE", user(manager, ""), web, with(web, "metadata", "labels", tree{"app": "db"}), false},
		"the manager, one annotation less":    {"usher-manager-workloads", "UPDATE", user(manager, ""), web, with(web, "metadata", "annotations", nil), false},
		"the manager, a minimum":              {"usher-manager-autoscalers", "UPDATE", user(manager, ""), scaler, with(scaler, "spec", "minReplicas", 2), true},
		"the manager, a maximum":              {"usher-manager-autoscalers", "UPDATE", user(manager, ""), scaler, with(scaler, "spec", "maxReplicas", 9), false},
		"the manager, what is scaled":         {"usher-manager-autoscalers", "UPDATE", user(manager, ""), scaler, with(scaler, "spec", "scaleTargetRef", tree{"name": "db"}), false},
		"jane, a workload's template":         {"usher-manager-workloads", "UPDATE", user("jane", ""), web, with(web, "spec", "template", tree{}), true},
		"an admin's namespace's label":        {"usher-manager-namespaces", "UPDATE", user("jane", ""), namespace, with(namespace, "metadata", "labels", tree{"a": "b"}), true},
		"an agent, its request turned other":  {"usher-agent-requests", "UPDATE", user(agent, "n1"), request("pressure.usher.sh/agent"), request("jane.example/x"), false},
	} {
		variables := tree{"request": tree{"operation": c.operation, "userInfo": c.user, "resource": tree{"resource": "deployments"}}, "object": nil, "oldObject": nil}
		if c.object != nil {
			variables["object"] = c.object
		}
		if c.old != nil {
			variables["oldObject"] = c.old
		}
		if got := verdict(t, c.policy, variables); (got == "") != c.allowed {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// Where both are installed, what limits the manager to scaling plain workloads lets the surges of maintenances through, and the other way
// round: they are writes of one account.
func TestSurgesOfMaintenancesAndOfPolicies(t *testing.T) {
	user := tree{"username": "system:serviceaccount:usher-system:usher-manager"}
	web := tree{
		"metadata": tree{"name": "web", "labels": tree{"app": "web"}},
		"spec":     tree{"replicas": 1, "paused": false, "template": tree{"spec": tree{"nodeName": "n1"}}},
	}
	recorded := with(with(web, "metadata", "annotations", tree{"usher.sh/surge": "{}"}), "metadata", "labels", tree{"app": "web", "usher.sh/surge": "me"})
	surged := with(recorded, "spec", "replicas", 2)
	for name, c := range map[string]struct {
		resource    string
		old, object tree
		allowed     bool
	}{
		"a surge":                             {"deployments", web, surged, true},
		"its end":                             {"deployments", surged, web, true},
		"a record alone":                      {"deployments", web, recorded, true},
		"a surge with another template":       {"deployments", web, with(surged, "spec", "template", tree{}), false},
		"a surge that pauses rollouts":        {"deployments", web, with(surged, "spec", "paused", true), false},
		"a surge that has it owned":           {"deployments", web, with(surged, "metadata", "ownerReferences", []any{tree{"name": "x"}}), false},
		"replicas of a StatefulSet":           {"statefulsets", web, surged, false},
		"the record of a StatefulSet's surge": {"statefulsets", web, recorded, true},
	} {
		policies := []string{"usher-manager-workloads"}
		if c.resource == "deployments" {
			policies = append(policies, "usher-manager-scaled")
		}
		for _, policy := range policies {
			request := tree{"operation": "UPDATE", "userInfo": user, "resource": tree{"resource": c.resource}}
			if got := verdict(t, policy, tree{"request": request, "object": c.object, "oldObject": c.old}); (got == "") != c.allowed {
				t.Errorf("%s, by %s: %q", name, policy, got)
			}
		}
	}
}

// A tenant who may edit EvictionRequests makes and ends none of a maintenance: by them the time is counted for which its pods may hold the node.
func TestRequestsOfMaintenancesAreKept(t *testing.T) {
	const ours = "drain.usher.sh/maintenance-ABC"
	for name, c := range map[string]struct {
		user, requester string
		patchesNodes    bool
		allowed         bool
	}{
		"a tenant":                          {"jane", ours, false, false},
		"a tenant, another's":               {"jane", "drain.usher.sh/ABC", false, true},
		"a tenant, of no drain":             {"jane", "jane.example/x", false, true},
		"an administrator":                  {"root", ours, true, true},
		"the manager":                       {"system:serviceaccount:usher-system:usher-manager", ours, true, true},
		"the garbage collector":             {"system:serviceaccount:kube-system:generic-garbage-collector", ours, false, true},
		"controllers without their own":     {"system:kube-controller-manager", ours, false, true},
		"an account of a tenant's that way": {"system:serviceaccount:shop:generic-garbage-collector", ours, false, false},
	} {
		old := tree{"spec": tree{"requester": c.requester}}
		for operation, objects := range map[string]tree{
			"CREATE": {"object": old}, "UPDATE": {"object": with(old, "spec", "intent", "Withdrawn"), "oldObject": old}, "DELETE": {"oldObject": old},
		} {
			variables := tree{"request": tree{"operation": operation, "userInfo": tree{"username": c.user}}, "authorizer": c.patchesNodes, "object": nil, "oldObject": nil}
			maps.Copy(variables, objects)
			if got := verdict(t, "usher-maintenance-requests", variables); (got == "") != c.allowed {
				t.Errorf("%s, %s: %q", name, operation, got)
			}
		}
	}
}

// Of a volume the manager may change that it stays, and nothing else.
func TestVolumesAreRetainedOnly(t *testing.T) {
	volume := tree{
		"metadata": tree{"name": "v", "labels": tree{"a": "b"}},
		"spec":     tree{"persistentVolumeReclaimPolicy": "Delete", "claimRef": tree{"uid": "1"}, "storageClassName": "local"},
	}
	retained := with(volume, "spec", "persistentVolumeReclaimPolicy", "Retain")
	for name, c := range map[string]struct {
		old, object tree
		allowed     bool
	}{
		"it stays":                          {volume, retained, true},
		"nothing is changed":                {volume, volume, true},
		"it is deleted":                     {retained, volume, false},
		"it is recycled":                    {volume, with(volume, "spec", "persistentVolumeReclaimPolicy", "Recycle"), false},
		"it stays, with another claim":      {volume, with(retained, "spec", "claimRef", tree{"uid": "2"}), false},
		"it stays, in another class":        {volume, with(retained, "spec", "storageClassName", "other"), false},
		"it stays, and others delete it":    {volume, with(retained, "metadata", "finalizers", []any{"x"}), false},
		"it stays, and has another label":   {volume, with(retained, "metadata", "labels", tree{"a": "c"}), false},
		"it stays, bound to another's node": {volume, with(retained, "spec", "nodeAffinity", tree{"required": tree{}}), false},
	} {
		request := tree{"operation": "UPDATE", "userInfo": tree{"username": "system:serviceaccount:usher-system:usher-manager"}}
		if got := verdict(t, "usher-manager-volumes", tree{"request": request, "object": c.object, "oldObject": c.old}); (got == "") != c.allowed {
			t.Errorf("%s: %q", name, got)
		}
	}
}
