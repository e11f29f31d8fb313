package histories

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"usher.sh/usher/internal/text"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/webhook"
)

// admit asks a replica's webhook, and refuses where none can be asked.
func (w *world) admit(ctx context.Context, r *removal, pod *corev1.Pod) error { //nolint:contextcheck // the replica answers in its own life
	replica := w.anyReplica()
	if replica == nil {
		return apierrors.NewInternalError(errors.New(`failed calling webhook "leave.usher.sh": no endpoints available`))
	}
	w.admissions++
	for _, peer := range cached[*corev1.Pod](replica, pods) {
		if peer.DeletionTimestamp != nil {
			r.seen = append(r.seen, peer.UID)
		}
	}
	r.newcomers = w.newcomers(replica, r.pod)
	if w.hidden(replica, r.pod) {
		r.excuse = replica.name + " has observed no policy that claims it"
	}
	task := fmt.Sprintf("#a%d %s: ", w.admissions, r)
	w.note("apiserver asks %s: %s (#a%d)", replica.name, r, w.admissions)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	handling := context.WithValue(context.WithValue(replica.ctx, taskKey, task), dryKey, r.dryRun)
	answer := make(chan *admissionv1.AdmissionResponse, 1)
	body := w.review(r, pod)
	w.spawn(func() { answer <- replica.handle(handling, webhook.PathLeave, body) })
	select {
	case response := <-answer:
		if !w.isDead(replica) { // a process that was killed sends nothing
			return refusalOf(response)
		}
	case <-replica.ctx.Done():
	case <-ctx.Done():
		return apierrors.NewInternalError(errors.New(`failed calling webhook "leave.usher.sh": context deadline exceeded`))
	}
	return apierrors.NewInternalError(errors.New(`failed calling webhook "leave.usher.sh": EOF`))
}

// hidden reports whether a pod has no label yet that says that it is governed, and no policy that claims it has come to a replica.
func (w *world) hidden(r *replica, name string) bool {
	if pod := w.store.pod(name); pod == nil || pod.Labels[v1alpha1.PolicyLabel] != "" {
		return false
	}
	for _, policy := range cached[*v1alpha1.EvictionPolicy](r, policies) {
		newest := w.policy(policy.Name)
		if newest == nil || newest.UID != policy.UID {
			continue
		}
		spec := newest.Generation
		if newest.DeletionTimestamp != nil {
			spec--
		}
		if policy.Generation >= spec && w.claims(policy.Name, name) {
			return false
		}
	}
	return true
}

// newcomers reports whether a replica has observed none of the policies that have a pod judged by its own system. Until it has, the pod is
// judged as others say.
func (w *world) newcomers(r *replica, pod string) bool {
	observed := cached[*v1alpha1.EvictionPolicy](r, policies)
	return !slices.ContainsFunc(w.standing(), func(policy string) bool {
		return w.judges(policy, pod) && slices.ContainsFunc(observed, func(p *v1alpha1.EvictionPolicy) bool { return p.Name == policy })
	})
}

func (w *world) anyReplica() *replica {
	alive := slices.DeleteFunc(slices.Clone(w.replicas), func(r *replica) bool { return r.dead })
	if len(alive) == 0 {
		return nil
	}
	return alive[mix(w.seed, uint64(w.admissions))%uint64(len(alive))]
}

// mix draws from two numbers where the scheduler's dice may not be used.
func mix(a, b uint64) uint64 {
	x := a*0x9E3779B97F4A7C15 + b*0xBF58476D1CE4E5B9
	x ^= x >> 31
	x *= 0x94D049BB133111EB
	return x ^ x>>29
}

