package main

import (
	"bytes"
	"context"
	"fmt"
	"path"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"usher.sh/usher/lab/throwaway"
)

// mostPods is the size of the largest clusters that Kubernetes promises to serve.
const mostPods = 150000

// batch is how many pods are written in one transaction; etcd takes 128.
const batch = 100

// flood fills the cluster up to mostPods with pods as crowd makes them. It puts them where the apiserver keeps them, past the
// apiserver, which would take many minutes for so many.
func (st *stage) flood(ctx context.Context) error {
	store, err := clientv3.New(clientv3.Config{Endpoints: []string{st.lab.EtcdURL()}, Logger: zap.NewNop(), Context: ctx})
	if err != nil {
		return fmt.Errorf("connecting to etcd: %w", err)
	}
	defer store.Close()
	owners, err := st.owners(ctx)
	if err != nil {
		return err
	}
	stored := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	first := crowdPods
	batches := (mostPods - allPods + batch - 1) / batch
	return throwaway.InParallel(ctx, batches, func(ctx context.Context, n int) error {
		var puts []clientv3.Op
		for i := first + n*batch; i < first+(n+1)*batch; i++ {
			pod := finished(crowdPod(i, &owners[i%len(owners)]), i)
			var value bytes.Buffer
			if err := stored.Encode(pod, &value); err != nil {
				return fmt.Errorf("encoding a pod: %w", err)
			}
			puts = append(puts, clientv3.OpPut(path.Join("/registry/pods", pod.Namespace, pod.Name), value.String()))
		}
		if _, err := store.Txn(ctx).Then(puts...).Commit(); err != nil {
			return fmt.Errorf("writing pods: %w", err)
		}
		return nil
	})
}

// owners are those of the crowd's pods, in the order of crowd.
func (st *stage) owners(ctx context.Context) ([]corev1.ConfigMap, error) {
	owners := make([]corev1.ConfigMap, crowdNamespaces)
	for i := range owners {
		owner, err := st.lab.Client.CoreV1().ConfigMaps(crowdNamespace(i)).Get(ctx, ownerName, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading an owner: %w", err)
		}
		owners[i] = *owner
	}
	return owners, nil
}

// finished is a pod as the apiserver would have stored it, with the status of one that runs.
func finished(pod *corev1.Pod, i int) *corev1.Pod {
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	pod.UID = types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i))
	pod.CreationTimestamp = metav1.Now()
	pod.Status = throwaway.Running(pod)
	return pod
}
