package observe

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"usher.sh/usher/internal/snapshot"
)

// Workloads reads what is true of the plain workloads of a namespace, past every cache but that of nodes. It may be used by several
// goroutines at once.
type Workloads struct {
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	Mapper  meta.RESTMapper
	// Node returns a node as it is known, nil where it is not.
	Node func(ctx context.Context, name string) (*snapshot.Node, error)
	Now  func() time.Time

	mu     sync.Mutex
	owners map[types.UID]rememberedOwner // of ReplicaSets
}

// rememberedOwner is the owner of a ReplicaSet. It changes only where a controller lets go of it.
type rememberedOwner struct {
	set *snapshot.Workload
	at  time.Time
}

const (
	// ownerLife is how long the owner of a ReplicaSet is believed, and mostOwners how many are remembered.
	ownerLife  = 10 * time.Minute
	mostOwners = 10_000
	// pageSize is how many objects are read at once, and mostControllers how many controllers may be above each other.
	pageSize        = 500
	mostControllers = 8
)

// Read returns the facts of a namespace: all pods, the nodes of those that are of the same workloads as the pods of which of is true, what
// controls these, and the workloads that are named.
func (r *Workloads) Read(ctx context.Context, namespace string, of func(*snapshot.Pod) bool, also map[schema.GroupKind][]string) (snapshot.View, error) {
	read := &workloadRead{Workloads: r, namespace: namespace, cluster: snapshot.NewCluster(), done: map[types.UID]bool{}}
	steps := []func(context.Context) error{
		read.pods, read.deployments, read.statefulSets, read.budgets, read.autoscalers,
		func(ctx context.Context) error { return read.controllers(ctx, of) },
		func(ctx context.Context) error { return read.named(ctx, also) },
		func(ctx context.Context) error { return read.claims(ctx, of) },
		read.nodes, read.leases,
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return snapshot.View{}, err
		}
	}
	return snapshot.View{Now: r.Now(), Cluster: read.cluster}, nil
}

// workloadRead is one read.
type workloadRead struct {
	*Workloads

	namespace string
	cluster   *snapshot.Cluster
	done      map[types.UID]bool // controllers that were read, or looked for
}

// pageList lists a kind of the namespace in pages, and hands each page's continuation on.
func pageList(what, namespace string, page func(metav1.ListOptions) (string, error)) error {
	options := metav1.ListOptions{Limit: pageSize}
	for {
		next, err := page(options)
		if apierrors.IsForbidden(err) {
			return fmt.Errorf("the manager may not list %s of namespace %s: usher install --workloads gives it the ClusterRole usher-workloads: %w", what, namespace, err)
		}
		if err != nil {
			return fmt.Errorf("listing %s of namespace %s: %w", what, namespace, err)
		}
		if next == "" {
			return nil
		}
		options.Continue = next
	}
}

func (r *workloadRead) pods(ctx context.Context) error {
	return pageList("pods", r.namespace, func(o metav1.ListOptions) (string, error) {
		list, err := r.Client.CoreV1().Pods(r.namespace).List(ctx, o)
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			r.cluster.SetPod(PodFacts(&list.Items[i]))
		}
		return list.Continue, nil
	})
}

func (r *workloadRead) deployments(ctx context.Context) error {
	return pageList("deployments", r.namespace, func(o metav1.ListOptions) (string, error) {
		list, err := r.Client.AppsV1().Deployments(r.namespace).List(ctx, o)
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			r.cluster.SetWorkload(DeploymentFacts(&list.Items[i]))
		}
		return list.Continue, nil
	})
}

func (r *workloadRead) statefulSets(ctx context.Context) error {
	return pageList("statefulsets", r.namespace, func(o metav1.ListOptions) (string, error) {
		list, err := r.Client.AppsV1().StatefulSets(r.namespace).List(ctx, o)
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			facts := statefulSetFacts(&list.Items[i])
			facts.Surge, facts.SurgeError = surge(&list.Items[i])
			r.cluster.SetWorkload(facts)
		}
		return list.Continue, nil
	})
}

func (r *workloadRead) budgets(ctx context.Context) error {
	return pageList("poddisruptionbudgets", r.namespace, func(o metav1.ListOptions) (string, error) {
		list, err := r.Client.PolicyV1().PodDisruptionBudgets(r.namespace).List(ctx, o)
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			r.cluster.SetBudget(budgetFacts(&list.Items[i]))
		}
		return list.Continue, nil
	})
}

func (r *workloadRead) autoscalers(ctx context.Context) error {
	return pageList("horizontalpodautoscalers", r.namespace, func(o metav1.ListOptions) (string, error) {
		list, err := r.Client.AutoscalingV2().HorizontalPodAutoscalers(r.namespace).List(ctx, o)
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			r.cluster.SetAutoscaler(AutoscalerFacts(&list.Items[i]))
		}
		return list.Continue, nil
	})
}

