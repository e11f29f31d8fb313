package governed

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"usher.sh/usher/api/v1alpha1"
)

// operated is an example of docs/operators.md, and the operator that it is about.
type operated struct {
	section, role, id string
	pods              []string // the first one is replaced
	labels            map[string]string
	idLabel           string // "": the id is the pod's name
	successor         string // its pod
	annotation        string // of the pod; "": a FoundationDBCluster is patched
	undone            bool   // deleting the request takes it back
}

var operatedExamples = []operated{
	{
		section: "kube-arangodb", role: "arangodb-coordinator", id: "shop-crdn-1", pods: []string{"shop-crdn-1", "shop-crdn-2"}, successor: "shop-crdn-3",
		labels: map[string]string{"arango_deployment": "shop", "role": "coordinator"}, annotation: "deployment.arangodb.com/replace", undone: true,
	},
	{
		section: "Strimzi", role: "broker", id: "main-broker-1", pods: []string{"main-broker-1", "main-broker-0"}, successor: "main-broker-1",
		labels: map[string]string{"strimzi.io/cluster": "main", "strimzi.io/broker-role": "true"}, annotation: "strimzi.io/delete-pod-and-pvc", undone: true,
	},
	{
		section: "FoundationDB's operator", role: "process-group", id: "storage-1", pods: []string{"storage-1", "log-9"}, successor: "storage-2",
		labels: map[string]string{"foundationdb.org/fdb-cluster-name": "main"}, idLabel: "foundationdb.org/fdb-process-group-id",
	},
	{
		section: "CloudNativePG", role: "postgres-instance", id: "main-2", pods: []string{"main-2", "main-1"}, successor: "main-3",
		labels:     map[string]string{"cnpg.io/cluster": "main", "cnpg.io/podRole": "instance", "cnpg.io/instanceRole": "replica"},
		annotation: "alpha.cnpg.io/unrecoverable", undone: true,
	},
}

// replacementByOperators goes through the examples of the page as they stand there: the advice on the missing right, what is patched, what a cancellation
// takes back, and who is taken for the successor. Managers have exactly the rights that usher install --replacement gives them.
func (h *house) replacementByOperators(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/foundationdbclusters.yaml")
	must(t, err)
	h.apply(t, string(text))
	page, err := os.ReadFile("../../docs/operators.md")
	must(t, err)
	for _, o := range operatedExamples {
		t.Run(o.section, func(t *testing.T) {
			t.Parallel()
			h.replacesByOperator(t, &o, string(page))
		})
	}
}

