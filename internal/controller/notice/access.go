package notice

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/internal/notice"
	"usher.sh/usher/internal/text"
)

// Reviewer asks the apiserver who a token stands for, and what a user may do.
type Reviewer interface {
	Authenticate(ctx context.Context, token string) (user authenticationv1.UserInfo, is bool, err error)
	Review(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (allowed bool, reason string, err error)
}

// The shared secret is an entry of a Secret in Usher's own namespace. A shorter one is not taken: it could be guessed.
const (
	secretKey   = "token"
	leastSecret = 16
)

// secretFor is how long the shared secret is known before it is read again.
const secretFor = 5 * time.Second

// reviewsEach and reviewsAtOnce limit how often the apiserver is asked who a token stands for. Senders with the shared secret are not limited by it, so that
// others cannot keep their alerts out.
const (
	reviewsEach   = 10 // in a second
	reviewsAtOnce = 20
)

// access says who may send.
type access struct {
	secrets  client.Reader
	reviewer Reviewer
	reviews  flowcontrol.PassiveRateLimiter
	now      func() time.Time
	key      client.ObjectKey
	log      *slog.Logger

	mu     sync.Mutex
	shared []byte // the sum of the shared secret; nil: there is none
	read   time.Time
}

func newAccess(secrets client.Reader, reviewer Reviewer, o Options) *access {
	return &access{
		secrets: secrets, reviewer: reviewer, reviews: flowcontrol.NewTokenBucketPassiveRateLimiter(reviewsEach, reviewsAtOnce), now: o.Now,
		key: client.ObjectKey{Namespace: o.Namespace, Name: notice.ConfigName}, log: o.Log,
	}
}

// check returns who sends a request, or how it is refused.
func (a *access) check(request *http.Request) (who string, refused *reply) {
	token, is := strings.CutPrefix(request.Header.Get("Authorization"), "Bearer ")
	if token = strings.TrimSpace(token); !is || token == "" {
		return "", &reply{status: http.StatusUnauthorized, text: "the request has no header Authorization: Bearer TOKEN"}
	}
	ctx := request.Context()
	if a.isShared(ctx, token) {
		return "the shared secret", nil
	}
	if !a.reviews.TryAccept() {
		return "", later("the apiserver was asked too often who a token stands for")
	}
	user, is, err := a.reviewer.Authenticate(ctx, token)
	switch {
	case err != nil:
		return "", later("it could not be asked who the token stands for: " + text.Line(err.Error()))
	case !is:
		return "", &reply{status: http.StatusUnauthorized, text: fmt.Sprintf("the token is neither that of Secret %s in namespace %s, nor one that the apiserver knows", a.key.Name, a.key.Namespace)}
	}
	allowed, reason, err := a.reviewer.Review(ctx, reviewOf(&user))
	switch {
	case err != nil:
		return "", later(fmt.Sprintf("it could not be asked whether %s may send alerts: %s", text.Name(user.Username), text.Line(err.Error())))
	case !allowed:
		return "", &reply{status: http.StatusForbidden, text: strings.TrimSuffix(fmt.Sprintf(
			"%s may not post to %s: bind the ClusterRole usher-notices-sender to it; %s", text.Name(user.Username), Path, text.Line(reason)), "; ")}
	}
	return user.Username, nil
}

func reviewOf(user *authenticationv1.UserInfo) authorizationv1.SubjectAccessReviewSpec {
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, value := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(value)
	}
	return authorizationv1.SubjectAccessReviewSpec{
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: Path, Verb: "post"},
		User:                  user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
	}
}

// isShared reports whether a token is the shared secret. How long that takes says nothing about it.
func (a *access) isShared(ctx context.Context, token string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := a.now(); a.read.IsZero() || now.Sub(a.read) >= secretFor || now.Before(a.read) {
		a.shared, a.read = a.readSecret(ctx), now
	}
	sum := sha256.Sum256([]byte(token))
	return a.shared != nil && subtle.ConstantTimeCompare(sum[:], a.shared) == 1
}

func (a *access) readSecret(ctx context.Context) []byte {
	var secret corev1.Secret
	switch err := a.secrets.Get(ctx, a.key, &secret); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		a.log.Error("the shared secret of notices cannot be read: senders need a token of the cluster", "secret", a.key.Name, "error", err)
		return nil
	}
	token := []byte(strings.TrimSpace(string(secret.Data[secretKey])))
	if len(token) < leastSecret {
		a.log.Error("the shared secret of notices is not used", "secret", a.key.Name, "why", fmt.Sprintf("its entry %s has %d bytes, and needs %d", secretKey, len(token), leastSecret))
		return nil
	}
	sum := sha256.Sum256(token)
	return sum[:]
}
