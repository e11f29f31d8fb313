package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/lab/nodes"
	"usher.sh/usher/lab/throwaway"
)

const (
	allNodes = 1000
	allPods  = 20000

	crowdNodes      = allNodes - firstNodes
	crowdPods       = allPods - members - routers - free
	crowdNamespaces = 40
)

// crowd fills the cluster up with nodes, and with running pods that no policy governs. It binds the pods and writes their
// status itself, with more hands than the scheduler and the simulator have.
func (st *stage) crowd(ctx context.Context) error {
	if err := st.lab.Nodes.Create(ctx, st.lab.Client, nodes.Objects("crowd", crowdNodes, nodes.Zones(3)...)); err != nil {
		return err
	}
	owners := make([]*corev1.ConfigMap, crowdNamespaces)
	for i := range owners {
		namespace := crowdNamespace(i)
		if err := st.addNamespace(ctx, namespace); err != nil {
			return err
		}
		owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: ownerName}}
		var err error
		if owners[i], err = st.lab.Client.CoreV1().ConfigMaps(namespace).Create(ctx, owner, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating an owner: %w", err)
		}
	}
	return throwaway.InParallel(ctx, crowdPods, func(ctx context.Context, i int) error {
		return st.lab.CreateRunning(ctx, crowdPod(i, owners[i%crowdNamespaces]))
	})
}

// ownerName is the name of what owns the crowd's pods, in each of their namespaces.
const ownerName = "owner"

func crowdNamespace(i int) string { return fmt.Sprintf("crowd-%d", i) }

// crowdPod looks like a pod of a Deployment. What owns it is nothing that would see to it.
func crowdPod(i int, owner *corev1.ConfigMap) *corev1.Pod {
	app := fmt.Sprintf("app-%d", i/20)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: owner.Namespace, Name: fmt.Sprintf("%s-6d5f7c9b8d-%05d", app, i),
			Labels: map[string]string{
				"app.kubernetes.io/name": app, "app.kubernetes.io/part-of": "crowd", "app.kubernetes.io/version": "1.2.3", "pod-template-hash": "6d5f7c9b8d",
			},
			Annotations: map[string]string{
				"prometheus.io/scrape": "true", "prometheus.io/port": "9090",
				"checksum/config":                      "5f1d2a0c9f9d1f0e4b5a6c7d8e9f0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b",
				"pod-create.stage.kwok.x-k8s.io/delay": "24h", // its status is not the simulator's
			},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))},
		},
		Spec: podSpec(),
	}
	pod.Spec.NodeName = fmt.Sprintf("crowd-%d", i%crowdNodes+1)
	return pod
}