func (w *world) review(r *removal, pod *corev1.Pod) []byte {
	options := &metav1.DeleteOptions{GracePeriodSeconds: r.grace}
	if r.uid != "" {
		options.Preconditions = metav1.NewUIDPreconditions(string(r.uid))
	}
	if r.dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	request := &admissionv1.AdmissionRequest{
		UID: types.UID(fmt.Sprintf("a%d", w.admissions)), Namespace: namespace, Name: r.pod, DryRun: &r.dryRun,
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		UserInfo: authenticationv1.UserInfo{Username: r.user, Groups: r.groups},
	}
	if r.delete {
		request.Operation = admissionv1.Delete
		request.OldObject = runtime.RawExtension{Raw: encode(pod)}
		request.Options = runtime.RawExtension{Raw: encode(options)}
	} else {
		request.Operation, request.SubResource = admissionv1.Create, "eviction"
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: r.pod}, DeleteOptions: options}
		if r.ask != "" {
			eviction.Annotations = map[string]string{v1alpha1.VerdictAnnotation: r.ask}
		}
		request.Object = runtime.RawExtension{Raw: encode(eviction)}
	}
	return encode(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request,
	})
}

// encode writes what this package has made, which can always be written.
func encode(value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return data
}

// handle has the replica's webhook answer.
func (r *replica) handle(ctx context.Context, path string, body []byte) *admissionv1.AdmissionResponse {
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, path+"?timeout=10s", bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	r.hooks[path].ServeHTTP(recorder, request)
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(recorder.Body.Bytes(), &review); err != nil {
		return nil
	}
	return review.Response
}

// refusalOf is the error that the apiserver makes of an answer.
func refusalOf(response *admissionv1.AdmissionResponse) error {
	switch {
	case response == nil:
		return apierrors.NewInternalError(errors.New(`failed calling webhook "leave.usher.sh": no answer`))
	case response.Allowed:
		return nil
	}
	said := *response.Result
	said.Message = `admission webhook "leave.usher.sh" denied the request: ` + said.Message
	return &apierrors.StatusError{ErrStatus: said}
}

// toApiserver carries the requests that Usher sends by its clientset: evictions.
type toApiserver struct{}

// RoundTrip implements http.RoundTripper.
func (toApiserver) RoundTrip(request *http.Request) (*http.Response, error) {
	replica := replicaOf(request.Context())
	body, err := bodyOf(request)
	if err != nil || replica == nil {
		return nil, errors.Join(err, errors.New("a request that no replica has sent"))
	}
	name, ok := strings.CutPrefix(request.URL.Path, "/api/v1/namespaces/"+namespace+"/pods/")
	name, ok2 := strings.CutSuffix(name, "/eviction")
	if request.Method != http.MethodPost || !ok || !ok2 {
		return nil, fmt.Errorf("the simulated apiserver has no %s %s", request.Method, request.URL.Path)
	}
	var eviction policyv1.Eviction
	if err := json.Unmarshal([]byte(body), &eviction); err != nil {
		return nil, err
	}
	r := &removal{user: self, pod: name, of: taskOf(request.Context()), looked: lookedSince(request.Context())}
	if o := eviction.DeleteOptions; o != nil && o.Preconditions != nil && o.Preconditions.UID != nil {
		r.uid, r.grace = *o.Preconditions.UID, o.GracePeriodSeconds
	}
	if r.uid == "" {
		replica.world.fail("PRECONDITION", "%s evicts %s without its UID", replica.name, name)
	}
	replica.unwoken(request.Context(), r.String())
	said := &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess, Code: http.StatusCreated}
	err = replica.world.remove(request.Context(), r)
	delete(replica.refused, name)
	if err != nil {
		replica.refused[name] = time.Now()
		refusal, ok := errors.AsType[*apierrors.StatusError](err)
		if !ok {
			return nil, err
		}
		said = new(refusal.Status())
		said.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	}
	return &http.Response{
		StatusCode: int(said.Code), Header: http.Header{"Content-Type": {"application/json"}}, Request: request,
		Body: io.NopCloser(bytes.NewReader(encode(said))),
	}, nil
}

func replicaOf(ctx context.Context) *replica {
	r, _ := ctx.Value(replicaKey).(*replica)
	return r
}

func bodyOf(request *http.Request) (string, error) {
	if request.Body == nil {
		return "", nil
	}
	defer func() { _ = request.Body.Close() }()
	data, err := io.ReadAll(request.Body)
	return string(data), err
}

func reader(text string) io.ReadCloser { return io.NopCloser(strings.NewReader(text)) }

// short cuts a text for the trace.
func short(said string) string {
	const most = 300
	return text.Cut(strings.Join(strings.Fields(said), " "), most+len("…"))
}
