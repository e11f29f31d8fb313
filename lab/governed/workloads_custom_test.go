package governed

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/install"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/lab/testlab"
)

// crowdDefinition is a kind that Usher knows nothing of but that it has the subresource scale.
const crowdDefinition = `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
"metadata": {"name": "crowds.lab.usher.sh"},
"spec": {"group": "lab.usher.sh", "scope": "Namespaced", "names": {"plural": "crowds", "kind": "Crowd"}, "versions": [{
  "name": "v1", "served": true, "storage": true,
  "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
  "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}}}]}}`

var crowds = schema.GroupVersionKind{Group: "lab.usher.sh", Version: "v1", Kind: "Crowd"}

// crowdControl has clients that may write any object.
type crowdControl struct {
	*house

	store     client.Client
	namespace string
	nodes     corev1.Affinity
}

// A workload of any kind with scale is surged, by the ServiceAccount that the policy names: the manager itself may only read it.
func (h *house) surgesACustomKindAsAServiceAccount(t *testing.T) {
	t.Helper()
	store, err := client.New(h.lab.RESTConfig(), client.Options{Scheme: runtime.NewScheme()})
	must(t, err)
	c := &crowdControl{house: h, store: store, namespace: h.lab.Namespace(t), nodes: onNodes(h.lab.Nodes(t, 2))}
	c.define(t)
	c.grant(t)
	crowd := c.crowd(t)
	c.member(t, crowd, "first")
	node := h.lab.WaitReady(t, c.namespace, testlab.Labels("web"), 1)[0].Spec.NodeName
	h.lab.MinAvailable(t, c.namespace, "web", "1")
	h.lab.WaitBudget(t, c.namespace, "web", 1)
	h.plain(t, c.namespace, 1, func(p *v1alpha1.EvictionPolicy) { p.Spec.ServiceAccountName = "scaler" })
	least := h.leastReady(t, c.namespace)

	drain := h.drain(t, node)
	c.waitReplicas(t, 2)
	c.member(t, crowd, "second")
	drain.succeed(t)
	c.member(t, crowd, "third") // in place of the first: which of two its controller would remove is not known, so both are to be ready
	c.waitReplicas(t, 1)
	h.waitPolicy(t, c.namespace, "plain", "everything to be settled", settled)
	if n := least(); n != 1 {
		t.Errorf("at the lowest %d pods were ready, want 1", n)
	}
}

// define makes the kind, and waits until it is served.
func (c *crowdControl) define(t *testing.T) {
	t.Helper()
	definition := &unstructured.Unstructured{}
	must(t, definition.UnmarshalJSON([]byte(crowdDefinition)))
	must(t, c.store.Create(t.Context(), definition))
	eventually(t, "the kind to be served", func() bool {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(crowds)
		return c.store.List(t.Context(), list) == nil
	})
}

// grant lets the manager read the kind and act as the ServiceAccount scaler, which may scale.
func (c *crowdControl) grant(t *testing.T) {
	t.Helper()
	rbac := c.lab.Client().RbacV1()
	both := []string{"crowds", "crowds/scale"}
	_, err := rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "crowds-" + c.namespace, Labels: map[string]string{"usher.sh/aggregate-to-workloads": "true"}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{crowds.Group}, Resources: both, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{})
	must(t, err)
	_, err = c.lab.Client().CoreV1().ServiceAccounts(c.namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "scaler"}}, metav1.CreateOptions{})
	must(t, err)
	_, err = rbac.Roles(c.namespace).Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "scaler"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{crowds.Group}, Resources: both, Verbs: []string{"patch"}}},
	}, metav1.CreateOptions{})
	must(t, err)
	for _, b := range []struct{ kind, role, namespace, account string }{
		{"Role", "scaler", c.namespace, "scaler"},
		{"ClusterRole", "usher-workloads-impersonate", install.DefaultNamespace, "usher-manager"},
	} {
		_, err = rbac.RoleBindings(c.namespace).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: b.role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: b.kind, Name: b.role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: b.namespace, Name: b.account}},
		}, metav1.CreateOptions{})
		must(t, err)
	}
}

// crowd makes a workload of one replica.
func (c *crowdControl) crowd(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	crowd := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(1)}}}
	crowd.SetGroupVersionKind(crowds)
	crowd.SetNamespace(c.namespace)
	crowd.SetName("web")
	must(t, c.store.Create(t.Context(), crowd))
	crowd.Object["status"] = map[string]any{"replicas": int64(1), "selector": "app=web"}
	must(t, c.store.Status().Update(t.Context(), crowd))
	return crowd
}

// member starts a pod as the kind's controller does.
func (c *crowdControl) member(t *testing.T, crowd *unstructured.Unstructured, name string) {
	t.Helper()
	c.lab.Pod(t, c.namespace, "web", func(p *corev1.Pod) {
		p.Name = name
		p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(crowd, crowds)}
		p.Spec.Affinity = &c.nodes
	})
}

func (c *crowdControl) waitReplicas(t *testing.T, n int64) {
	t.Helper()
	eventually(t, "the crowd to be scaled", func() bool {
		crowd := &unstructured.Unstructured{}
		crowd.SetGroupVersionKind(crowds)
		must(t, c.store.Get(t.Context(), client.ObjectKey{Namespace: c.namespace, Name: "web"}, crowd))
		now, _, err := unstructured.NestedInt64(crowd.Object, "spec", "replicas")
		must(t, err)
		return now == n && (n > 1 || crowd.GetAnnotations()[snapshot.SurgeAnnotation] == "")
	})
}
