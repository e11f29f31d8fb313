package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
)

var errMayNot = errors.New("eva may not")

// surgedSince is a Deployment of which a drain of root@vm gave a last sign of life so long ago, scaled from 1 to 2, and its pod.
func surgedSince(t *testing.T, beat time.Duration, replicas int32) []runtime.Object {
	t.Helper()
	begun := time.Now().Add(-beat)
	who := snapshot.Drainer{ID: "killed", By: "root@vm", Beat: begun}
	record, err := json.Marshal(snapshot.SurgeRecord{Drainer: who, Was: 1, To: 2, Since: begun, Step: begun})
	if err != nil {
		t.Fatal(err)
	}
	controller := true
	return []runtime.Object{
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a"}},
		&appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: "web", UID: "web", ResourceVersion: "1",
				Labels: map[string]string{snapshot.SurgeLabel: "killed"}, Annotations: map[string]string{snapshot.SurgeAnnotation: string(record)},
			},
			Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		},
		&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: "web-1", UID: "web-1",
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "rs", Controller: &controller}},
			},
			Spec: corev1.PodSpec{NodeName: "a"}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
		},
	}
}

func TestRevertSaysWhatItDoesNotUndo(t *testing.T) {
	tests := []struct {
		name     string
		beat     time.Duration
		replicas int32
		hidden   string // what may not be listed
		unserved bool   // or is not served
		code     int
		says     []string
	}{
		{name: "a surge of a killed drain", beat: time.Hour, replicas: 2, says: []string{"shop/web scaled down to 1 replica", "no surge of a killed drain is left"}},
		{name: "scaled since", beat: time.Hour, replicas: 5, says: []string{"Deployment shop/web keeps the 5 replicas to which it was scaled since its surge, whose record was removed", "no surge of a killed drain is left"}},
		{name: "Deployments cannot be read", beat: time.Hour, replicas: 2, hidden: "deployments", code: exitBlocked, says: []string{
			"deployments cannot be read, so whether a surge of a Deployment is left is not known; it takes the right to list and watch deployments.apps:", "may not",
		}},
		{name: "autoscalers cannot be read", beat: time.Hour, replicas: 2, hidden: "horizontalpodautoscalers", code: exitBlocked, says: []string{"horizontalpodautoscalers cannot be read, so whether a raised minReplicas is left is not known"}},
		{name: "autoscalers are not served", beat: time.Hour, replicas: 2, hidden: "horizontalpodautoscalers", unserved: true, says: []string{"no surge of a killed drain is left"}},
		{name: "its drain may still be running", beat: 20 * time.Second, replicas: 2, code: exitBlocked, says: []string{
			"left alone: the surge of Deployment shop/web, of the drain of root@vm that may still be running; its last sign of life was ",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client := fake.NewClientset(surgedSince(t, tt.beat, tt.replicas)...)
			client.PrependReactor("list", tt.hidden, func(clienttesting.Action) (bool, runtime.Object, error) {
				resource := schema.GroupResource{Resource: tt.hidden}
				if tt.unserved {
					return true, nil, apierrors.NewNotFound(resource, "")
				}
				return tt.hidden != "", nil, apierrors.NewForbidden(resource, "", errMayNot)
			})
			for _, output := range []string{"text", "json"} {
				code, out := revertOn(t, client, output)
				if code != tt.code {
					t.Errorf("exit %d, want %d", code, tt.code)
				}
				if output == "text" {
					for _, want := range tt.says {
						if !strings.Contains(out, want) {
							t.Errorf("no %q in\n%s", want, out)
						}
					}
				}
				lines := strings.Split(strings.TrimSpace(out), "\n")
				if last := lines[len(lines)-1]; output == "json" && !strings.HasPrefix(last, `{"type":"end"`) {
					t.Errorf("the last line for programs is %s", last)
				}
				if claims := strings.Contains(out, "no surge of a killed drain is left"); claims != (tt.code == exitDone) {
					t.Errorf("says that nothing is left: %v\n%s", claims, out)
				}
			}
		})
	}
}

// sessionOn reads a cluster of which the server takes patches of Deployments and nodes.
func sessionOn(t *testing.T, client *fake.Clientset) *session {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		body = bytes.ReplaceAll(body, []byte(`"resourceVersion":"1"`), []byte(`"resourceVersion":"2"`))
		switch {
		case r.Method == http.MethodDelete:
			err = client.CoordinationV1().Leases(snapshot.LeaseNamespace).Delete(r.Context(), path.Base(r.URL.Path), metav1.DeleteOptions{})
		case err != nil || r.Method != http.MethodPatch:
		case strings.HasPrefix(r.URL.Path, "/api/v1/nodes/"):
			_, err = client.CoreV1().Nodes().Patch(r.Context(), path.Base(r.URL.Path), types.MergePatchType, body, metav1.PatchOptions{})
		default:
			_, err = client.AppsV1().Deployments("shop").Patch(r.Context(), path.Base(r.URL.Path), types.MergePatchType, body, metav1.PatchOptions{})
		}
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Success"}`))
	}))
	t.Cleanup(server.Close)
	return sessionThrough(t, client, &rest.Config{Host: server.URL})
}

