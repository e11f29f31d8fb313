package notice

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/notice"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

const own = "usher-system"

// shared is the shared secret, anna's token may send, and bert's may not.
const shared, anna, bert = "0123456789abcdef", "anna-token", "bert-token"

// rig is a cluster with nodes n1 and n2, and a configuration.
type rig struct {
	client.WithWatch

	t      *testing.T
	now    time.Time
	faults interceptor.Funcs
	asked  int // who a token stands for
	events *events.FakeRecorder
	recon  *reconciler
	recv   *Receiver
}

func (g *rig) GetClient() client.Client                       { return g.WithWatch }
func (g *rig) GetAPIReader() client.Reader                    { return g.WithWatch }
func (g *rig) GetEventRecorder(string) recorder.EventRecorder { return g.events }
func (g *rig) Authenticate(_ context.Context, token string) (authenticationv1.UserInfo, bool, error) {
	g.asked++
	user, is := map[string]string{anna: "anna", bert: "bert"}[token]
	if token == "broken" {
		return authenticationv1.UserInfo{}, false, errors.New("etcd is away")
	}
	return authenticationv1.UserInfo{Username: user, Groups: []string{"g"}}, is, nil
}

func (g *rig) Review(_ context.Context, spec authorizationv1.SubjectAccessReviewSpec) (bool, string, error) {
	if a := spec.NonResourceAttributes; a == nil || a.Path != "/notices/alerts" || a.Verb != "post" || len(spec.Groups) != 1 {
		g.t.Errorf("asked about %+v", spec)
	}
	return spec.User == "anna", "no RBAC policy matched", nil
}

func configMap(text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: notice.ConfigName}, Data: map[string]string{notice.ConfigKey: text}}
}

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
}

func newRig(t *testing.T, objects ...client.Object) *rig {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	g := &rig{t: t, now: noon, events: events.NewFakeRecorder(10)}
	objects = append(objects, node("n1"), node("n2"), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: notice.ConfigName}, Data: map[string][]byte{"token": []byte(shared + "\n")},
	})
	g.WithWatch = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if g.faults.Create != nil {
				return g.faults.Create(ctx, c, o, options...)
			}
			return c.Create(ctx, o, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			if g.faults.Delete != nil {
				return g.faults.Delete(ctx, c, o, options...)
			}
			return c.Delete(ctx, o, options...)
		},
	}).Build()
	now := func() time.Time { return g.now }
	o := Options{Act: &act.Notices{Client: g.WithWatch, Instance: "test", Now: now}, Namespace: own, Now: now, Log: slog.New(slog.DiscardHandler)}
	g.recv = NewReceiver(g, g, o)
	g.recon = &reconciler{sources: sources{o, g.WithWatch, g.WithWatch}, events: g.events, reported: map[string]bool{}}
	return g
}

// send posts a body with a token, and returns the answer.
func (g *rig) send(token, body string, change ...func(*http.Request)) (int, string) {
	g.t.Helper()
	request := httptest.NewRequestWithContext(g.t.Context(), http.MethodPost, Path, strings.NewReader(body))
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	for _, c := range change {
		c(request)
	}
	recorder := httptest.NewRecorder()
	g.recv.ServeHTTP(recorder, request)
	if (recorder.Code == http.StatusServiceUnavailable) != (recorder.Header().Get("Retry-After") != "") {
		g.t.Errorf("status %d with Retry-After %q", recorder.Code, recorder.Header().Get("Retry-After"))
	}
	return recorder.Code, strings.TrimSuffix(recorder.Body.String(), "\n")
}

// maintenances are those that are there, by node.
func (g *rig) maintenances() map[string]*v1alpha1.NodeMaintenance {
	g.t.Helper()
	var list v1alpha1.NodeMaintenanceList
	if err := g.List(g.t.Context(), &list); err != nil {
		g.t.Fatal(err)
	}
	found := map[string]*v1alpha1.NodeMaintenance{}
	for i := range list.Items {
		found[list.Items[i].Spec.Nodes.Names[0]] = &list.Items[i]
	}
	if len(found) != len(list.Items) {
		g.t.Errorf("%d maintenances of %d nodes", len(list.Items), len(found))
	}
	return found
}

func (g *rig) secret() *corev1.Secret {
	g.t.Helper()
	var secret corev1.Secret
	if err := g.Get(g.t.Context(), client.ObjectKey{Namespace: own, Name: notice.ConfigName}, &secret); err != nil {
		g.t.Fatal(err)
	}
	return &secret
}
