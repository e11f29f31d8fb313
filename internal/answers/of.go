package answers

import (
	"errors"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/internal/text"
)

// Of says what an error of a write means; nil is Accepted. An error
// that no server sent (network, timeout, a context that ended) is Unavailable: whether
// the write was carried out is not known. Webhooks, which may be a tenant's, have a part in the words: they are one
// line, without anything that a terminal obeys.
func Of(err error) Answer {
	if err == nil {
		return Answer{Code: Accepted}
	}
	var said apierrors.APIStatus
	if !errors.As(err, &said) {
		return Answer{Code: Unavailable, Message: text.Line(err.Error())}
	}
	status := said.Status()
	code := codeOf(status)
	return Answer{
		Code: code, Message: text.Line(wordsOf(status)), RetryAfter: retryAfter(status), Admission: code == RefusedForNow && deniedByAdmission(status.Message),
	}
}

// codeOf reads the answer of an apiserver. The order matters: a webhook may deny with
// any code, also with those by which the server itself says something else.
func codeOf(status metav1.Status) Code {
	switch {
	case status.Code == http.StatusTooManyRequests:
		return refusal(status)
	case deniedByAdmission(status.Message):
		return Denied
	case hasCause(status, policyv1.DisruptionBudgetCause):
		return RefusedByBudget // 403: the budget's status is out of bounds
	case strings.Contains(status.Message, "more than one PodDisruptionBudget"):
		return SeveralBudgets
	}
	return byCode(status)
}

func byCode(status metav1.Status) Code {
	switch status.Code {
	case http.StatusUnauthorized:
		return Forbidden
	case http.StatusForbidden:
		return forbidden(status)
	case http.StatusNotFound:
		return notFound(status)
	case http.StatusConflict:
		return conflict(status)
	case http.StatusUnprocessableEntity:
		return invalid(status)
	case http.StatusRequestTimeout:
		return Unavailable
	}
	if status.Code >= http.StatusInternalServerError {
		return Unavailable
	}
	return Rejected
}

// refusal distinguishes the two kinds of 429. A budget that the controller has not
// observed carries the same cause as one that is used up, but a Retry-After as well.
func refusal(status metav1.Status) Code {
	if hasCause(status, policyv1.DisruptionBudgetCause) && retryAfter(status) == 0 {
		return RefusedByBudget
	}
	return RefusedForNow
}

// forbidden distinguishes an authorizer, which always names the user, from the
// admission plugins of the server, which never do.
func forbidden(status metav1.Status) Code {
	switch {
	case hasCause(status, corev1.NamespaceTerminatingCause):
		return NamespaceTerminating
	case strings.Contains(status.Message, " is forbidden: ") && !strings.Contains(status.Message, `User "`):
		return Denied
	}
	return Forbidden
}

// notFound distinguishes an object that is gone from a path that is not served.
func notFound(status metav1.Status) Code {
	if status.Details == nil || status.Details.Name == "" || hasCause(status, metav1.CauseTypeUnexpectedServerResponse) {
		return Rejected
	}
	return Gone
}

// conflict distinguishes a name that now belongs to another object from an object that
// has changed. The eviction handler and the store word the former differently.
func conflict(status metav1.Status) Code {
	if strings.Contains(status.Message, "UID in precondition") || strings.Contains(status.Message, "UID in the precondition") {
		return Gone
	}
	return Conflict
}

// invalid recognizes the third way in which the server reports that the UID is not that
// of the object: to a patch it answers that the UID cannot be changed.
func invalid(status metav1.Status) Code {
	if status.Details != nil {
		for _, cause := range status.Details.Causes {
			if cause.Field == "metadata.uid" {
				return Gone
			}
		}
	}
	return Rejected
}

// deniedByAdmission knows webhooks and ValidatingAdmissionPolicies by their words;
// they have no cause of their own.
func deniedByAdmission(message string) bool {
	if strings.Contains(message, "admission webhook ") && strings.Contains(message, " denied the request") {
		return true
	}
	return strings.Contains(message, "ValidatingAdmissionPolicy ") && strings.Contains(message, " denied request")
}

func hasCause(status metav1.Status, cause metav1.CauseType) bool {
	if status.Details == nil {
		return false
	}
	for i := range status.Details.Causes {
		if status.Details.Causes[i].Type == cause {
			return true
		}
	}
	return false
}

// wordsOf adds what the budget says to the message, which alone does not name it.
func wordsOf(status metav1.Status) string {
	message := status.Message
	if status.Details == nil {
		return message
	}
	for _, cause := range status.Details.Causes {
		if cause.Type == policyv1.DisruptionBudgetCause && cause.Message != "" {
			message += " " + strings.TrimSuffix(cause.Message, ".") + "."
		}
	}
	return message
}

func retryAfter(status metav1.Status) time.Duration {
	if status.Details == nil {
		return 0
	}
	return time.Duration(status.Details.RetryAfterSeconds) * time.Second
}
