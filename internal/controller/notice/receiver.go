package notice

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"k8s.io/client-go/util/flowcontrol"

	"usher.sh/usher/internal/notice"
	"usher.sh/usher/internal/text"
)

// Path is where alerts are sent to, and the path that senders have to have the right to post to. Paths are all where they are taken: Prometheus sends to the
// second of an Alertmanager, and sent to the third before, as those of Hollowtrees did.
const Path = "/notices/alerts"

// Paths are all paths of the receiver.
var Paths = []string{Path, "/api/v2/alerts", "/api/v1/alerts"}

// The bounds of what is taken.
const (
	mostBody       = 1 << 20 // bytes
	requestsEach   = 20      // in a second
	requestsAtOnce = 50
	mostInWork     = 16
)

// retryAfter is when a sender may try again.
const retryAfter = 5 * time.Second

// Receiver takes alerts. It answers with a 2xx status once what they lead to is in the API, and not before.
type Receiver struct {
	sources

	access   *access
	requests flowcontrol.PassiveRateLimiter
	inWork   chan struct{}
}

// NewReceiver returns the receiver.
func NewReceiver(mgr manager, reviewer Reviewer, o Options) *Receiver {
	return &Receiver{
		sources: sources{o, mgr.GetClient(), mgr.GetAPIReader()}, access: newAccess(mgr.GetAPIReader(), reviewer, o),
		requests: flowcontrol.NewTokenBucketPassiveRateLimiter(requestsEach, requestsAtOnce), inWork: make(chan struct{}, mostInWork),
	}
}

// reply is an answer to a sender, a sentence a line.
type reply struct {
	status int
	text   string
}

// later is the answer to what may be tried again. Alertmanager does that after statuses of the server alone, not after 429.
func later(why string) *reply { return &reply{http.StatusServiceUnavailable, why + "; try again"} }

// ServeHTTP answers one request.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	who, answer := r.answer(w, request)
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("X-Content-Type-Options", "nosniff")
	switch answer.status {
	case http.StatusServiceUnavailable:
		header.Set("Retry-After", strconv.Itoa(int(retryAfter/time.Second)))
	case http.StatusUnauthorized:
		header.Set("WWW-Authenticate", "Bearer")
	case http.StatusMethodNotAllowed:
		header.Set("Allow", http.MethodPost)
	}
	w.WriteHeader(answer.status)
	_, _ = io.WriteString(w, answer.text+"\n")
	if who != "" {
		r.Log.Info("alerts were sent", "by", who, "status", answer.status, "answer", text.Cut(answer.text, mostLogged))
	}
}

// mostLogged is how much of an answer is logged, in bytes.
const mostLogged = 2000

// answer returns who sent a request, "" where that is not known, and the answer.
func (r *Receiver) answer(w http.ResponseWriter, request *http.Request) (who string, answer *reply) {
	if !slices.Contains(Paths, request.URL.Path) {
		return "", &reply{http.StatusNotFound, "alerts are sent to " + Path}
	}
	if request.Method != http.MethodPost {
		return "", &reply{http.StatusMethodNotAllowed, "alerts are sent by POST"}
	}
	who, refused := r.access.check(request)
	if refused != nil {
		return "", refused
	}
	if !r.requests.TryAccept() {
		return who, later(fmt.Sprintf("there are more than %d requests a second", requestsEach))
	}
	select {
	case r.inWork <- struct{}{}:
		defer func() { <-r.inWork }()
	default:
		return who, later(fmt.Sprintf("%d requests are in work", mostInWork))
	}
	body, refused := read(w, request)
	if refused != nil {
		return who, refused
	}
	alerts, err := notice.ParseAlerts(body)
	if err != nil {
		return who, &reply{http.StatusBadRequest, err.Error()}
	}
	return who, r.take(request.Context(), &alerts)
}

func read(w http.ResponseWriter, request *http.Request) ([]byte, *reply) {
	if encoding := request.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, &reply{http.StatusUnsupportedMediaType, fmt.Sprintf("the body is encoded (%s), and has to be plain JSON", text.Name(encoding))}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, mostBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, &reply{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes: set max_alerts of the receiver, or group alerts by more labels", mostBody)}
	case err != nil:
		return nil, &reply{http.StatusBadRequest, "the body could not be read: " + text.Line(err.Error())}
	}
	return body, nil
}
