package e2e

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/lab/testlab"
)

var (
	noon  = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	owner = snapshot.Drainer{ID: "d1", By: "me@here", PID: 7, Beat: noon}
)

func TestNodeActions(t *testing.T) {
	l := testlab.Get(t)
	name := l.Nodes(t, 1)[0]
	w := &act.Writer{Client: l.Client()}
	record := &snapshot.DrainRecord{Drainer: owner, Why: "kernel", Since: noon, Cordoned: true, State: "draining"}
	facts := func() *snapshot.Node { return observe.NodeFacts(nodeNow(t, l, name)) }
	read := func(a *drain.Action) { a.Node = facts() }

	before := facts()
	wrong := *before
	wrong.ResourceVersion = "1"
	for _, kind := range []drain.Kind{drain.Cordon, drain.Uncordon, drain.Unmark} {
		answer(t, w, drain.Action{Kind: kind, Node: &wrong, Record: record}, answers.Conflict)
	}
	stranger := *before
	stranger.UID = another
	answer(t, w, drain.Action{Kind: drain.Mark, Node: &stranger, Record: record}, answers.Gone)
	if now := facts(); now.Unschedulable || now.Drain != nil {
		t.Fatalf("a refused write changed the node: %+v", now)
	}

	fresh(t, w, drain.Action{Kind: drain.Cordon, Record: record}, answers.Accepted, read)
	if now := facts(); !now.Unschedulable || !cmp.Equal(now.Drain, record) {
		t.Errorf("cordon: unschedulable %v, record %+v", now.Unschedulable, now.Drain)
	}
	record.State = "drained"
	stale := *before
	answer(t, w, drain.Action{Kind: drain.Mark, Node: &stale, Record: record}, answers.Accepted)
	if now := facts(); !now.Unschedulable || !cmp.Equal(now.Drain, record) {
		t.Errorf("mark: unschedulable %v, record %+v", now.Unschedulable, now.Drain)
	}
	fresh(t, w, drain.Action{Kind: drain.Unmark}, answers.Accepted, read)
	if now := facts(); !now.Unschedulable || now.Drain != nil {
		t.Errorf("unmark: unschedulable %v, record %+v", now.Unschedulable, now.Drain)
	}
	fresh(t, w, drain.Action{Kind: drain.Uncordon}, answers.Accepted, read)
	if now := facts(); now.Unschedulable || now.Drain != nil {
		t.Errorf("uncordon: unschedulable %v, record %+v", now.Unschedulable, now.Drain)
	}
}

// fresh acts on the present state of an object that another client writes as well.
func fresh(t *testing.T, w *act.Writer, a drain.Action, want answers.Code, read func(*drain.Action)) {
	t.Helper()
	for {
		read(&a)
		got := w.Do(t.Context(), a)
		if got.Code == answers.Conflict {
			continue
		}
		if got.Code != want {
			t.Fatalf("%s: got %s (%s), want %s", a.Kind, got.Code, got.Message, want)
		}
		return
	}
}

func TestScale(t *testing.T) {
	l := testlab.Get(t)
	ns := l.Namespace(t)
	l.Nodes(t, 1)
	w := &act.Writer{Client: l.Client()}
	l.Deployment(t, ns, "web", 2)
	l.WaitReady(t, ns, testlab.Labels("web"), 2)
	read := func() (*appsv1.Deployment, *snapshot.Workload) {
		d, err := l.Client().AppsV1().Deployments(ns).Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return d, observe.DeploymentFacts(d)
	}
	surge := &snapshot.SurgeRecord{Drainer: owner, Was: 2, To: 3, Since: noon, Step: noon}

	_, facts := read()
	wrong := *facts
	wrong.ResourceVersion = "1"
	answer(t, w, drain.Action{Kind: drain.Scale, Workload: &wrong, Replicas: 3, Surge: surge}, answers.Conflict)
	fresh(t, w, drain.Action{Kind: drain.Scale, Replicas: 3, Surge: surge}, answers.Gone, func(a *drain.Action) {
		_, a.Workload = read()
		a.Workload.UID = another
	})

	fresh(t, w, drain.Action{Kind: drain.Scale, Replicas: 3, Surge: surge}, answers.Accepted, func(a *drain.Action) { _, a.Workload = read() })
	object, facts := read()
	if facts.Replicas != 3 || !cmp.Equal(facts.Surge, surge) || object.Labels[snapshot.SurgeLabel] == "" {
		t.Errorf("surged: %+v, labels %v", facts, object.Labels)
	}
	fresh(t, w, drain.Action{Kind: drain.Scale, Replicas: 2}, answers.Accepted, func(a *drain.Action) { _, a.Workload = read() })
	object, facts = read()
	if _, labelled := object.Labels[snapshot.SurgeLabel]; facts.Replicas != 2 || facts.Surge != nil || labelled {
		t.Errorf("reverted: %+v, labels %v", facts, object.Labels)
	}
}

func TestScaleMin(t *testing.T) {
	l := testlab.Get(t)
	ns := l.Namespace(t)
	w := &act.Writer{Client: l.Client()}
	api := l.Client().AutoscalingV2().HorizontalPodAutoscalers(ns)
	_, err := api.Create(t.Context(), &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
			MinReplicas:    ptr.To[int32](2), MaxReplicas: 5,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	read := func() *snapshot.Autoscaler {
		h, err := api.Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return observe.AutoscalerFacts(h)
	}
	surge := &snapshot.SurgeRecord{Drainer: owner, Was: 2, To: 3, Since: noon, Step: noon}
	wrong := *read()
	wrong.ResourceVersion = "1"
	answer(t, w, drain.Action{Kind: drain.ScaleMin, Autoscaler: &wrong, Replicas: 3, Surge: surge}, answers.Conflict)

	fresh(t, w, drain.Action{Kind: drain.ScaleMin, Replicas: 3, Surge: surge}, answers.Accepted, func(a *drain.Action) { a.Autoscaler = read() })
	if facts := read(); facts.Min != 3 || !cmp.Equal(facts.Surge, surge) {
		t.Errorf("surged: %+v", facts)
	}
	fresh(t, w, drain.Action{Kind: drain.ScaleMin, Replicas: 2}, answers.Accepted, func(a *drain.Action) { a.Autoscaler = read() })
	if facts := read(); facts.Min != 2 || facts.Surge != nil {
		t.Errorf("reverted: %+v", facts)
	}
}
