package install

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/maintenance"
	"usher.sh/usher/internal/snapshot"
)

// requesters are the domains of those who ask for evictions in Usher's name.
var requesters = []string{"requester.usher.sh/", "drain.usher.sh/", "pressure.usher.sh/", "nodelock.usher.sh/"}

// requests removes what Usher has asked for, and what any client has with Usher's own copy of the API, which goes as a whole.
func (r remover) requests(ctx context.Context) error {
	for _, group := range []string{"lifecycle.k8s.io", lifecycleGroup} {
		all, err := r.list(ctx, schema.GroupVersionKind{Group: group, Version: "v1alpha1", Kind: "EvictionRequest"})
		if err != nil {
			return err
		}
		if err := r.deleteAll(ctx, pick(all, func(o *unstructured.Unstructured) bool { return group == lifecycleGroup || byUsher(o) })); err != nil {
			return err
		}
	}
	return nil
}

func byUsher(request *unstructured.Unstructured) bool {
	by, _, _ := unstructured.NestedString(request.Object, "spec", "requester")
	return slices.ContainsFunc(requesters, func(domain string) bool { return strings.HasPrefix(by, domain) })
}

// held is a kind of objects that the manager holds until it has undone what it did for them.
type held struct {
	kind      string
	finalizer string
	waits     string                                    // for what
	left      func(*unstructured.Unstructured) []string // what is left where it has not, each in a sentence
}

// policies removes all policies, as remove does.
func (r remover) policies(ctx context.Context) error {
	return r.removeHeld(ctx, held{"EvictionPolicy", v1alpha1.UndoFinalizer, "waiting until the manager has undone its preparations and taken its locks off nodes", leftOfPolicy})
}

// leftOfPolicy is what a manager has not undone for a policy.
func leftOfPolicy(policy *unstructured.Unstructured) []string {
	var left []string
	begun, _, _ := unstructured.NestedSlice(policy.Object, "status", "preparations")
	for _, each := range begun {
		if fields, ok := each.(map[string]any); ok {
			left = append(left, fmt.Sprintf("not undone: %v of member %v; undo it in the system itself", fields["name"], fields["id"]))
		}
	}
	prefix, _, _ := unstructured.NestedString(policy.Object, "spec", "nodeLock", "lockPrefix")
	holders, _, _ := unstructured.NestedStringSlice(policy.Object, "spec", "nodeLock", "holders")
	for _, role := range holders {
		lock := prefix + "/" + snapshot.NodeLockName(snapshot.Key{Namespace: policy.GetNamespace(), Name: policy.GetName()}, role)
		left = append(left, "nodes may have locks of its members still: kubectl annotate nodes --all "+lock+"-")
	}
	return left
}

// maintenances removes all maintenances, as remove does.
func (r remover) maintenances(ctx context.Context) error {
	return r.removeHeld(ctx, held{"NodeMaintenance", maintenance.Finalizer, "waiting until the manager has given its nodes back", func(m *unstructured.Unstructured) []string {
		var left []string
		nodes, _, _ := unstructured.NestedSlice(m.Object, "status", "nodes")
		for _, each := range nodes {
			if fields, ok := each.(map[string]any); ok {
				left = append(left, fmt.Sprintf("node %v was not given back; usher uncordon %v does that", fields["name"], fields["name"]))
			}
		}
		return left
	}})
}

// replacements removes all requests for replacements, as remove does.
func (r remover) replacements(ctx context.Context) error {
	return r.removeHeld(ctx, held{"ReplacementRequest", v1alpha1.ReplacementFinalizer, "waiting until nothing of the replacement is under way", func(q *unstructured.Unstructured) []string {
		step, _, _ := unstructured.NestedString(q.Object, "status", "step")
		set, _, _ := unstructured.NestedString(q.Object, "status", "predecessor", "statefulSet")
		if step != string(v1alpha1.ReplacementRemoving) && step != string(v1alpha1.ReplacementJoining) {
			return nil
		}
		return []string{fmt.Sprintf("the replacement was under way (%s); look after StatefulSet %s yourself", step, set)}
	}})
}