// sessionThrough reads a cluster and writes to what the configuration leads to.
func sessionThrough(t *testing.T, client *fake.Clientset, config *rest.Config) *session {
	t.Helper()
	writes, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	clock := &observe.Clock{}
	source, err := observe.Start(t.Context(), client, observe.Options{Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	return &session{connection: &connection{client: writes, clock: clock}, source: source, host: thisHost()}
}

// revertOn runs usher drain --revert, and returns its exit code and what it prints.
func revertOn(t *testing.T, client *fake.Clientset, output string) (code int, printed string) {
	t.Helper()
	s := sessionOn(t, client)
	defer s.close()
	return revertIn(t.Context(), s, output)
}

// revertIn does the same in a session.
func revertIn(ctx context.Context, s *session, output string) (code int, printed string) {
	var out bytes.Buffer
	o := &drainOptions{IOStreams: genericiooptions.IOStreams{Out: &out, ErrOut: &out}}
	err := o.runRevert(ctx, s, newVoice(o.IOStreams, output, show.Commands{Flags: []string{"--context=lab"}}))
	return settle(err, &out), out.String()
}

// broken is what is said of an undoing that has ended too early.
const broken = "undoing what killed drains left was broken off before all of it was undone; usher --context=lab drain --revert undoes the rest"

// unanswered is a server that answers no write.
type unanswered struct{}

func (unanswered) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// raised is a Deployment, and its autoscaler whose minimum a killed drain has raised from 1 to 2.
func raised(t *testing.T) []runtime.Object {
	t.Helper()
	objects := surgedSince(t, time.Hour, 2)
	web := objects[1].(*appsv1.Deployment)
	hpa := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "hpa", ResourceVersion: "1", Labels: web.Labels},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			MinReplicas: web.Spec.Replicas, MaxReplicas: 5, ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "web"},
		},
	}
	record := strings.Replace(web.Annotations[snapshot.SurgeAnnotation], `"was":1`, `"was":1,"base":1`, 1)
	hpa.Annotations = map[string]string{snapshot.SurgeAnnotation: record}
	web.Labels, web.Annotations = nil, nil
	return append(objects, hpa)
}

// What was not seen to be undone is not said to be, whatever has ended the undoing.
func TestRevertThatIsBrokenOff(t *testing.T) {
	tests := []struct {
		name            string
		interrupt, late time.Duration
		code            int
		outcome         string
	}{
		{"by its own time", time.Hour, time.Hour, exitBlocked, "blocked"},
		{"by an interrupt", time.Second, time.Hour, exitInterrupted, "interrupted"},
		{"by --timeout", time.Hour, time.Second, exitLate, "timeout"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := sessionThrough(t, fake.NewClientset(raised(t)...), &rest.Config{Transport: unanswered{}})
				defer s.close()
				for output, want := range map[string]string{"text": "note " + broken, "json": `"surged":["` + broken + `"]`} {
					ctx, stop := context.WithTimeout(t.Context(), tt.late)
					interrupt := time.AfterFunc(tt.interrupt, stop)
					code, out := revertIn(ctx, s, output)
					interrupt.Stop()
					stop()
					if code != tt.code || !strings.Contains(out, want) || strings.Contains(out, "no surge of a killed drain is left") {
						t.Errorf("exit %d, want %d and %q in\n%s", code, tt.code, want, out)
					}
					lines := strings.Split(strings.TrimSpace(out), "\n")
					if last := lines[len(lines)-1]; output == "json" && !strings.Contains(last, `"outcome":"`+tt.outcome+`"`) {
						t.Errorf("the last line for programs is %s", last)
					}
				}
			})
		})
	}
}

// drainedNode is a cordoned node with the record of a drain.
func drainedNode(t *testing.T, record snapshot.DrainRecord) *corev1.Node {
	t.Helper()
	text, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a", ResourceVersion: "1", Annotations: map[string]string{snapshot.DrainAnnotation: string(text)}}}
	node.Spec.Unschedulable = true
	return node
}

// giveBack runs usher uncordon on the node.
func giveBack(t *testing.T, node *corev1.Node) (code int, words string) {
	t.Helper()
	s := sessionOn(t, fake.NewClientset(node))
	defer s.close()
	return release(t.Context(), s, "a")
}

