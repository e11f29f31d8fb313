package observe

import (
	"context"
	"sync/atomic"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// NodeUseFollower looks at a node again and again. The node and its pods are watched; statistics have no watch and are
// asked for at each look, one request.
type NodeUseFollower struct {
	client      kubernetes.Interface
	name        string
	nodes, pods *mirror
}

// FollowNodeUse begins to watch; the context ends it. Where watching is not allowed, each look reads as ReadNodeUse does.
func FollowNodeUse(ctx context.Context, client kubernetes.Interface, name string) *NodeUseFollower {
	core := client.CoreV1()
	return &NodeUseFollower{
		client: client, name: name,
		nodes: mirrored(ctx, client, fields.OneTermEqualSelector(metav1.ObjectNameField, name).String(), &corev1.Node{}, core.Nodes()),
		pods:  mirrored(ctx, client, podsOf(name), &corev1.Pod{}, core.Pods("")),
	}
}

// Look is ReadNodeUse with one request, as soon as the watches have brought what is there.
func (f *NodeUseFollower) Look(ctx context.Context) (NodeUse, error) {
	if !f.nodes.filled() || !f.pods.filled() {
		return ReadNodeUse(ctx, f.client, f.name)
	}
	var node *corev1.Node
	for _, object := range f.nodes.store.List() {
		node, _ = object.(*corev1.Node)
	}
	if node == nil { // it is gone; the server's own words say so best
		return ReadNodeUse(ctx, f.client, f.name)
	}
	var pods []corev1.Pod
	for _, object := range f.pods.store.List() {
		if pod, ok := object.(*corev1.Pod); ok {
			pods = append(pods, *pod)
		}
	}
	return measure(ctx, f.client, node, pods)
}

// mirror holds what a watch brings.
type mirror struct {
	store     cache.Store
	reflector *cache.Reflector
}

func (m *mirror) filled() bool { return m.reflector.LastSyncResourceVersion() != "" }

func mirrored[L runtime.Object](ctx context.Context, client kubernetes.Interface, selector string, sample runtime.Object, api resourceAPI[L]) *mirror {
	silent := logr.Discard()
	m := &mirror{store: cache.NewStore(cache.MetaNamespaceKeyFunc)}
	source := listWatch(client, selected[L]{api, question{fields: selector}}, new(atomic.Bool), func(string, error) {})
	m.reflector = cache.NewReflectorWithOptions(source, sample, m.store, cache.ReflectorOptions{Backoff: reconnect(), Logger: &silent})
	go m.reflector.RunWithContext(klog.NewContext(ctx, silent))
	return m
}
