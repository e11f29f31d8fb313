package governed

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/evictionrequest"
	requests "usher.sh/usher/internal/evictionrequest/client"
	"usher.sh/usher/internal/install"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/lab/binaries"
	"usher.sh/usher/lab/testlab"
)

const agentsNamespace = install.DefaultNamespace + "-agent"

// thieves are clients with tokens of the accounts that usher install makes, and a pod on each of two nodes.
type thieves struct {
	*testlab.Lab
	ns, here, there string // here is the node of the agent whose token was taken
}

// TestStolenTokens: a client with a token of an agent or of the manager can do with it what these do, and no more.
func TestStolenTokens(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]testlab.Option{
		"Kubernetes' requests": nil,
		"Usher's requests":     {testlab.WithoutEvictionRequestAPI()},
	} {
		if testing.Short() && options != nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			limited(t, testlab.Start(t, options...), options == nil && binaries.Chosen().EvictionRequestAPI)
		})
	}
}

func limited(t *testing.T, l *testlab.Lab, served bool) {
	t.Helper()
	s := &thieves{Lab: l}
	nodes := s.Nodes(t, 2)
	s.ns, s.here, s.there = s.Namespace(t), nodes[0], nodes[1]
	store, err := client.NewWithWatch(s.RESTConfig(), client.Options{Scheme: runtime.NewScheme()})
	must(t, err)
	objects, err := install.Objects(install.Options{Agent: true, URL: "https://127.0.0.1:1", LifecycleServed: served})
	must(t, err)
	objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "DaemonSet" })
	must(t, install.Cluster{Client: store, Out: io.Discard}.Apply(t.Context(), objects, false))
	on := func(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }
	for _, node := range nodes {
		s.Pod(t, s.ns, "on-"+node, on(node))
	}
	s.Pod(t, agentsNamespace, "agent", on(s.here), func(p *corev1.Pod) { p.Spec.ServiceAccountName = "usher-agent" })
	t.Run("agent", s.agent)
	t.Run("manager", s.manager)
}

// as is a client with a new token of a service account, bound to a pod if one is named.
func (s *thieves) as(t *testing.T, namespace, account, pod string) (kubernetes.Interface, *rest.Config) {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	if pod != "" {
		found, err := s.Client().CoreV1().Pods(namespace).Get(t.Context(), pod, metav1.GetOptions{})
		must(t, err)
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod, UID: found.UID}
	}
	request, err := s.Client().CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account, request, metav1.CreateOptions{})
	must(t, err)
	config := rest.AnonymousClientConfig(s.RESTConfig())
	config.BearerToken = request.Status.Token
	c, err := kubernetes.NewForConfig(config)
	must(t, err)
	return c, config
}

// tried is for what must not change anything where it gets through: a policy that is new takes effect a moment later, and a
// change that was made already is none.
var tried = metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}

func (s *thieves) patchPod(c kubernetes.Interface, node, patch string) func(*testing.T) error {
	return func(t *testing.T) error {
		t.Helper()
		_, err := c.CoreV1().Pods(s.ns).Patch(t.Context(), "on-"+node, types.StrategicMergePatchType, []byte(patch), tried)
		return err
	}
}

func (s *thieves) patchNode(c kubernetes.Interface, node, patch string, subresources ...string) func(*testing.T) error {
	return func(t *testing.T) error {
		t.Helper()
		_, err := c.CoreV1().Nodes().Patch(t.Context(), node, types.StrategicMergePatchType, []byte(patch), tried, subresources...)
		return err
	}
}

// denied fails unless an admission policy refuses with these words. Policies take effect a moment after they were created.
func denied(t *testing.T, what, says string, do func(*testing.T) error) {
	t.Helper()
	var err error
	eventually(t, what+" to be refused", func() bool {
		err = do(t)
		return err != nil
	})
	if !apierrors.IsForbidden(err) && !isCode(err, http.StatusUnprocessableEntity) || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: %v, want %q", what, err, says)
	}
}

func isCode(err error, code int32) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code == code
}

