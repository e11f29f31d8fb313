package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/lab/testlab"
)

// another is a UID that nothing in the lab has.
const another types.UID = "11111111-2222-3333-4444-555555555555"

func podNow(t *testing.T, l *testlab.Lab, ns, name string) *corev1.Pod {
	t.Helper()
	pod, err := l.Client().CoreV1().Pods(ns).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func nodeNow(t *testing.T, l *testlab.Lab, name string) *corev1.Node {
	t.Helper()
	node, err := l.Client().CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// runningPod makes a pod and returns its facts once it is ready.
func runningPod(t *testing.T, l *testlab.Lab, ns, name string) *snapshot.Pod {
	t.Helper()
	l.Pod(t, ns, name)
	return observe.PodFacts(l.WaitReady(t, ns, testlab.Labels(name), 1)[0])
}

func answer(t *testing.T, w *act.Writer, a drain.Action, want answers.Code) answers.Answer {
	t.Helper()
	got := w.Do(t.Context(), a)
	if got.Code != want {
		t.Fatalf("%s: got %s (%s), want %s", a.Kind, got.Code, got.Message, want)
	}
	return got
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q does not say %q", text, part)
		}
	}
}

func TestPodActionsInsistOnTheUID(t *testing.T) {
	l := testlab.Get(t)
	ns := l.Namespace(t)
	l.Nodes(t, 1)
	pod := runningPod(t, l, ns, "kept")
	stranger := *pod
	stranger.UID = another
	stranger.CostMark = "d2"
	w := &act.Writer{Client: l.Client()}
	for _, kind := range []drain.Kind{drain.Evict, drain.Delete, drain.LowerCost, drain.RestoreCost} {
		answer(t, w, drain.Action{Kind: kind, Pod: &stranger, Drain: "d1"}, answers.Gone)
	}
	now := podNow(t, l, ns, "kept")
	if now.DeletionTimestamp != nil || len(now.Annotations) != len(podAnnotations(pod)) {
		t.Errorf("the pod was touched: deletion %v, annotations %v", now.DeletionTimestamp, now.Annotations)
	}
}

func podAnnotations(pod *snapshot.Pod) map[string]string {
	found := map[string]string{}
	if pod.DeletionCost != "" {
		found[snapshot.CostAnnotation] = pod.DeletionCost
	}
	return found
}

func TestEvictAndDelete(t *testing.T) {
	l := testlab.Get(t)
	ns := l.Namespace(t)
	l.Nodes(t, 1)
	w := &act.Writer{Client: l.Client()}
	grace := 2 * time.Second
	for _, kind := range []drain.Kind{drain.Evict, drain.Delete} {
		pod := runningPod(t, l, ns, string(kind))
		l.Stick(t, ns, pod.Name)
		action := drain.Action{Kind: kind, Pod: pod, Grace: &grace}

		answer(t, &act.Writer{Client: l.Client(), DryRun: true}, action, answers.Accepted)
		if now := podNow(t, l, ns, pod.Name); now.DeletionTimestamp != nil {
			t.Fatalf("%s: a dry run deleted the pod", kind)
		}
		answer(t, w, action, answers.Accepted)
		now := podNow(t, l, ns, pod.Name)
		if now.DeletionTimestamp == nil || now.DeletionGracePeriodSeconds == nil || *now.DeletionGracePeriodSeconds != 2 {
			t.Errorf("%s: deletion %v with grace %v, want one with 2 s", kind, now.DeletionTimestamp, now.DeletionGracePeriodSeconds)
		}
		l.Unstick(t, ns, pod.Name)
		testlab.WaitFor(t, l.Pods(ns), "the pod to go", func(all []*corev1.Pod) bool { return len(all) == 0 })
		answer(t, w, action, answers.Gone)
	}
}

