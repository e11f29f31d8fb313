package install

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/certificate"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/text"
)

// Remove takes out of the cluster what Usher has brought and written there, and says each thing that it removed, or would
// with dryRun. Webhooks go first, so that nothing is refused when no replica answers any more. Requests go before the policies,
// because those that a policy has held back would be carried out without it. The configuration of notices goes before the maintenances that
// are made by it. The manager goes after the policies, because
// it undoes what it has prepared for them, gives back the nodes of maintenances, and takes its taints off nodes that were lost.
func (c Cluster) Remove(ctx context.Context, objects []*unstructured.Unstructured, namespace string, dryRun bool) error {
	r := remover{c, dryRun}
	steps := []func() error{
		func() error { return r.noSets(ctx) },
		func() error { return r.deleteAll(ctx, pick(objects, isWebhook)) },
		func() error { return r.agents(ctx, objects) },
		func() error { return r.deleteAll(ctx, []*unstructured.Unstructured{noticesConfig(namespace)}) },
		func() error { return r.maintenances(ctx) },
		func() error { return r.replacements(ctx) },
		func() error { return r.requests(ctx) },
		func() error { return r.policies(ctx) },
		func() error { return r.fences(ctx) },
		func() error { return r.manager(ctx, objects) },
		func() error { return r.unlabel(ctx, "Pod", v1alpha1.PolicyLabel) },
		func() error { return r.unlabel(ctx, "Pod", v1alpha1.AuditLabel) },
		func() error { return r.unlabel(ctx, "Namespace", v1alpha1.GovernedLabel) },
		func() error { return r.unlabel(ctx, "Namespace", v1alpha1.AuditedLabel) },
		func() error { return r.bindings(ctx) },
		func() error { return r.rest(ctx, objects, namespace) },
		func() error { return r.namespace(ctx, namespace+agentSuffix) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// noSets fails while there are MemberSets: with them, and with their CustomResourceDefinition, the pods of their members would go.
func (r remover) noSets(ctx context.Context) error {
	all, err := r.list(ctx, v1alpha1.GroupVersion.WithKind("MemberSet"))
	if err != nil || len(all) == 0 {
		return err
	}
	var names []string
	for _, set := range all {
		names = append(names, set.GetNamespace()+"/"+set.GetName())
	}
	return fmt.Errorf("there are MemberSets, and the pods of their members would go with them: %s; delete them first, and keep their pods by kubectl delete memberset NAME -n NAMESPACE --cascade=orphan",
		text.List(names, 10))
}

type remover struct {
	Cluster
	dryRun bool
}

func isWebhook(o *unstructured.Unstructured) bool {
	return strings.HasSuffix(o.GetKind(), "WebhookConfiguration")
}

func pick(objects []*unstructured.Unstructured, wanted func(*unstructured.Unstructured) bool) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool { return !wanted(o) })
}

func (r remover) deleteAll(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		if _, err := r.delete(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// delete reports whether there was something to delete.
func (r remover) delete(ctx context.Context, object *unstructured.Unstructured) (found bool, err error) {
	options := []client.DeleteOption{propagation(object)}
	if r.dryRun {
		options = append(options, client.DryRunAll)
	}
	err = r.Client.Delete(ctx, object.DeepCopy(), options...)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("removing %s: %w", Ref(object), err)
	}
	r.say(Ref(object))
	return true, nil
}

// propagation lets what runs pods stay until they have ended, which can be waited for. All else is gone at once, and not
// when the garbage collector has looked for what depends on it.
func propagation(object *unstructured.Unstructured) client.PropagationPolicy {
	if runs(object) {
		return client.PropagationPolicy(metav1.DeletePropagationForeground)
	}
	return client.PropagationPolicy(metav1.DeletePropagationBackground)
}

func (r remover) say(what string) {
	verb := "removed"
	if r.dryRun {
		verb = "would be removed"
	}
	fmt.Fprintf(r.Out, "%s %s\n", what, verb)
}

// manager removes the manager, and waits until it does not run any more: it would write again what is removed next.
func (r remover) manager(ctx context.Context, objects []*unstructured.Unstructured) error {
	return r.stop(ctx, pick(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Deployment" }))
}

// stop removes what runs, and waits until it does not any more.
func (r remover) stop(ctx context.Context, running []*unstructured.Unstructured) error {
	for _, object := range running {
		found, err := r.delete(ctx, object)
		if err != nil {
			return err
		}
		if !found || r.dryRun {
			continue
		}
		err = r.wait(ctx, object, func(now *unstructured.Unstructured) (bool, string) {
			return now == nil, "waiting until its pods have ended"
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// unlabel takes a label off everything that has it.
func (r remover) unlabel(ctx context.Context, kind, label string) error {
	all, err := r.list(ctx, schema.GroupVersionKind{Version: "v1", Kind: kind}, client.HasLabels{label})
	if err != nil {
		return err
	}
	var options []client.PatchOption
	if r.dryRun {
		options = append(options, client.DryRunAll)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, label)
	for _, object := range all {
		err := r.Client.Patch(ctx, object.DeepCopy(), client.RawPatch(types.MergePatchType, patch), options...)
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("removing label %s of %s: %w", label, Ref(object), err)
		}
	}
	if len(all) > 0 {
		r.say(fmt.Sprintf("label %s of %d objects of kind %s", label, len(all), kind))
	}
	return nil
}

// bindings removes what namespaces have granted to the manager, which Usher did not write but would leave pointing nowhere.
func (r remover) bindings(ctx context.Context) error {
	all, err := r.list(ctx, schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"})
	if err != nil {
		return err
	}
	return r.deleteAll(ctx, pick(all, func(o *unstructured.Unstructured) bool {
		kind, _, _ := unstructured.NestedString(o.Object, "roleRef", "kind")
		name, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
		return kind == "ClusterRole" && slices.Contains([]string{"usher-secrets", "usher-configmaps", "usher-cluster-files", "usher-workloads-impersonate", "usher-replacements-impersonate", "usher-node-locks-impersonate"}, name)
	}))
}

// rest removes what is left, the namespace last and only if it was made for Usher.
func (r remover) rest(ctx context.Context, objects []*unstructured.Unstructured, namespace string) error {
	left := pick(objects, func(o *unstructured.Unstructured) bool {
		return !isWebhook(o) && !runs(o) && o.GetKind() != "Namespace"
	})
	slices.Reverse(left)
	left = append(left, written(namespace)...)
	if err := r.deleteAll(ctx, left); err != nil {
		return err
	}
	if !r.dryRun {
		for _, definition := range pick(left, isDefinition) {
			if err := r.gone(ctx, definition); err != nil {
				return err
			}
		}
	}
	return r.namespace(ctx, namespace)
}

// written are the objects that the manager makes itself.
func written(namespace string) []*unstructured.Unstructured {
	secret, lease, surges := &unstructured.Unstructured{}, &unstructured.Unstructured{}, &unstructured.Unstructured{}
	secret.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Secret"})
	secret.SetName(certificate.SecretName)
	lease.SetGroupVersionKind(schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"})
	lease.SetName(ManagerName)
	secret.SetNamespace(namespace)
	lease.SetNamespace(namespace)
	surges.SetGroupVersionKind(lease.GroupVersionKind())
	surges.SetNamespace(snapshot.LeaseNamespace)
	surges.SetName(snapshot.LeaseName(snapshot.ManagerID))
	return []*unstructured.Unstructured{secret, lease, surges}
}

// ManagerName is the name of the manager's Deployment, and of the Lease by which its
// replicas elect their leader.
const ManagerName = "usher-manager"

func (r remover) namespace(ctx context.Context, name string) error {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
	err := r.Client.Get(ctx, client.ObjectKey{Name: name}, object)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading namespace %s: %w", name, err)
	}
	if !ours(object) {
		fmt.Fprintf(r.Out, "namespace/%s stays: it was there before\n", name)
		return nil
	}
	found, err := r.delete(ctx, object)
	if err != nil || !found || r.dryRun {
		return err
	}
	return r.wait(ctx, object, func(now *unstructured.Unstructured) (bool, string) { return now == nil, "waiting until it is empty" })
}

// list returns all objects of a kind, none where the kind is not served.
func (r remover) list(ctx context.Context, kind schema.GroupVersionKind, options ...client.ListOption) ([]*unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	err := r.Client.List(ctx, list, options...)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing every %s: %w", kind.Kind, err)
	}
	all := make([]*unstructured.Unstructured, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	return all, nil
}

// ReadOnly returns the cluster for a dry run on the client: what would be removed is read, so
// that what is not there is passed over, and nothing else is sent.
func (c Cluster) ReadOnly() Cluster {
	c.Client = interceptor.NewClient(c.Client, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, _ ...client.DeleteOption) error {
			return c.Get(ctx, client.ObjectKeyFromObject(object), object)
		},
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return nil
		},
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return nil
		},
	})
	return c
}
