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

// sessionOn reads a cluster of which the server takes patches of Deployments.
func sessionOn(t *testing.T, client *fake.Clientset) *session {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		body = bytes.ReplaceAll(body, []byte(`"resourceVersion":"1"`), []byte(`"resourceVersion":"2"`))
		if err == nil && r.Method == http.MethodPatch {
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
