package manager

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
)

// workloads is the Kubernetes API as plain workloads need it, of all namespaces.
type workloads struct {
	config  *rest.Config
	reader  *observe.Workloads
	manager *act.Workloads
}

func newWorkloads(mgr ctrl.Manager, o Options, clientset kubernetes.Interface, self string) (*workloads, error) {
	own, err := dynamic.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	nodes := observe.NodeFrom(func(ctx context.Context, name string) (*corev1.Node, error) {
		var node corev1.Node
		err := mgr.GetCache().Get(ctx, client.ObjectKey{Name: name}, &node)
		return &node, err
	})
	return &workloads{
		config:  mgr.GetConfig(),
		reader:  &observe.Workloads{Client: clientset, Dynamic: own, Mapper: mgr.GetRESTMapper(), Node: nodes, Now: o.Clock.Now},
		manager: &act.Workloads{Dynamic: own, Client: clientset, Mapper: mgr.GetRESTMapper(), Now: o.Clock.Now, Holder: self},
	}, nil
}

// of returns those of a namespace, written as a ServiceAccount of it, or as the manager itself where that is "".
func (w *workloads) of(namespace, serviceAccount string) (system.Workloads, error) {
	one := &namespaceWorkloads{Workloads: w.manager, reader: w.reader, leases: w.manager, namespace: namespace}
	if serviceAccount == "" {
		return one, nil
	}
	as, err := as(w.config)(namespace, serviceAccount)
	if err != nil {
		return nil, err
	}
	one.Workloads = &act.Workloads{Dynamic: as, Mapper: w.manager.Mapper, Now: w.manager.Now}
	return one, nil
}

// as returns what makes clients that act as a ServiceAccount of a namespace.
func as(config *rest.Config) func(namespace, serviceAccount string) (dynamic.Interface, error) {
	return func(namespace, serviceAccount string) (dynamic.Interface, error) {
		config := rest.CopyConfig(config)
		config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":" + serviceAccount}
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			return nil, fmt.Errorf("making a client that acts as ServiceAccount %s: %w", serviceAccount, err)
		}
		return client, nil
	}
}

// namespaceWorkloads implements system.Workloads.
type namespaceWorkloads struct {
	*act.Workloads

	reader    *observe.Workloads
	leases    *act.Workloads
	namespace string
}

// Read implements system.Workloads.
func (n *namespaceWorkloads) Read(ctx context.Context, of func(*snapshot.Pod) bool, also ...system.Target) (snapshot.View, error) {
	named := map[schema.GroupKind][]string{}
	for _, t := range also {
		named[t.GroupKind] = append(named[t.GroupKind], t.Name)
	}
	return n.reader.Read(ctx, n.namespace, of, named)
}

// Renew implements system.Workloads: the Lease is the manager's, whoever scales.
func (n *namespaceWorkloads) Renew(ctx context.Context) error { return n.leases.Renew(ctx) }