// fences removes what has nodes fenced, so that none is anew, and then all fences, as remove does: what they have set on their nodes goes.
func (r remover) fences(ctx context.Context) error {
	by, err := r.list(ctx, v1alpha1.GroupVersion.WithKind("LostNodePolicy"))
	if err != nil {
		return err
	}
	if err := r.deleteAll(ctx, by); err != nil {
		return err
	}
	return r.removeHeld(ctx, held{"NodeFence", v1alpha1.FenceFinalizer, "waiting until the manager has taken its taint off the node", func(fence *unstructured.Unstructured) []string {
		node, _, _ := unstructured.NestedString(fence.Object, "spec", "nodeName")
		if taint, _, _ := unstructured.NestedString(fence.Object, "status", "taint"); taint != string(v1alpha1.TaintByUsher) {
			return nil
		}
		return []string{fmt.Sprintf("node %[1]s may still have the taint %[2]s=%[3]s; where its machine runs: kubectl taint nodes %[1]s %[2]s-", node, corev1.TaintNodeOutOfService, v1alpha1.OutOfServiceValue)}
	}})
}

// removeHeld removes all objects of a kind and waits until the manager has undone what it did for them. What it does not undo in time is
// named: a person has to look after it.
func (r remover) removeHeld(ctx context.Context, h held) error {
	all, err := r.list(ctx, v1alpha1.GroupVersion.WithKind(h.kind))
	if err != nil {
		return err
	}
	if err := r.deleteAll(ctx, all); err != nil || r.dryRun {
		return err
	}
	patient, cancel := context.WithTimeoutCause(ctx, r.UndoPatience, fmt.Errorf("not within %s", r.UndoPatience))
	defer cancel()
	for _, object := range all {
		err := r.wait(patient, object, func(now *unstructured.Unstructured) (bool, string) {
			return now == nil, fmt.Sprintf("%s, for up to %s in all", h.waits, r.UndoPatience)
		})
		if err == nil {
			continue
		}
		if patient.Err() == nil || ctx.Err() != nil {
			return err
		}
		if err := r.abandon(ctx, object, h); err != nil {
			return err
		}
	}
	return nil
}

// abandon lets an object go of which not all is undone. What others hold it for is theirs, and is named.
func (r remover) abandon(ctx context.Context, object *unstructured.Unstructured, h held) error {
	for _, words := range h.left(object) {
		fmt.Fprintf(r.Out, "%s: %s\n", Ref(object), words)
	}
	for {
		now, err := r.now(ctx, object)
		if err != nil || now == nil {
			return err
		}
		foreign := slices.DeleteFunc(now.GetFinalizers(), func(f string) bool { return f == h.finalizer })
		if len(foreign) > 0 {
			fmt.Fprintf(r.Out, "%s: stays until %s is removed by its owner\n", Ref(object), strings.Join(foreign, ", "))
		}
		if err := r.setFinalizers(ctx, now, foreign); !apierrors.IsConflict(err) {
			return client.IgnoreNotFound(err)
		}
	}
}

// finalized is a patch of who holds an object; null for none.
type finalized struct {
	Metadata struct {
		ResourceVersion string   `json:"resourceVersion"`
		Finalizers      []string `json:"finalizers"`
	} `json:"metadata"`
}

// setFinalizers insists on the version of the object that was read: another may just have put its own there.
func (r remover) setFinalizers(ctx context.Context, object *unstructured.Unstructured, finalizers []string) error {
	var held finalized
	held.Metadata.ResourceVersion, held.Metadata.Finalizers = object.GetResourceVersion(), finalizers
	patch, err := json.Marshal(held)
	if err != nil {
		return fmt.Errorf("removing %s: %w", Ref(object), err)
	}
	if err := r.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("removing %s: %w", Ref(object), err)
	}
	return nil
}
