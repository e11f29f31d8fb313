package act

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/nodelock"
	"usher.sh/usher/internal/snapshot"
)

// sentNode keeps what was sent to which resource, and by whom.
type sentNode struct {
	dynamic.NamespaceableResourceInterface
	account, resource, name string
	body                    map[string]any
}

func (s *sentNode) Resource(resource schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	s.resource = resource.String()
	return s
}

func (s *sentNode) Patch(_ context.Context, name string, kind types.PatchType, body []byte, _ metav1.PatchOptions, subresources ...string) (*unstructured.Unstructured, error) {
	s.name = name + " " + string(kind)
	if len(subresources) > 0 {
		s.name += "/" + subresources[0]
	}
	node := &unstructured.Unstructured{Object: map[string]any{}}
	node.SetResourceVersion("8")
	return node, json.Unmarshal(body, &s.body)
}

// A node is written as the policy's ServiceAccount, upon its UID and version, and nothing of it but what was decided.
func TestNodesAreLockedAsTheServiceAccount(t *testing.T) {
	sent := &sentNode{}
	locks := NodeLocks{As: func(namespace, account string) (dynamic.Interface, error) {
		sent.account = namespace + "/" + account
		return sent, nil
	}}
	policy := &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "stack", Name: "neutron"}}
	policy.Spec.ServiceAccountName = "agents"
	write := &nodelock.Write{
		Node:   &snapshot.Node{Name: "n1", UID: "u", ResourceVersion: "7", Labels: map[string]string{"zone": "a"}},
		Labels: map[string]*string{"example.com/state": new("True")}, Annotations: map[string]*string{"lock.example.com/a": nil, "lock.example.com/b": new("")},
	}
	version, answer := locks.Write(t.Context(), policy, write)
	wantCode(t, answer, answers.Accepted)
	want := map[string]any{"metadata": map[string]any{
		"uid": "u", "resourceVersion": "7", "labels": map[string]any{"example.com/state": "True"},
		"annotations": map[string]any{"lock.example.com/a": nil, "lock.example.com/b": ""},
	}}
	if diff := cmp.Diff(want, sent.body); diff != "" || version != "8" {
		t.Errorf("version %q; %s", version, diff)
	}
	if got := sent.account + " " + sent.resource + " " + sent.name; got != "stack/agents /v1, Resource=nodes n1 application/merge-patch+json" {
		t.Errorf("sent by, to: %s", got)
	}
	for name, lacks := range map[string]func(*nodelock.Write, *v1alpha1.EvictionPolicy){
		"UID":            func(w *nodelock.Write, _ *v1alpha1.EvictionPolicy) { w.Node.UID = "" },
		"version":        func(w *nodelock.Write, _ *v1alpha1.EvictionPolicy) { w.Node.ResourceVersion = "" },
		"ServiceAccount": func(_ *nodelock.Write, p *v1alpha1.EvictionPolicy) { p.Spec.ServiceAccountName = "" },
	} {
		w, p, node := *write, policy.DeepCopy(), *write.Node
		w.Node = &node
		sent.name = ""
		lacks(&w, p)
		if _, answer := locks.Write(t.Context(), p, &w); answer.Code != answers.Rejected || sent.name != "" {
			t.Errorf("without a %s: %+v, sent to %q", name, answer, sent.name)
		}
	}
}