func TestUncordonSaysWhenADrainCountsAsDead(t *testing.T) {
	now := time.Now()
	code, words := giveBack(t, drainedNode(t, snapshot.DrainRecord{
		Drainer: snapshot.Drainer{ID: "x", By: "root@vm", Beat: now.Add(-20 * time.Second)}, State: "draining", Cordoned: true, Since: now.Add(-time.Minute),
	}))
	for _, want := range []string{"root@vm is draining it since ", "stop that drain first; its last sign of life was ", ", and it counts as dead at " + now.Add(40*time.Second).Format(time.TimeOnly) + " if it gives none until then"} {
		if code != exitBlocked || !strings.Contains(words, want) {
			t.Errorf("exit %d, no %q in %q", code, want, words)
		}
	}
}

// leaseOf is the Lease of a drain, of which another process than that of its records may be the holder.
func leaseOf(id string, renewed time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: snapshot.LeaseNamespace, Name: snapshot.LeaseName(id), UID: "lease", ResourceVersion: "1", Labels: map[string]string{snapshot.DrainLabel: id}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("root@vm/7"), RenewTime: &metav1.MicroTime{Time: renewed}},
	}
}

// A drain with a Lease counts as dead by that, and its Lease goes with the cordon.
func TestUncordonGoesByTheLease(t *testing.T) {
	now := time.Now()
	node := func() *corev1.Node {
		return drainedNode(t, snapshot.DrainRecord{
			Drainer: snapshot.Drainer{ID: "x", By: "root@vm", PID: 7, Beat: now.Add(-time.Hour), Lease: true}, State: "draining", Cordoned: true, Since: now.Add(-time.Hour),
		})
	}
	t.Run("in force", func(t *testing.T) {
		s := sessionOn(t, fake.NewClientset(node(), leaseOf("x", now.Add(-20*time.Second))))
		defer s.close()
		code, words := release(t.Context(), s, "a")
		if want := "it counts as dead at " + now.Add(40*time.Second).Format(time.TimeOnly); code != exitBlocked || !strings.Contains(words, want) {
			t.Errorf("exit %d, no %q in %q", code, want, words)
		}
	})
	t.Run("expired", func(t *testing.T) {
		client := fake.NewClientset(node(), leaseOf("x", now.Add(-time.Minute)))
		s := sessionOn(t, client)
		defer s.close()
		releasedWithLease(t, s)
	})
	t.Run("in force, of a process that was killed here", func(t *testing.T) {
		killed := drainedNode(t, snapshot.DrainRecord{
			Drainer: snapshot.Drainer{ID: "x", By: "root@vm", PID: 7, Boot: "kernel/500", Beat: now, Lease: true}, State: "draining", Cordoned: true, Since: now,
		})
		client := fake.NewClientset(killed, leaseOf("x", now))
		s := sessionOn(t, client)
		defer s.close()
		s.host = host{boot: "kernel", start: func(int) string { return "" }}
		releasedWithLease(t, s)
	})
	t.Run("that may not be read", func(t *testing.T) {
		young := node()
		young.Annotations[snapshot.DrainAnnotation] = strings.ReplaceAll(young.Annotations[snapshot.DrainAnnotation], now.Add(-time.Hour).Format(time.RFC3339Nano), now.Add(-5*time.Minute).Format(time.RFC3339Nano))
		client := fake.NewClientset(young, leaseOf("x", now))
		client.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "", errMayNot)
		})
		s := sessionOn(t, client)
		defer s.close()
		code, words := release(t.Context(), s, "a")
		if code != exitBlocked || !strings.Contains(words, "its Lease cannot be read") || !strings.Contains(words, "so it counts as dead at "+now.Add(10*time.Minute).Format(time.TimeOnly)) {
			t.Errorf("exit %d, %q", code, words)
		}
	})
}

// A node on which a cordon stays is not back.
func TestUncordonOfACordonThatStays(t *testing.T) {
	record := snapshot.DrainRecord{Drainer: snapshot.Drainer{ID: "x", By: "root@vm"}, State: "drained"}
	again := drainedNode(t, record)
	delete(again.Annotations, snapshot.DrainAnnotation)
	for name, node := range map[string]*corev1.Node{"with a record": drainedNode(t, record), "without": again} {
		code, words := giveBack(t, node)
		if code != exitBlocked || !strings.Contains(words, "kubectl uncordon a removes that") {
			t.Errorf("%s: exit %d, %q", name, code, words)
		}
	}
}

// releasedWithLease checks that a node is given back, and its drain's Lease goes with that.
func releasedWithLease(t *testing.T, s *session) {
	t.Helper()
	if code, words := release(t.Context(), s, "a"); code != exitDone {
		t.Errorf("exit %d, %q", code, words)
	}
	left, err := s.client.CoordinationV1().Leases(snapshot.LeaseNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("%d Leases are left: %v", len(left.Items), err)
	}
}
