package e2e

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/lab/testlab"
)

// advised is the command in a message that grants what is missing.
var advised = regexp.MustCompile(`kubectl create role .*? \| kubectl apply -f - && kubectl create rolebinding .*? \| kubectl apply -f -`)

// TestWhyInOneNamespace asks as a user without any right, follows the advice, and asks again: the answer is that of an admin, by fewer than
// ten small requests. The node is not in the namespace, and unknown.
func TestWhyInOneNamespace(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Deployment(t, s.ns, "web", 3)
	s.MaxUnavailable(t, s.ns, "web", "0")
	s.settled(t, 3)
	pod := s.WaitReady(t, s.ns, testlab.Labels("web"), 3)[0].Name
	user, kubeconfig := s.tenant(t)

	r := usherIn(t, kubeconfig, "why", pod, "-n", s.ns).wantCode(t, 1)
	command := advised.FindString(r.Err)
	if command == "" {
		t.Fatalf("no advice: %s", r.Err)
	}
	grant := exec.CommandContext(t.Context(), "sh", "-c", command)
	grant.Env = append(environment(s.Kubeconfig()), "PATH="+filepath.Dir(s.Binary(t, "kubectl"))+":/usr/bin:/bin")
	if out, err := grant.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	before := s.RequestsOf(t, user)
	r = usherIn(t, kubeconfig, "why", pod, "-n", s.ns)
	for r.Code == 1 && strings.Contains(r.Err, "forbidden") { // the authorizer has not seen the role yet
		before = s.RequestsOf(t, user)
		r = usherIn(t, kubeconfig, "why", pod, "-n", s.ns)
	}
	r.wantCode(t, 2).says(t, "budget web can never allow it")

	made := since(s.RequestsOf(t, user), before)
	if made.Total() >= 10 {
		t.Errorf("%d requests: %v", made.Total(), made)
	}
	for kind := range made {
		if kind.Verb != "list" {
			t.Errorf("it makes a request to %s %s", kind.Verb, kind.Resource)
		}
	}
}

// since returns the requests that were made after those before.
func since(made, before testlab.Requests) testlab.Requests {
	for kind, n := range before {
		if made[kind] -= n; made[kind] == 0 {
			delete(made, kind)
		}
	}
	return made
}

// tenant makes a user who has no rights, and returns the name.
func (s *stage) tenant(t *testing.T) (user, kubeconfig string) {
	t.Helper()
	config, kubeconfig := s.As(t, nil)
	return nameOf(t, config), kubeconfig
}

func nameOf(t *testing.T, config *rest.Config) string {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	self, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return self.Status.UserInfo.Username
}

// TestUncordonWithRightsOnNodes gives a node back as a user who may do no more than read and patch nodes.
func TestUncordonWithRightsOnNodes(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	usher(t, "drain", s.node).wantCode(t, 0)
	config, kubeconfig := s.As(t, []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "patch"}}})
	user := nameOf(t, config)
	usherIn(t, kubeconfig, "uncordon", s.node+"x").wantCode(t, 1).says(t, "did you mean "+s.node)
	before := s.RequestsOf(t, user)
	usherIn(t, kubeconfig, "uncordon", s.node).wantCode(t, 0).says(t, "uncordoned").says(t, "is not looked for on deployments.apps, horizontalpodautoscalers.autoscaling, pods")
	if s.cordoned(t) || s.note(t) != nil {
		t.Error("the node is not given back")
	}
	made := since(s.RequestsOf(t, user), before)
	if made.Total() >= 12 {
		t.Errorf("%d requests: %v", made.Total(), made)
	}
	usherIn(t, kubeconfig, "uncordon", "-l", "kubernetes.io/hostname="+s.node).wantCode(t, 0).says(t, "it is schedulable")
}

// TestUncordonBesideATenantsLabel gives a node back although something has the label of what killed drains leave, and not all may be read
// that would have to be.
func TestUncordonBesideATenantsLabel(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	usher(t, "drain", s.node).wantCode(t, 0)
	s.Pod(t, s.ns, "claims", func(p *corev1.Pod) { p.Labels[snapshot.SurgeLabel] = "mine" })
	_, kubeconfig := s.As(t, []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}},
	})
	usherIn(t, kubeconfig, "uncordon", s.node).wantCode(t, 0).says(t, "uncordoned").says(t, "is not looked for on deployments.apps")
}

func TestWhyNames(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Deployment(t, s.ns, "web", 2)
	s.settled(t, 2)
	usher(t, "why", "deployment/web", "-n", s.ns).wantCode(t, 0)
	usher(t, "why", "deployment/wob", "-n", s.ns).wantCode(t, 1).says(t, "did you mean web?")
	usher(t, "why", "-l", "app=wob", "-n", s.ns).wantCode(t, 1).says(t, "no pod with the labels")
	pod := s.names(t)[0]
	usher(t, "why", pod).wantCode(t, 1).says(t, "but namespace "+s.ns+" has one")
	usher(t, "why", pod+"x", "-n", s.ns).wantCode(t, 1).says(t, "did you mean "+pod)
}