const (
	otherImage = `{"spec":{"containers":[{"name":"main","image":"evil"}]}}`
	breakGlass = `{"metadata":{"annotations":{"usher.sh/break-glass":"fire"}}}`
)

func (s *thieves) agent(t *testing.T) {
	c, config := s.as(t, agentsNamespace, "usher-agent", "agent")
	image := strings.Replace(otherImage, "main", s.container(t), 1)
	denied(t, "another image on its node", "may not change the spec", s.patchPod(c, s.here, image))
	denied(t, "another image elsewhere", "pods of its own node only", s.patchPod(c, s.there, image))
	denied(t, "an annotation elsewhere", "pods of its own node only", s.patchPod(c, s.there, breakGlass))
	denied(t, "a label", "may change the annotation", s.patchPod(c, s.here, `{"metadata":{"labels":{"usher.sh/policy":"x"}}}`))
	denied(t, "an annotation of another", "may change the annotation", s.patchPod(c, s.here, `{"metadata":{"annotations":{"a":"b"}}}`))
	denied(t, "a finalizer", "may change the annotation", s.patchPod(c, s.here, `{"metadata":{"finalizers":["example.com/a"]}}`))
	denied(t, "a DELETE elsewhere", "pods of its own node only", func(t *testing.T) error {
		t.Helper()
		return c.CoreV1().Pods(s.ns).Delete(t.Context(), "on-"+s.there, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	})
	taint := `{"spec":{"taints":[{"key":"usher.sh/memory-pressure","effect":"NoSchedule"}]}}`
	denied(t, "a taint elsewhere", "its own node only", s.patchNode(c, s.there, taint))
	denied(t, "a taint of another", "taints of usher.sh/ only", s.patchNode(c, s.here, `{"spec":{"taints":[{"key":"a","effect":"NoExecute"}]}}`))
	denied(t, "a cordon", "taints of usher.sh/ only", s.patchNode(c, s.here, `{"spec":{"unschedulable":true}}`))
	denied(t, "a node's label", "metadata of its node", s.patchNode(c, s.here, `{"metadata":{"labels":{"a":"b"}}}`))
	denied(t, "a node's condition", "conditions of usher.sh/ only", s.patchNode(c, s.here, `{"status":{"conditions":[{"type":"Example","status":"True"}]}}`, "status"))
	denied(t, "what a node has", "conditions of usher.sh/ only", s.patchNode(c, s.here, `{"status":{"capacity":{"example.com/gpu":"8"}}}`, "status"))
	denied(t, "another requester's request", "pressure.usher.sh/agent only", func(t *testing.T) error {
		t.Helper()
		wanted := evictionrequest.NewRequest(s.ref(t, s.here), "example.com/mine")
		rest, err := requests.New(config).REST(t.Context())
		must(t, err)
		return rest.Post().Namespace(s.ns).Resource("evictionrequests").VersionedParams(&metav1.CreateOptions{DryRun: tried.DryRun}, metav1.ParameterCodec).
			Body(wanted).Do(t.Context()).Error()
	})
	free, _ := s.as(t, agentsNamespace, "usher-agent", "")
	denied(t, "a token of no node, a pod", "pods of its own node only", s.patchPod(free, s.here, breakGlass))
	denied(t, "a token of no node, a node", "its own node only", s.patchNode(free, s.here, taint))
	s.agentsWork(t, c, config)
}

// agentsWork is what an agent does, by its own code.
func (s *thieves) agentsWork(t *testing.T, c kubernetes.Interface, config *rest.Config) {
	t.Helper()
	agent := &act.Pressure{Writer: &act.Writer{Client: c, Evictions: requests.New(config), OwnRequests: true}, Node: s.here}
	pod := &snapshot.Pod{Namespace: s.ns, Name: "on-" + s.here, UID: s.ref(t, s.here).UID}
	accepted := func(what string, answer answers.Answer) {
		t.Helper()
		if answer.Code != answers.Accepted {
			t.Errorf("%s: %s: %s", what, answer.Code, answer.Message)
		}
	}
	accepted("conditions and taints", agent.Show(t.Context(), act.NodeSays{At: time.Now(), True: []corev1.NodeConditionType{corev1.NodeMemoryPressure}}))
	accepted("no more of them", agent.Show(t.Context(), act.NodeSays{At: time.Now()}))
	accepted("a request", agent.Ask(t.Context(), pod))
	accepted("its end", agent.Withdraw(t.Context(), pod))
	accepted("the annotation", agent.BreakGlass(t.Context(), pod, "fire", false))
	accepted("the annotation anew", agent.BreakGlass(t.Context(), pod, "flood", false))
	if answer := agent.Unbreak(t.Context(), pod, "fire"); answer.Code != answers.Rejected {
		t.Errorf("the removal of another value: %s: %s", answer.Code, answer.Message)
	}
	accepted("its removal", agent.Unbreak(t.Context(), pod, "flood"))
	s.keepsAPersonsReason(t, agent, pod)
	accepted("a condition", agent.Disrupted(t.Context(), pod, time.Now(), "memory"))
	accepted("a removal", agent.Remove(t.Context(), pod, time.Second))
}

// keepsAPersonsReason: what a person wrote lets the pod through, and neither goes nor changes on account of an agent.
func (s *thieves) keepsAPersonsReason(t *testing.T, agent *act.Pressure, pod *snapshot.Pod) {
	t.Helper()
	pods := s.Client().CoreV1().Pods(pod.Namespace)
	_, err := pods.Patch(t.Context(), pod.Name, types.MergePatchType, []byte(breakGlass), metav1.PatchOptions{})
	must(t, err)
	if answer := agent.BreakGlass(t.Context(), pod, "flood", false); answer.Code != answers.Conflict {
		t.Errorf("the annotation over a person's: %s: %s", answer.Code, answer.Message)
	}
	now, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
	must(t, err)
	if now.Annotations["usher.sh/break-glass"] != "fire" {
		t.Errorf("a person's reason has become %q", now.Annotations["usher.sh/break-glass"])
	}
}

func (s *thieves) manager(t *testing.T) {
	c, _ := s.as(t, install.DefaultNamespace, "usher-manager", "")
	image := strings.Replace(otherImage, "main", s.container(t), 1)
	namespace := func(patch string) func(*testing.T) error {
		return func(t *testing.T) error {
			t.Helper()
			_, err := c.CoreV1().Namespaces().Patch(t.Context(), s.ns, types.MergePatchType, []byte(patch), tried)
			return err
		}
	}
	denied(t, "another image", "how long it tolerates a node that is not ready or unreachable only", s.patchPod(c, s.there, image))
	denied(t, "another label", "its deletion cost, and the record usher.sh/tolerations only", s.patchPod(c, s.there, `{"metadata":{"labels":{"a":"b"}}}`))
	denied(t, "an annotation", "its deletion cost, and the record usher.sh/tolerations only", s.patchPod(c, s.there, breakGlass))
	denied(t, "a namespace's label", "usher.sh/governed of a namespace only", namespace(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`))
	denied(t, "a namespace's annotation", "usher.sh/governed of a namespace only", namespace(`{"metadata":{"annotations":{"a":"b"}}}`))
	s.managersWebhooks(t, c)
	s.managersNodes(t, c)
	for _, value := range []string{`"db"`, `null`} {
		must(t, s.patchPod(c, s.there, `{"metadata":{"labels":{"usher.sh/audit":`+value+`,"usher.sh/policy":`+value+`}}}`)(t))
		must(t, namespace(`{"metadata":{"labels":{"usher.sh/audited":`+value+`,"usher.sh/governed":`+value+`}}}`)(t))
	}
}

// managersNodes: without the role for lost nodes none, with it the taint of nodes that are off, and what maintenances write.
func (s *thieves) managersNodes(t *testing.T, c kubernetes.Interface) {
	t.Helper()
	off := `{"spec":{"taints":[{"key":"node.kubernetes.io/out-of-service","value":"usher","effect":"NoExecute"}]}}`
	denied(t, "a node without the role", `cannot patch resource "nodes"`, s.patchNode(c, s.there, off))
	bindings := s.Client().RbacV1().ClusterRoleBindings()
	bound, err := bindings.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "usher-lost-nodes-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "usher-lost-nodes"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: install.DefaultNamespace, Name: "usher-manager"}},
	}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		must(t, bindings.Delete(context.WithoutCancel(t.Context()), bound.Name, metav1.DeleteOptions{}))
	})
	eventually(t, "the role to be seen", func() bool { return s.patchNode(c, s.there, off)(t) == nil })
	const taints, rest = "that usher.sh/marks names, none of Kubernetes, autoscalers and Usher among them", "what is called usher.sh/drain and usher.sh/marks only"
	denied(t, "another taint", taints, s.patchNode(c, s.there, `{"spec":{"taints":[{"key":"a","effect":"NoExecute"}]}}`))
	denied(t, "a person's word", taints, s.patchNode(c, s.there, strings.Replace(off, `"usher"`, `"anna"`, 1)))
	denied(t, "a node's label", rest, s.patchNode(c, s.there, `{"metadata":{"labels":{"a":"b"}}}`))
	denied(t, "a node's annotation", rest, s.patchNode(c, s.there, `{"metadata":{"annotations":{"a":"b"}}}`))
	denied(t, "a node's finalizer", rest, s.patchNode(c, s.there, `{"metadata":{"finalizers":["example.com/a"]}}`))
	denied(t, "a node's machine", rest, s.patchNode(c, s.there, `{"spec":{"providerID":"evil://1"}}`))
}

// managersWebhooks: its certificate's authorities, and nothing else that decides what the apiserver sends where.
func (s *thieves) managersWebhooks(t *testing.T, c kubernetes.Interface) {
	t.Helper()
	for kind, patch := range map[string]func(patch string) error{
		"a validating webhook": func(patch string) error {
			_, err := c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Patch(t.Context(), "usher", types.JSONPatchType, []byte(patch), tried)
			return err
		},
		"a mutating webhook": func(patch string) error {
			_, err := c.AdmissionregistrationV1().MutatingWebhookConfigurations().Patch(t.Context(), "usher", types.JSONPatchType, []byte(patch), tried)
			return err
		},
	} {
		for what, forbidden := range map[string]string{
			"the URL":      `[{"op":"replace","path":"/webhooks/0/clientConfig/url","value":"https://evil.example.com/"}]`,
			"the rules":    `[{"op":"replace","path":"/webhooks/0/rules/0/resources","value":["*"]}]`,
			"the patience": `[{"op":"replace","path":"/webhooks/0/timeoutSeconds","value":1}]`,
			"conditions":   `[{"op":"add","path":"/webhooks/0/matchConditions","value":[{"name":"a","expression":"false"}]}]`,
			"the removal":  `[{"op":"remove","path":"/webhooks"}]`,
			"another one":  `[{"op":"copy","from":"/webhooks/0","path":"/webhooks/-"},{"op":"replace","path":"/webhooks/0/name","value":"z.example.com"}]`,
		} {
			denied(t, kind+": "+what, "caBundle of a webhook only", func(*testing.T) error { return patch(forbidden) })
		}
		if err := patch(`[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"AAAA"}]`); err != nil {
			t.Errorf("%s: the authorities: %v", kind, err)
		}
	}
}

func (s *thieves) ref(t *testing.T, node string) evictionrequest.Ref {
	t.Helper()
	pod, err := s.Client().CoreV1().Pods(s.ns).Get(t.Context(), "on-"+node, metav1.GetOptions{})
	must(t, err)
	return evictionrequest.Ref{Namespace: s.ns, Name: pod.Name, UID: pod.UID}
}

// container is the name of the only container of the pods here.
func (s *thieves) container(t *testing.T) string {
	t.Helper()
	pod, err := s.Client().CoreV1().Pods(s.ns).Get(t.Context(), "on-"+s.there, metav1.GetOptions{})
	must(t, err)
	return pod.Spec.Containers[0].Name
}
