package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// agentSuffix makes the agents' namespace of the manager's.
const agentSuffix = "-agent"

// What agents write on nodes are conditions of their domain, and taints of it with this end.
const (
	agentDomain = "usher.sh/"
	agentTaints = "-pressure"
)

// agents removes the agents, and what they have said of nodes.
func (r remover) agents(ctx context.Context, objects []*unstructured.Unstructured) error {
	if err := r.stop(ctx, pick(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "DaemonSet" })); err != nil {
		return err
	}
	nodes, err := r.list(ctx, schema.GroupVersionKind{Version: "v1", Kind: "Node"})
	if err != nil {
		return err
	}
	for _, node := range nodes {
		if err := errors.Join(r.untaint(ctx, node), r.silence(ctx, node)); err != nil {
			return err
		}
	}
	return nil
}

// untaint takes off the taints of agents that could not do that themselves any more.
func (r remover) untaint(ctx context.Context, node *unstructured.Unstructured) error {
	taints, _, _ := unstructured.NestedSlice(node.Object, "spec", "taints")
	kept := slices.DeleteFunc(slices.Clone(taints), func(each any) bool {
		fields, _ := each.(map[string]any)
		key, _ := fields["key"].(string)
		return strings.HasPrefix(key, agentDomain) && strings.HasSuffix(key, agentTaints)
	})
	if len(kept) == len(taints) {
		return nil
	}
	change := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"taints": kept}}}
	change.SetResourceVersion(node.GetResourceVersion())
	patch, err := json.Marshal(change.Object)
	if err != nil {
		return fmt.Errorf("writing a patch of %s: %w", Ref(node), err)
	}
	var options []client.PatchOption
	if r.dryRun {
		options = append(options, client.DryRunAll)
	}
	err = r.Client.Patch(ctx, node.DeepCopy(), client.RawPatch(types.MergePatchType, patch), options...)
	if apierrors.IsConflict(err) { // the node was changed meanwhile
		if err = r.Client.Get(ctx, client.ObjectKeyFromObject(node), node); err == nil {
			return r.untaint(ctx, node)
		}
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing the agent's taints of %s: %w", Ref(node), err)
	}
	r.say("the agent's taints of " + Ref(node))
	return nil
}

// silence takes the agent's conditions off a node.
func (r remover) silence(ctx context.Context, node *unstructured.Unstructured) error {
	conditions, _, _ := unstructured.NestedSlice(node.Object, "status", "conditions")
	type removal struct {
		Patch string `json:"$patch"`
		Type  string `json:"type"`
	}
	var gone []removal
	for _, each := range conditions {
		fields, _ := each.(map[string]any)
		if kind, _ := fields["type"].(string); strings.HasPrefix(kind, agentDomain) {
			gone = append(gone, removal{"delete", kind})
		}
	}
	if len(gone) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]map[string][]removal{"status": {"conditions": gone}})
	if err != nil {
		return fmt.Errorf("writing a patch of %s: %w", Ref(node), err)
	}
	var options []client.SubResourcePatchOption
	if r.dryRun {
		options = append(options, client.DryRunAll)
	}
	object := &corev1.Node{}
	object.Name = node.GetName()
	err = r.Client.Status().Patch(ctx, object, client.RawPatch(types.StrategicMergePatchType, patch), options...)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing the agent's conditions of %s: %w", Ref(node), err)
	}
	r.say("the agent's conditions of " + Ref(node))
	return nil
}

// onEveryNode reports whether every node that is to have an agent has one of this version.
func onEveryNode(now *unstructured.Unstructured) (bool, string) {
	if now == nil {
		return false, "it was deleted"
	}
	var d appsv1.DaemonSet
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(now.Object, &d); err != nil {
		return false, err.Error()
	}
	s := d.Status
	ok := s.ObservedGeneration >= d.Generation && s.UpdatedNumberScheduled == s.DesiredNumberScheduled && s.NumberAvailable == s.DesiredNumberScheduled
	return ok, fmt.Sprintf("%d of %d nodes have an agent of this version, %d answer", s.UpdatedNumberScheduled, s.DesiredNumberScheduled, s.NumberAvailable)
}
