// Package join answers: how do real nodes join a lab?
package join

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"usher.sh/usher/lab/cluster"
	"usher.sh/usher/lab/image"
	"usher.sh/usher/lab/nodes"
	"usher.sh/usher/lab/realnode"
)

// Options say what nodes are wanted.
type Options struct {
	Prefix  string            // names are Prefix-1, Prefix-2, …
	Count   int               // number of nodes
	Zones   []string          // the nodes are dealt out over them in turn; none if empty
	Labels  map[string]string // on every node, besides realnode.Label and the zone
	Tainted bool              // take only pods that tolerate realnode.Taint
	Memory  resource.Quantity // for the pods of each node together; zero is all that the machine has
	Disk    realnode.Disk     // of each node; the host's if it has no size
	PodPIDs int64             // threads that each pod may have; zero is no limit
	// OwnNetwork gives each node a network namespace of its own.
	OwnNetwork bool
	Files      []image.File // further static programs in the image, for example etcd
	Images     []string     // archives of further images, as package image writes them
}

// nodeGroup is the group of all kubelets; RBAC alone, without the node authorizer, gives it nothing.
const nodeGroup = "system:nodes"

// Nodes starts real nodes and returns when pods can run on them. When that fails or ctx ends first, none is left. The
// nodes end with their Stop, or with the lab.
func Nodes(ctx context.Context, c *cluster.Cluster, client kubernetes.Interface, o Options) ([]*realnode.Node, error) {
	if err := realnode.Preflight(c.Cache); err != nil {
		return nil, err
	}
	if err := allowKubelets(ctx, client); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "usher-lab-image-")
	if err != nil {
		return nil, fmt.Errorf("making the image: %w", err)
	}
	defer os.RemoveAll(dir)
	archive, err := image.Make(ctx, dir, o.Files...)
	if err != nil {
		return nil, err
	}
	started, err := startAll(ctx, c, o, append([]string{archive}, o.Images...))
	if err == nil {
		err = awaitUsable(ctx, client, started)
	}
	if err != nil {
		return nil, errors.Join(err, stopAll(started))
	}
	return started, nil
}

func allowKubelets(ctx context.Context, client kubernetes.Interface) error {
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "lab:nodes"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: nodeGroup}},
	}
	_, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("giving kubelets their rights: %w", err)
	}
	return nil
}

func startAll(ctx context.Context, c *cluster.Cluster, o Options, images []string) ([]*realnode.Node, error) {
	all := make([]*realnode.Node, o.Count)
	errs := make([]error, o.Count)
	var wg sync.WaitGroup
	for i := range o.Count {
		wg.Go(func() { all[i], errs[i] = startOne(ctx, c, o, i, images) })
	}
	wg.Wait()
	var started []*realnode.Node
	for _, n := range all {
		if n != nil {
			started = append(started, n)
		}
	}
	return started, errors.Join(errs...)
}

func startOne(ctx context.Context, c *cluster.Cluster, o Options, i int, images []string) (*realnode.Node, error) {
	name := fmt.Sprintf("%s-%d", o.Prefix, i+1)
	dir := filepath.Join(c.RealNodes(), name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("starting real node %s: %w", name, err)
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := c.WriteKubeconfig(kubeconfig, "system:node:"+name, nodeGroup); err != nil {
		return nil, err
	}
	labels := maps.Clone(o.Labels)
	if len(o.Zones) > 0 {
		if labels == nil {
			labels = map[string]string{}
		}
		labels[corev1.LabelTopologyZone] = o.Zones[i%len(o.Zones)]
	}
	return realnode.Start(ctx, realnode.Config{
		Name: name, Labels: labels, Tainted: o.Tainted, Memory: o.Memory, Disk: o.Disk, PodPIDs: o.PodPIDs,
		OwnNetwork: o.OwnNetwork, APIServer: c.Address(),
		Dir: dir, Processes: c.Processes(), Kubeconfig: kubeconfig, ClientCA: c.ClientCA(),
		Cache: c.Cache, Images: images, EndWithParent: c.EndWithParent,
	})
}

// awaitUsable gives up as soon as one of the nodes ends.
func awaitUsable(ctx context.Context, client kubernetes.Interface, started []*realnode.Node) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	names := map[string]bool{}
	for _, n := range started {
		names[n.Name] = true
		go func() {
			select {
			case <-n.Ended():
				cancel(n.Failure())
			case <-ctx.Done():
			}
		}()
	}
	return nodes.AwaitUsable(ctx, client, names)
}

func stopAll(list []*realnode.Node) error {
	var errs []error
	for _, n := range list {
		errs = append(errs, n.Stop())
	}
	return errors.Join(errs...)
}
