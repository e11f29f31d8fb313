package act

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"usher.sh/usher/internal/answers"
)

// agentDomain is that of the agent's conditions and taints; the kubelet's stay the kubelet's.
const agentDomain = "usher.sh/"

// pressures are the kubelet's conditions to which the agent has one of its own.
var pressures = []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure}

var taintNames = map[corev1.NodeConditionType]string{
	corev1.NodeMemoryPressure: "memory-pressure",
	corev1.NodeDiskPressure:   "disk-pressure",
	corev1.NodePIDPressure:    "pid-pressure",
}

// AgentCondition returns the agent's own condition to one of the kubelet's: usher.sh/MemoryPressure.
func AgentCondition(kind corev1.NodeConditionType) corev1.NodeConditionType {
	return agentDomain + kind
}

// agentTaint returns the taint that stands for one of the kubelet's conditions: usher.sh/memory-pressure:NoSchedule.
func agentTaint(kind corev1.NodeConditionType) corev1.Taint {
	return corev1.Taint{Key: agentDomain + taintNames[kind], Effect: corev1.TaintEffectNoSchedule}
}

// NodeSays is what the agent's conditions of its node are to say.
type NodeSays struct {
	At time.Time
	// True are the kubelet's names of the conditions that hold; the others do not.
	True []corev1.NodeConditionType
	// Over: the agent stops, and the state is unknown from now on; nothing in True counts.
	Over bool
}

// Show makes the agent's conditions and taints of the node what they are to be. It writes only what differs.
func (p *Pressure) Show(ctx context.Context, says NodeSays) answers.Answer {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	node, err := p.Writer.Client.CoreV1().Nodes().Get(ctx, p.Node, metav1.GetOptions{})
	if err != nil {
		return answers.Of(err)
	}
	// Taints first: what the scheduler goes by counts more than what people read.
	if answer := p.taint(ctx, node, says); answer.Code != answers.Accepted {
		return answer
	}
	return p.condition(ctx, node, says)
}

func (says NodeSays) holds(kind corev1.NodeConditionType) bool {
	return !says.Over && slices.Contains(says.True, kind)
}

func (p *Pressure) taint(ctx context.Context, node *corev1.Node, says NodeSays) answers.Answer {
	wanted, differs := slices.Clone(node.Spec.Taints), false
	for _, kind := range pressures {
		taint := agentTaint(kind)
		mine := func(t corev1.Taint) bool { return t.Key == taint.Key && t.Effect == taint.Effect }
		switch there := slices.ContainsFunc(wanted, mine); {
		case there && !says.holds(kind):
			wanted, differs = slices.DeleteFunc(wanted, mine), true
		case !there && says.holds(kind):
			wanted, differs = append(wanted, taint), true
		}
	}
	if !differs {
		return answers.Answer{Code: answers.Accepted}
	}
	// Taints are one list: without the version, another client's taint could be lost.
	return p.patchNode(ctx, nodePatch{
		Metadata: patchMeta{UID: node.UID, ResourceVersion: node.ResourceVersion},
		Spec:     &taintSpec{Taints: wanted},
	}, types.MergePatchType)
}

type nodePatch struct {
	Metadata patchMeta   `json:"metadata"`
	Spec     *taintSpec  `json:"spec,omitempty"`
	Status   *nodeStatus `json:"status,omitempty"`
}

type taintSpec struct {
	Taints []corev1.Taint `json:"taints"`
}

type nodeStatus struct {
	Conditions []corev1.NodeCondition `json:"conditions"`
}

func (p *Pressure) condition(ctx context.Context, node *corev1.Node, says NodeSays) answers.Answer {
	var wanted []corev1.NodeCondition
	for _, kind := range pressures {
		if c := says.condition(kind); !saysAlready(node, c) {
			wanted = append(wanted, c)
		}
	}
	if len(wanted) == 0 {
		return answers.Answer{Code: answers.Accepted}
	}
	// The server merges conditions by type; those of others are left alone.
	return p.patchNode(ctx, nodePatch{
		Metadata: patchMeta{UID: node.UID},
		Status:   &nodeStatus{Conditions: wanted},
	}, types.StrategicMergePatchType, "status")
}

func (says NodeSays) condition(kind corev1.NodeConditionType) corev1.NodeCondition {
	c := corev1.NodeCondition{
		Type: AgentCondition(kind), Status: corev1.ConditionFalse,
		Reason:             "No" + string(kind),
		Message:            "above the agent's thresholds",
		LastHeartbeatTime:  metav1.NewTime(says.At),
		LastTransitionTime: metav1.NewTime(says.At),
	}
	switch {
	case says.Over:
		c.Status, c.Reason, c.Message = corev1.ConditionUnknown, "AgentStopped", "usher agent was stopped; nothing observes the node"
	case says.holds(kind):
		resource := strings.TrimSuffix(string(kind), "Pressure")
		c.Status, c.Reason, c.Message = corev1.ConditionTrue, string(kind), resource+" is, or was lately, below a threshold of usher agent"
	}
	return c
}

func saysAlready(node *corev1.Node, c corev1.NodeCondition) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(there corev1.NodeCondition) bool {
		return there.Type == c.Type && there.Status == c.Status && there.Reason == c.Reason
	})
}

func (p *Pressure) patchNode(ctx context.Context, what nodePatch, kind types.PatchType, subresource ...string) answers.Answer {
	body, err := json.Marshal(what)
	if err != nil {
		return unsent(fmt.Errorf("writing a patch of the node: %w", err))
	}
	return answers.Of(once(ctx, p.Writer.Client.CoreV1().RESTClient().Patch(kind).
		Resource("nodes").Name(p.Node).SubResource(subresource...).
		VersionedParams(&metav1.PatchOptions{FieldManager: fieldManager}, scheme.ParameterCodec).Body(body)))
}
