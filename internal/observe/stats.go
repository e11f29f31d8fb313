package observe

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"usher.sh/usher/internal/nodepressure"
	"usher.sh/usher/internal/nodepressure/summary"
)

// kubeletPatience is how long a kubelet's answer is waited for: on a node that is short of something it takes seconds.
const kubeletPatience = 20 * time.Second

// NodeUse is one look at what a node has and at what uses it.
type NodeUse struct {
	Node    *corev1.Node
	Pods    []corev1.Pod // bound to the node and not ended
	Summary *summary.Summary
}

// ReadNodeUse asks the apiserver for a node and its pods, and the node's kubelet, through the apiserver, for its
// statistics: three requests. The rights to get nodes and nodes/proxy and to list pods of all namespaces are needed;
// an error names the one that is missing.
func ReadNodeUse(ctx context.Context, client kubernetes.Interface, name string) (NodeUse, error) {
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return NodeUse{}, nodeRefusal(name, err)
	}
	pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: podsOf(name)})
	if err != nil {
		return NodeUse{}, podsRefusal(name, err)
	}
	return measure(ctx, client, node, pods.Items)
}

// podsOf selects the pods of a node.
func podsOf(node string) string { return fields.OneTermEqualSelector("spec.nodeName", node).String() }

// measure adds what the kubelet says.
func measure(ctx context.Context, client kubernetes.Interface, node *corev1.Node, pods []corev1.Pod) (NodeUse, error) {
	use := NodeUse{Node: node, Pods: running(pods)}
	text, err := askKubelet(ctx, client, node.Name, "stats", "summary")
	if err != nil {
		return NodeUse{}, kubeletRefusal(node, err)
	}
	if use.Summary, err = summary.Parse(text); err != nil {
		return NodeUse{}, fmt.Errorf("reading what the kubelet of node %s measured: %w", node.Name, err)
	}
	return use, nil
}

// running leaves out pods that have ended: they hold nothing that an eviction would give back.
func running(all []corev1.Pod) []corev1.Pod {
	var found []corev1.Pod
	for i := range all {
		if phase := all[i].Status.Phase; phase != corev1.PodSucceeded && phase != corev1.PodFailed {
			found = append(found, all[i])
		}
	}
	return found
}

// ReadThresholds asks a node's kubelet, through the apiserver, for its own eviction configuration: one request, with the
// right to get nodes/proxy.
func ReadThresholds(ctx context.Context, client kubernetes.Interface, name string) (nodepressure.Config, error) {
	text, err := askKubelet(ctx, client, name, "configz")
	if err != nil {
		return nodepressure.Config{}, err
	}
	var answer struct {
		Config *nodepressure.Config `json:"kubeletconfig"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nodepressure.Config{}, fmt.Errorf("reading the kubelet's configuration: %w", err)
	}
	if answer.Config == nil {
		return nodepressure.Config{}, fmt.Errorf("reading the kubelet's configuration: the answer has no kubeletconfig")
	}
	if wrong := answer.Config.Validate(); len(wrong) > 0 {
		return nodepressure.Config{}, fmt.Errorf("reading the kubelet's configuration: %w", wrong.ToAggregate())
	}
	return *answer.Config, nil
}

func askKubelet(ctx context.Context, client kubernetes.Interface, node string, path ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, kubeletPatience)
	defer cancel()
	result := client.CoreV1().RESTClient().Get().MaxRetries(0).
		Resource("nodes").Name(node).SubResource("proxy").Suffix(path...).
		SetHeader("Accept", "application/json").Do(ctx)
	if err := result.Error(); err != nil { // it reads what an apiserver says of a refusal, which Raw does not
		return nil, err
	}
	return result.Raw()
}
