package expression

import (
	"cmp"
	"maps"
	"time"

	"cel.dev/cel-go/cel"

	"usher.sh/usher/internal/snapshot"
)

// Scope is what an expression may look at. A fact that is absent is not known, and an expression that needs it fails.
type Scope struct {
	Now time.Time // `now`; zero: not known
	// Pod is `pod`; Deleted, that it was seen gone or that its node is proven off, is `pod.deleted`; where there is no pod, only that it is true
	// is known.
	Pod     *snapshot.Pod
	Deleted bool
	// Maintained is `pod.maintained`: the pod is made anew with its claims, while its zone is under maintenance.
	Maintained bool
	// Node is `node`; nil: not known.
	Node *snapshot.Node
	// Here is `here`: the policy's other members whose pods are bound to the pod's node, those that are on their way included; nil: not
	// known.
	Here []Here
	// Member and Role are `member.id` and `member.role`; Facts are what the system says of the member.
	Member string
	Role   string
	Facts  Facts
	// System is `system`.
	System Facts
	// Leaving is `leaving`: the ids of the policy's other members that are on their way, of whatever role.
	Leaving []string
	// Unready is `unready`: the ids of the policy's other members without a Ready pod that stays, those that are on their way
	// included; nil: not known.
	Unready []string
	// Preparing is `preparing`: the ids of the role's other members for which a step was begun. A step may take its member
	// away for a moment, and what the system said before does not tell.
	Preparing []string
	// Machine is what is known of the node's machine, and what was answered about it; nil: nothing.
	Machine *Machine
	// CostBudget is what evaluations are charged to; nil: each has its own limit alone.
	CostBudget *CostBudget
}

// Machine is a node's machine.
type Machine struct {
	ProviderID string            // node.providerID, "" where it has none
	Addresses  map[string]string // node.addresses, by their type
	Answer     any               // answer: JSON; nil: there is none
}

// Here is a member on a node.
type Here struct{ ID, Role string }

var stringMap = cel.MapType(cel.StringType, cel.StringType)

var stringList = cel.ListType(cel.StringType)

var podFields = map[string]*cel.Type{
	"name": cel.StringType, "namespace": cel.StringType, "uid": cel.StringType, "hostname": cel.StringType, "ip": cel.StringType,
	"labels": stringMap, "annotations": stringMap, "node": cel.StringType, "phase": cel.StringType,
	"ready": cel.BoolType, "terminating": cel.BoolType, DeletedFact: cel.BoolType, "created": cel.TimestampType,
	"ownerKind": cel.StringType, "ownerName": cel.StringType, "priority": cel.IntType,
	"emptyDirs": stringList, "claims": stringList, "maintained": cel.BoolType,
}

var nodeFields = map[string]*cel.Type{
	"present": cel.BoolType, "name": cel.StringType, "zone": cel.StringType, "labels": stringMap, "annotations": stringMap,
	"ready": cel.BoolType, "unschedulable": cel.BoolType, "taints": cel.ListType(cel.ObjectType(taintVariable)),
}

// machineFields are of a node in a schema of fences.
var machineFields = map[string]*cel.Type{"providerID": cel.StringType, "addresses": stringMap}

// Variables returns what expressions see, for many evaluations on one scope.
func (s *Scope) Variables() map[string]any {
	variables := map[string]any{
		"pod":       s.podFacts(),
		"node":      s.nodeFacts(),
		"member":    s.memberFacts(),
		"leaving":   s.Leaving,
		"preparing": s.Preparing,
	}
	if s.System != nil {
		variables["system"] = map[string]any(s.System)
	} else {
		variables["system"] = map[string]any{}
	}
	if s.Here != nil {
		variables["here"] = s.hereFacts()
	}
	if s.Unready != nil {
		variables["unready"] = s.Unready
	}
	if !s.Now.IsZero() {
		variables["now"] = s.Now
	}
	if s.Machine != nil && s.Machine.Answer != nil {
		variables[AnswerVariable] = s.Machine.Answer
	}
	return variables
}

func (s *Scope) hereFacts() []map[string]any {
	all := make([]map[string]any, len(s.Here))
	for i, m := range s.Here {
		all[i] = map[string]any{"id": m.ID, "role": m.Role}
	}
	return all
}

func (s *Scope) memberFacts() map[string]any {
	facts := make(map[string]any, len(s.Facts)+2)
	maps.Copy(facts, s.Facts)
	if s.Member != "" {
		facts["id"] = s.Member
	}
	if s.Role != "" {
		facts["role"] = s.Role
	}
	return facts
}

func (s *Scope) podFacts() map[string]any {
	pod := s.Pod
	switch {
	case pod == nil && s.Deleted:
		return map[string]any{DeletedFact: true}
	case pod == nil:
		return map[string]any{}
	}
	facts := map[string]any{
		"name": pod.Name, "namespace": pod.Namespace, "uid": string(pod.UID),
		"labels": present(pod.Labels), "annotations": present(pod.Annotations), "phase": string(pod.Phase),
		"ready": pod.Ready, "terminating": pod.Terminating(), DeletedFact: s.Deleted, "created": pod.Created,
		"ownerKind": pod.Owner.Kind, "ownerName": pod.Owner.Name, "priority": int64(pod.Priority),
		"hostname": cmp.Or(pod.Hostname, pod.Name), "emptyDirs": pod.EmptyDirs, "claims": pod.Claims, "maintained": s.Maintained,
	}
	known(facts, "ip", pod.IP)
	known(facts, "node", pod.Node)
	return facts
}

func (s *Scope) nodeFacts() map[string]any {
	node := s.Node
	if node == nil {
		return map[string]any{"present": false}
	}
	taints := make([]map[string]any, len(node.Taints))
	for i, t := range node.Taints {
		taints[i] = map[string]any{"key": t.Key, "value": t.Value, "effect": string(t.Effect)}
	}
	facts := map[string]any{
		"present": true, "name": node.Name, "taints": taints, "zone": node.Zone, "labels": present(node.Labels),
		"annotations": present(node.Annotations), "ready": node.Ready, "unschedulable": node.Unschedulable,
	}
	if s.Machine != nil {
		known(facts, "providerID", s.Machine.ProviderID)
		facts["addresses"] = present(s.Machine.Addresses)
	}
	return facts
}

// known leaves a fact out that is not there yet: a pod without a node has no node named "".
func known(facts map[string]any, name, value string) {
	if value != "" {
		facts[name] = value
	}
}

func present(set map[string]string) map[string]string {
	if set == nil {
		return map[string]string{}
	}
	return set
}
