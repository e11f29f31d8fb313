package webhook

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"golang.org/x/sync/semaphore"

	"usher.sh/usher/internal/share"
)

// A request takes some four times the size of its body while it is answered, and a tenant's pod may have a megabyte. Those that are
// larger than most pods are read only once there is room for them: smallBody goes in any case, since that many fit however many an
// apiserver sends.
const (
	smallBody  = 64 << 10
	mostBody   = 7 << 20  // what admission.Webhook reads at most
	largeTotal = 16 << 20 // of bodies under way
	largeEach  = 4        // of one namespace
)

// large shares the room for large requests out.
type large struct {
	each  *share.Shares
	total *semaphore.Weighted
}

func newLarge() *large { return &large{share.New(largeEach), semaphore.NewWeighted(largeTotal)} }

// shared has large requests wait for room before they are read, and answers busy where none gets free in time.
func (l *large) shared(next http.Handler, busy func(error) *admissionv1.AdmissionResponse) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength >= 0 && r.ContentLength <= smallBody {
			next.ServeHTTP(w, r)
			return
		}
		body := bufio.NewReaderSize(r.Body, mostHead)
		about := readHead(body)
		release, err := l.take(r.Context(), about.namespace, r.ContentLength)
		if err != nil {
			answer(w, about.uid, busy(err))
			return
		}
		defer release()
		r.Body = struct {
			io.Reader
			io.Closer
		}{body, r.Body}
		next.ServeHTTP(w, r)
	})
}

// take waits for room. The namespace's share comes first, so that what waits for it takes none of the others' room.
func (l *large) take(ctx context.Context, namespace string, size int64) (release func(), err error) {
	back, err := l.each.Take(ctx, namespace)
	if err != nil {
		return nil, fmt.Errorf("waiting to read a large object: %w", err)
	}
	if size < 0 || size > mostBody {
		size = mostBody
	}
	if err := l.total.Acquire(ctx, size); err != nil {
		back()
		return nil, fmt.Errorf("waiting to read a large object: too many are under way: %w", err)
	}
	return func() { l.total.Release(size); back() }, nil
}

// head is what the beginning of a request says of it. An apiserver writes it before the objects; whatever else writes it gets another's
// share at most.
type head struct {
	uid       types.UID
	namespace string
}

const mostHead = 4 << 10

func readHead(body *bufio.Reader) head {
	text, _ := body.Peek(mostHead) // an error comes again when the body is read
	return head{uid: types.UID(first(text, "uid")), namespace: first(text, "namespace")}
}

// first returns the first text under a key, wherever it is.
func first(text []byte, key string) string {
	_, rest, _ := bytes.Cut(text, []byte(`"`+key+`":"`))
	value, _, ok := bytes.Cut(rest, []byte(`"`))
	if !ok {
		return ""
	}
	return string(value)
}

func answer(w http.ResponseWriter, uid types.UID, response *admissionv1.AdmissionResponse) {
	response.UID = uid
	review := admissionv1.AdmissionReview{Response: response}
	review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	_ = json.NewEncoder(w).Encode(review) // it fails where the caller has gone
}

// tooMany keeps what cannot be judged.
func tooMany(err error) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Message: err.Error() + "; ask again",
		Details: &metav1.StatusDetails{RetryAfterSeconds: int32(unknownRetry.Seconds())},
	}}
}

// unmarked lets a pod be created: the policy's controller makes good what was missed.
func unmarked(err error) *admissionv1.AdmissionResponse {
	response := admission.Allowed("").WithWarnings("usher could not mark this pod at its creation: " + err.Error())
	return &response.AdmissionResponse
}
