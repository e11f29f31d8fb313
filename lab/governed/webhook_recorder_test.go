package governed

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/certificate"
	"usher.sh/usher/internal/install"
	"usher.sh/usher/lab/binaries"
	"usher.sh/usher/lab/testlab"
)

// recorder stands where the manager's webhook would, and writes down what it is asked.
type recorder struct {
	lab    *testlab.Lab
	client client.WithWatch
	keeper *certificate.Keeper
	server *http.Server

	mu    sync.Mutex
	asked []question
}

// question is one admission request.
type question struct {
	Path, Operation, Resource, Namespace, Name, User string
	DryRun, OldObject                                bool
}

// newRecorder makes a lab of its own, because webhook configurations are the cluster's, and installs what usher install
// would.
func newRecorder(t *testing.T) *recorder {
	t.Helper()
	l := testlab.Start(t)
	scheme := runtime.NewScheme()
	must(t, clientgoscheme.AddToScheme(scheme))
	must(t, v1alpha1.AddToScheme(scheme))
	c, err := client.NewWithWatch(l.RESTConfig(), client.Options{Scheme: scheme})
	must(t, err)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	r := &recorder{lab: l, client: c}
	r.keeper = &certificate.Keeper{
		Reader: c, Writer: c, Configurations: "usher", Terms: certificate.Default, Now: time.Now,
		Secret: types.NamespacedName{Namespace: install.DefaultNamespace, Name: certificate.SecretName},
	}
	objects, err := install.Objects(install.Options{URL: "https://" + listener.Addr().String(), LifecycleServed: binaries.Chosen().EvictionRequestAPI})
	must(t, err)
	must(t, install.Cluster{Client: c, Out: io.Discard}.Apply(t.Context(), objects, false))
	_, err = r.keeper.Reconcile(t.Context(), reconcile.Request{})
	must(t, err)
	r.serve(t, listener)
	// A definition says that it is established a moment before all of the apiserver knows.
	eventually(t, "policies to be served", func() bool { return c.List(t.Context(), &v1alpha1.EvictionPolicyList{}) == nil })
	return r
}

func (r *recorder) serve(t *testing.T, listener net.Listener) {
	t.Helper()
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	secured := tls.NewListener(listener, &tls.Config{GetCertificate: r.keeper.GetCertificate, MinVersion: tls.VersionTLS12})
	ended := make(chan error, 1)
	go func() { ended <- r.server.Serve(secured) }()
	t.Cleanup(func() {
		_ = r.server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

// ServeHTTP writes the question down and allows everything.
func (r *recorder) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(request.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	q := review.Request
	resource, name := q.Resource.Resource, q.Name
	if name == "" { // of a collection that is deleted
		name = "(" + nameOf(q.OldObject.Raw) + ")"
	}
	if q.SubResource != "" {
		resource += "/" + q.SubResource
	}
	r.mu.Lock()
	r.asked = append(r.asked, question{
		Path: request.URL.Path, Operation: string(q.Operation), Resource: resource, Namespace: q.Namespace, Name: name,
		User: q.UserInfo.Username, DryRun: q.DryRun != nil && *q.DryRun, OldObject: len(q.OldObject.Raw) > 0,
	})
	r.mu.Unlock()
	review.Response = &admissionv1.AdmissionResponse{UID: q.UID, Allowed: true}
	review.Request = nil
	_ = json.NewEncoder(w).Encode(review)
}

// simulated is the user that ends pods on simulated nodes. A kubelet would be system:node:NAME, which is not asked about.
const simulated = "kwok"

func nameOf(raw []byte) string {
	var object metav1.PartialObjectMetadata
	_ = json.Unmarshal(raw, &object)
	return object.Name
}

// during returns, as "path operation resource name", what was asked while do ran, sorted. A question counts once: the
// store asks again whenever the pod was changed in between.
func (r *recorder) during(namespace string, do func()) []string {
	r.mu.Lock()
	r.asked = nil
	r.mu.Unlock()
	do()
	r.mu.Lock()
	defer r.mu.Unlock()
	asked := []string{}
	for _, q := range r.asked {
		if q.Namespace == namespace && q.User != simulated {
			asked = append(asked, strings.Join([]string{q.Path, q.Operation, q.Resource, q.Name}, " "))
		}
	}
	slices.Sort(asked)
	return slices.Compact(asked)
}

// wasAsked reports whether a path was asked since during began.
func (r *recorder) wasAsked(path string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.asked, func(q question) bool { return q.Path == path })
}

// wasAskedAbout reports whether anything in a namespace was asked about since during began.
func (r *recorder) wasAskedAbout(namespace string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.asked, func(q question) bool { return q.Namespace == namespace })
}

// down ends the server, as if every replica had been killed.
func (r *recorder) down(t *testing.T) {
	t.Helper()
	must(t, r.server.Close())
}

// namespace makes a namespace, governed or not.
func (r *recorder) namespace(t *testing.T, governed bool) string {
	t.Helper()
	name := r.lab.Namespace(t)
	if governed {
		r.label(t, name)
		// The label takes effect a moment after it was written.
		eventually(t, "questions about pods of "+name, func() bool {
			tryPod(t, r.lab, name)
			return r.wasAskedAbout(name)
		})
	}
	return name
}

func (r *recorder) label(t *testing.T, namespace string) {
	t.Helper()
	r.labels(t, namespace, v1alpha1.GovernedLabel)
}

func (r *recorder) labels(t *testing.T, namespace, label string) {
	t.Helper()
	patch := []byte(`{"metadata":{"labels":{"` + label + `":"true"}}}`)
	_, err := r.lab.Client().CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType, patch, metav1.PatchOptions{})
	must(t, err)
}

// member labels a pod as the policy's controller does.
func member(p *corev1.Pod) { p.Labels[v1alpha1.PolicyLabel] = "db" }

// auditedMember labels a pod as it does for a policy in mode Audit.
func auditedMember(p *corev1.Pod) { p.Labels[v1alpha1.AuditLabel] = "db" }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
