package governed

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/testlab"
)

// truth is a system of which the test says whether its members may go.
type truth struct {
	server *httptest.Server

	mu    sync.Mutex
	green bool
	hang  chan struct{} // closed: answer again
}

func newTruth(t *testing.T) *truth {
	t.Helper()
	s := &truth{}
	s.server = httptest.NewUnstartedServer(s)
	s.server.Config.BaseContext = func(net.Listener) context.Context { return t.Context() }
	s.server.Start()
	t.Cleanup(s.server.Close)
	return s
}

// ServeHTTP says whether the system is green.
func (s *truth) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	green, hang := s.green, s.hang
	s.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-r.Context().Done():
			return
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]bool{"green": green})
}

func (s *truth) set(green bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.green = green
}

// stuck makes the system hang until the returned function is called.
func (s *truth) stuck() (free func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hang := make(chan struct{})
	s.hang = hang
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.hang = nil
		close(hang)
	}
}

// maxAge is how old what the system has said may be when it decides: more than answering takes on a busy machine.
const maxAge = 2 * time.Second

// stage is a lab with managers and a governed namespace whose pods app=db may go while the truth is green.
type stage struct {
	*testlab.Lab

	managers *testlab.Managers
	client   client.Client
	truth    *truth
	ns       string
	nodes    []string
}

// newStage returns with the policy in force. Its lab is the package's, whose managers it starts: one test has that.
func newStage(t *testing.T) *stage {
	t.Helper()
	l := testlab.Get(t)
	scheme := runtime.NewScheme()
	must(t, clientgoscheme.AddToScheme(scheme))
	must(t, v1alpha1.AddToScheme(scheme))
	c, err := client.New(l.RESTConfig(), client.Options{Scheme: scheme})
	must(t, err)
	s := &stage{Lab: l, managers: l.Managers(t, 2), client: c}
	return s.another(t)
}

// another is a stage on the same lab with the same managers, and with a policy of its own.
func (s *stage) another(t *testing.T, mutate ...func(*v1alpha1.EvictionPolicy)) *stage {
	t.Helper()
	l, c := s.Lab, s.client
	s = &stage{Lab: l, managers: s.managers, client: c, truth: newTruth(t), nodes: l.Nodes(t, 2), ns: l.Namespace(t)}
	policy := examplePolicy(s.ns, "db")
	policy.Spec.System.HTTP.Endpoints = []string{s.truth.server.URL}
	policy.Spec.System.HTTP.Facts = []v1alpha1.Get{{Name: "health", URL: "/health"}}
	policy.Spec.Evidence.MaxAge = metav1.Duration{Duration: maxAge}
	policy.Spec.Evidence.Timeout = metav1.Duration{Duration: 20 * time.Second} // longer than admission may take
	policy.Spec.Roles[0].Evict.Rules[0].Expression = "system.health.green"
	policy.Spec.Roles[0].Evict.Rules[0].Message = "the database is not green"
	policy.Spec.Roles[0].Tolerations.Unreachable = &v1alpha1.Toleration{Forever: true}
	for _, m := range mutate {
		m(policy)
	}
	must(t, c.Create(t.Context(), policy))
	t.Cleanup(func() { release(t, l, c, policy) })
	namespaces := await.Source[*corev1.Namespace]{Client: l.Client().CoreV1().RESTClient(), Resource: "namespaces"}
	testlab.WaitFor(t, namespaces, s.ns+" to be governed", func(all []*corev1.Namespace) bool {
		for _, n := range all {
			if n.Name == s.ns {
				return n.Labels[v1alpha1.GovernedLabel] == "true"
			}
		}
		return false
	})
	// The label takes effect a moment after it was written, and a replica may be behind.
	eventually(t, "pods of "+s.ns+" to be marked", func() bool { return tryPod(t, l, s.ns).Labels[v1alpha1.PolicyLabel] == "db" })
	return s
}

// tryPod returns what would become of a pod of the workload db, which is not created.
func tryPod(t *testing.T, l *testlab.Lab, ns string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "tried", Labels: testlab.Labels("db")},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "lab.usher.sh/none"}}},
	}
	pod, err := l.Client().CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	must(t, err)
	return pod
}

func (s *stage) policy(t *testing.T) *v1alpha1.EvictionPolicy {
	t.Helper()
	var policy v1alpha1.EvictionPolicy
	must(t, s.client.Get(t.Context(), client.ObjectKey{Namespace: s.ns, Name: "db"}, &policy))
	return &policy
}