// claims reads those of the pods that are asked for: one list, or none. What may not be read is a gap.
func (r *workloadRead) claims(ctx context.Context, of func(*snapshot.Pod) bool) error {
	wanted := false
	r.cluster.EachPod(func(p *snapshot.Pod) { wanted = wanted || of(p) && len(p.Claims) > 0 })
	if !wanted {
		return nil
	}
	err := pageList("persistentvolumeclaims", r.namespace, func(o metav1.ListOptions) (string, error) {
		list, err := r.Client.CoreV1().PersistentVolumeClaims(r.namespace).List(ctx, o)
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			r.cluster.SetClaim(claimFacts(&list.Items[i]))
		}
		return list.Continue, nil
	})
	if apierrors.IsForbidden(err) {
		r.cluster.SetGap(snapshot.Gap{Resource: "persistentvolumeclaims", Reason: err.Error(), Final: true})
		return nil
	}
	return err
}

// nodes are those of the pods.
func (r *workloadRead) nodes(ctx context.Context) error {
	names := map[string]bool{}
	r.cluster.EachPod(func(p *snapshot.Pod) {
		if p.Node != "" {
			names[p.Node] = true
		}
	})
	for name := range names {
		node, err := r.Node(ctx, name)
		if err != nil {
			return err
		}
		if node != nil {
			r.cluster.SetNode(node)
		}
	}
	return nil
}

// leases are those of the drains that surge something, which tell whether they run.
func (r *workloadRead) leases(ctx context.Context) error {
	ids := map[string]bool{}
	for _, w := range r.cluster.Surged() {
		if w.Surge != nil && w.Surge.Lease && w.Surge.ID != snapshot.ManagerID {
			ids[w.Surge.ID] = true
		}
	}
	for id := range ids {
		lease, err := r.Client.CoordinationV1().Leases(snapshot.LeaseNamespace).Get(ctx, snapshot.LeaseName(id), metav1.GetOptions{})
		switch {
		case err == nil:
			r.cluster.SetLease(LeaseFacts(lease))
		case !apierrors.IsNotFound(err):
			continue // it is not known, for which decisions have a bound
		}
		r.cluster.SetLeasesRead(id, true)
	}
	return nil
}

// controllers reads what controls the pods, up to the last.
func (r *workloadRead) controllers(ctx context.Context, of func(*snapshot.Pod) bool) error {
	var owners []snapshot.OwnerKey
	r.cluster.EachPod(func(p *snapshot.Pod) {
		if of(p) {
			owners = append(owners, p.OwnerKey())
		}
	})
	for _, owner := range owners {
		for range mostControllers {
			w, err := r.controller(ctx, owner)
			if err != nil {
				return err
			}
			if w == nil {
				break
			}
			owner = w.OwnerKey()
		}
	}
	return nil
}

// controller returns one, nil where it is not to be read, gone, or another of its name.
func (r *workloadRead) controller(ctx context.Context, key snapshot.OwnerKey) (*snapshot.Workload, error) {
	if key.UID == "" || r.done[key.UID] {
		return r.cluster.WorkloadOf(key), nil
	}
	r.done[key.UID] = true
	if w := r.cluster.WorkloadOf(key); w != nil || unscaled(key) {
		return w, nil
	}
	w, err := r.remembered(ctx, key)
	if err != nil || w == nil || w.UID != key.UID {
		return nil, err
	}
	r.cluster.SetWorkload(w)
	return w, nil
}

// unscaled reports whether no workload of the kind has a number of replicas that a surge could raise.
func unscaled(key snapshot.OwnerKey) bool {
	return key.Group == "apps" && (key.Kind == "DaemonSet" || key.Kind == "ControllerRevision") || key.Group == "batch" || key.Group == "" && key.Kind == "Node"
}

func (r *workloadRead) remembered(ctx context.Context, key snapshot.OwnerKey) (*snapshot.Workload, error) {
	r.mu.Lock()
	known, ok := r.owners[key.UID]
	r.mu.Unlock()
	if ok && r.Now().Sub(known.at) < ownerLife {
		return known.set, nil
	}
	w, err := r.scaled(ctx, schema.GroupKind{Group: key.Group, Kind: key.Kind}, key.Name, key.UID)
	if err != nil || w == nil || w.Kind != "ReplicaSet" || w.Owner.UID == "" {
		return w, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owners == nil || len(r.owners) >= mostOwners {
		r.owners = map[types.UID]rememberedOwner{}
	}
	r.owners[key.UID] = rememberedOwner{w, r.Now()}
	return w, nil
}

// named reads workloads by their names.
func (r *workloadRead) named(ctx context.Context, also map[schema.GroupKind][]string) error {
	for kind, names := range also {
		for _, name := range names {
			if kind.Group == "apps" && (kind.Kind == "Deployment" || kind.Kind == "StatefulSet") {
				continue // all of them were listed
			}
			w, err := r.scaled(ctx, kind, name, "")
			if err != nil {
				return err
			}
			if w != nil {
				r.cluster.SetWorkload(w)
			}
		}
	}
	return nil
}

// NodeFrom returns a reader of nodes for Workloads, which knows them by get.
func NodeFrom(get func(ctx context.Context, name string) (*corev1.Node, error)) func(context.Context, string) (*snapshot.Node, error) {
	return func(ctx context.Context, name string) (*snapshot.Node, error) {
		node, err := get(ctx, name)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading node %s: %w", name, err)
		}
		return NodeFacts(node), nil
	}
}
