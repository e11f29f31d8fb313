package governed

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
)

// turn makes the system green or not, and waits until every replica's verdict on the pod follows. The answers may all come
// from one of them, but none goes by what the system has said longer ago than the policy allows.
func (s *stage) turn(t *testing.T, green bool, pod string) {
	t.Helper()
	s.truth.set(green)
	set := time.Now()
	want := eviction.Blocked
	if green {
		want = eviction.Allowed
	}
	inARow := 0
	eventually(t, "the verdict on "+pod+" to become "+string(want), func() bool {
		inARow++
		if s.ask(t, pod).Answer != want {
			inARow = 0
		}
		return inARow >= 8 && time.Since(set) > maxAge
	})
}

// eventually polls, for what cannot be watched.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 5*time.Minute, true, func(context.Context) (bool, error) { return done(), nil })
	if err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

// ask asks for the verdict on a pod.
func (s *stage) ask(t *testing.T, pod string) eviction.Verdict {
	t.Helper()
	err := s.Client().PolicyV1().Evictions(s.ns).Evict(t.Context(), &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: s.ns, Name: pod, Annotations: map[string]string{v1alpha1.VerdictAnnotation: "evict"}},
		DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}},
	})
	verdict, ok := eviction.ReadAnswer(causes(t, err))
	if !ok {
		t.Fatalf("no answer about %s: %v", pod, err)
	}
	return verdict
}

func causes(t *testing.T, err error) []metav1.StatusCause {
	t.Helper()
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		t.Fatalf("no refusal with causes: %v", err)
	}
	return status.Status().Details.Causes
}

// refused fails unless the error is a refusal that says so.
func refused(t *testing.T, what string, err error, says string) {
	t.Helper()
	if !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: %v; want 429 with %q", what, err, says)
	}
}

// result is a command that has ended.
type result struct {
	code int
	out  string
}

// kubectl runs the lab's kubectl to its end.
func (s *stage) kubectl(t *testing.T, args ...string) result {
	t.Helper()
	return run(t, s.Binary(t, "kubectl"), append([]string{"--kubeconfig", s.Kubeconfig()}, args...)...)
}

func run(t *testing.T, program string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("running %s %v: %v\n%s", program, args, err, out.String())
	}
	return result{cmd.ProcessState.ExitCode(), out.String()}
}

func (r result) says(t *testing.T, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(r.out, part) {
			t.Errorf("exit code %d without %q:\n%s", r.code, part, r.out)
		}
	}
}

// pod reads a pod; nil if there is none.
func (s *stage) pod(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	p, err := s.Client().CoreV1().Pods(s.ns).Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(t, err)
	return p
}