func TestDeletionCostComesBack(t *testing.T) {
	l := testlab.Get(t)
	ns := l.Namespace(t)
	l.Nodes(t, 1)
	w := &act.Writer{Client: l.Client()}
	for name, former := range map[string]string{"set-before": "7", "unset-before": ""} {
		l.Pod(t, ns, name, func(p *corev1.Pod) {
			if former != "" {
				p.Annotations = map[string]string{snapshot.CostAnnotation: former}
			}
		})
		pod := observe.PodFacts(l.WaitReady(t, ns, testlab.Labels(name), 1)[0]) // until then the scheduler and the kubelet write it too
		answer(t, w, drain.Action{Kind: drain.LowerCost, Pod: pod, Drain: "d1"}, answers.Accepted)
		lowered := observe.PodFacts(podNow(t, l, ns, name))
		if lowered.DeletionCost != "-2147483648" || !strings.HasPrefix(lowered.CostMark, "d1") {
			t.Fatalf("%s: cost %q, mark %q", name, lowered.DeletionCost, lowered.CostMark)
		}
		// A second drain takes the pod over: what the owner had set must survive.
		answer(t, w, drain.Action{Kind: drain.LowerCost, Pod: lowered, Drain: "d2"}, answers.Accepted)
		answer(t, w, drain.Action{Kind: drain.RestoreCost, Pod: observe.PodFacts(podNow(t, l, ns, name))}, answers.Accepted)
		restored := observe.PodFacts(podNow(t, l, ns, name))
		if restored.DeletionCost != former || restored.CostMark != "" {
			t.Errorf("%s: cost %q, mark %q after the restore, want cost %q", name, restored.DeletionCost, restored.CostMark, former)
		}
	}
}

func TestRefusalsOfBudgets(t *testing.T) {
	l := testlab.Get(t)
	ns := l.Namespace(t)
	l.Nodes(t, 1)
	w := &act.Writer{Client: l.Client()}
	pod := runningPod(t, l, ns, "web")
	l.MinAvailable(t, ns, "web", "1")
	l.WaitBudget(t, ns, "web", 1)
	said := answer(t, w, drain.Action{Kind: drain.Evict, Pod: pod}, answers.RefusedByBudget)
	contains(t, said.Message, "budget web needs 1 healthy pods and has 1 currently")

	l.MinAvailable(t, ns, "web-2", "0", func(b *policyv1.PodDisruptionBudget) {
		b.Spec.Selector = &metav1.LabelSelector{MatchLabels: testlab.Labels("web")}
	})
	answer(t, w, drain.Action{Kind: drain.Evict, Pod: pod}, answers.SeveralBudgets)
	if now := podNow(t, l, ns, "web"); now.DeletionTimestamp != nil {
		t.Error("a refused eviction deleted the pod")
	}
}

func TestTerminatingNamespace(t *testing.T) {
	l := testlab.Get(t)
	ns := l.Namespace(t)
	l.Nodes(t, 1)
	pod := runningPod(t, l, ns, "last")
	l.Stick(t, ns, "last")
	if err := l.Client().CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	testlab.WaitFor(t, l.Pods(ns), "the pod to be terminating", func(all []*corev1.Pod) bool {
		return len(all) == 1 && all[0].DeletionTimestamp != nil
	})
	w := &act.Writer{Client: l.Client()}
	answer(t, w, drain.Action{Kind: drain.Evict, Pod: pod}, answers.NamespaceTerminating)
	l.Unstick(t, ns, "last")
}

func TestForbidden(t *testing.T) {
	l := testlab.Get(t)
	ns := l.Namespace(t)
	l.Nodes(t, 1)
	pod := runningPod(t, l, ns, "web")
	config, _ := l.As(t, []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}})
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	said := answer(t, &act.Writer{Client: client}, drain.Action{Kind: drain.Evict, Pod: pod}, answers.Forbidden)
	contains(t, said.Message, "cannot create", "pods/eviction")
}

func TestUnansweredWrite(t *testing.T) {
	l := testlab.Get(t)
	ns := l.Namespace(t)
	l.Nodes(t, 1)
	pod := runningPod(t, l, ns, "web")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := &act.Writer{Client: l.Client()}
	if got := w.Do(ctx, drain.Action{Kind: drain.Evict, Pod: pod}); got.Code != answers.Unavailable {
		t.Errorf("got %+v, want %s", got, answers.Unavailable)
	}
}