func (h *house) replacesByOperator(t *testing.T, o *operated, page string) {
	t.Helper()
	ns := h.lab.Namespace(t)
	node := h.lab.Nodes(t, 1)[0]
	policy := h.example(t, o, page, ns)
	operator := h.operator(t, ns, policy.Spec.Members[0].Controllers[0])
	for _, name := range o.pods {
		h.operatedPod(t, o, ns, node, name)
	}
	h.lab.WaitReady(t, ns, o.labels, len(o.pods))

	q := h.requestOperated(t, o, ns, policy.Name, "first")
	q = h.waitReplacement(t, ns, q.Name, "the request to say which right is missing", waitsFor("NotRead"))
	at := slices.IndexFunc(q.Status.Blockers, func(b v1alpha1.ReplacementBlocker) bool { return b.Reason == "NotRead" })
	remedy, is := strings.CutPrefix(q.Status.Blockers[at].Remedy, "kubectl ")
	remedy, role, _ := strings.Cut(remedy, "; ")
	if !is || role != "its ClusterRole comes with usher install --replacement" {
		t.Fatalf("the remedy is %q", q.Status.Blockers[at].Remedy)
	}
	if c := h.kubectl(t, strings.Fields(remedy)...); <-c.ended != nil {
		t.Fatalf("kubectl %s: %s", remedy, c.out.String())
	}
	h.waitReplacement(t, ns, q.Name, "the operator to be asked", waitsFor("OperatorAwaited"))
	h.checkAsked(t, o, ns, true)
	if o.undone {
		must(t, h.client.Delete(t.Context(), q))
		h.waitReplacement(t, ns, q.Name, "the request to go", func(q *v1alpha1.ReplacementRequest) bool { return q == nil })
		h.checkAsked(t, o, ns, false)
		q = h.requestOperated(t, o, ns, policy.Name, "second")
		h.waitReplacement(t, ns, q.Name, "the operator to be asked again", waitsFor("OperatorAwaited"))
	}
	must(t, operator.CoreV1().Pods(ns).Delete(t.Context(), o.pods[0], metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	h.waitReplacement(t, ns, q.Name, "the successor to be waited for", waitsFor("SuccessorMissing"))
	h.operatedPod(t, o, ns, node, o.successor)
	q = h.waitReplacement(t, ns, q.Name, "the member to be replaced", isReplaced)
	if q.Status.Successor == nil || q.Status.Successor.PodName != o.successor {
		t.Errorf("the successor is %+v", q.Status.Successor)
	}
}

var inNamespace = regexp.MustCompile(`namespace: [a-z]+`)

// example creates the objects of a section of the page in a namespace, and returns its policy.
func (h *house) example(t *testing.T, o *operated, page, ns string) *v1alpha1.EvictionPolicy {
	t.Helper()
	_, section, _ := strings.Cut(page, "\n## "+o.section+"\n")
	_, section, _ = strings.Cut(section, "```yaml\n")
	text, _, _ := strings.Cut(section, "```")
	text = inNamespace.ReplaceAllString(text, "namespace: "+ns)
	policy := &v1alpha1.EvictionPolicy{}
	for object := range strings.SplitSeq(text, "\n---\n") {
		if !strings.Contains(object, "kind: EvictionPolicy") {
			h.apply(t, object)
			continue
		}
		must(t, yaml.UnmarshalStrict([]byte(object), policy))
	}
	if o.annotation == "" {
		h.apply(t, "{apiVersion: apps.foundationdb.org/v1beta2, kind: FoundationDBCluster, metadata: {name: main, namespace: "+ns+"}, spec: {version: 7.3.63, processGroupsToRemove: [log-7]}}")
	}
	must(t, h.client.Create(t.Context(), policy))
	t.Cleanup(func() { release(t, h.lab, h.client, policy) })
	return policy
}

func (h *house) apply(t *testing.T, text string) {
	t.Helper()
	object := &unstructured.Unstructured{}
	must(t, yaml.Unmarshal([]byte(text), &object.Object))
	must(t, h.client.Create(t.Context(), object))
}

// operator acts as the user that the policy names as the pods' controller.
func (h *house) operator(t *testing.T, ns, user string) kubernetes.Interface {
	t.Helper()
	must(t, h.client.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "operator"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}))
	config := h.lab.RESTConfig()
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	as, err := kubernetes.NewForConfig(config)
	must(t, err)
	return as
}

// operatedPod runs a pod on a node of its test: tests beside it lose theirs.
func (h *house) operatedPod(t *testing.T, o *operated, ns, node, name string) {
	t.Helper()
	h.lab.Pod(t, ns, name, func(p *corev1.Pod) {
		p.Spec.NodeSelector[corev1.LabelHostname] = node
		p.Labels = maps.Clone(o.labels)
		if o.idLabel != "" {
			p.Labels[o.idLabel] = name
		}
	})
}

func (h *house) requestOperated(t *testing.T, o *operated, ns, policy, name string) *v1alpha1.ReplacementRequest {
	t.Helper()
	q := &v1alpha1.ReplacementRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec: v1alpha1.ReplacementRequestSpec{
			Requester: "test.usher.sh/" + name, Source: v1alpha1.ReplacementSource{Kind: v1alpha1.SourceEvictionPolicy, Name: policy},
			Member: v1alpha1.ReplacementMember{Role: o.role, ID: o.id},
		},
	}
	must(t, h.client.Create(t.Context(), q))
	return q
}

// checkAsked looks at what the operator sees.
func (h *house) checkAsked(t *testing.T, o *operated, ns string, asked bool) {
	t.Helper()
	if o.annotation != "" {
		pod, err := h.lab.Client().CoreV1().Pods(ns).Get(t.Context(), o.pods[0], metav1.GetOptions{})
		must(t, err)
		if is := pod.Annotations[o.annotation] == "true"; is != asked {
			t.Errorf("the pod has the annotations %v", pod.Annotations)
		}
		return
	}
	cluster := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps.foundationdb.org/v1beta2", "kind": "FoundationDBCluster"}}
	must(t, h.client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "main"}, cluster))
	list, _, err := unstructured.NestedStringSlice(cluster.Object, "spec", "processGroupsToRemove")
	must(t, err)
	want := []string{"log-7", o.id}
	if diff := cmp.Diff(want, slices.Clone(list)); diff != "" {
		t.Error(diff)
	}
}
