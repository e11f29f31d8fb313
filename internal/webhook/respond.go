package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/eviction"
)

// respond words the answer as the API wants it.
func respond(w *removal, pod *corev1.Pod, result eviction.AdmissionResult) admission.Response {
	response := admissionv1.AdmissionResponse{Allowed: result.Allow, AuditAnnotations: audit(result)}
	if result.Allow {
		response.Warnings = result.Warnings
		return admission.Response{AdmissionResponse: response}
	}
	code := result.Code
	if code == 0 {
		code = http.StatusTooManyRequests
	}
	details := &metav1.StatusDetails{Name: w.pod.Name, Kind: "pods", Causes: result.Causes}
	if pod != nil {
		details.UID = pod.UID
	}
	message := result.Message
	if result.RetryAfter > 0 {
		after := max(result.RetryAfter.Round(time.Second), time.Second)
		details.Causes = append(details.Causes, metav1.StatusCause{Type: eviction.RetryCause, Message: after.String()})
	}
	response.Result = &metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reasonOf(code), Message: message, Details: details,
	}
	return admission.Response{AdmissionResponse: response}
}

func reasonOf(code int32) metav1.StatusReason {
	switch code {
	case http.StatusTooManyRequests:
		return metav1.StatusReasonTooManyRequests
	case http.StatusNotFound:
		return metav1.StatusReasonNotFound
	}
	return metav1.StatusReasonForbidden
}

// audit is what the audit log gets beside the request.
func audit(result eviction.AdmissionResult) map[string]string {
	annotations := map[string]string{"answer": string(result.Note.Kind)}
	if result.Verdict.Answer != "" {
		annotations["verdict"] = string(result.Verdict.Answer)
	}
	if result.Note.Kind == eviction.BrokenGlass {
		annotations["break-glass"] = result.Verdict.BreakGlass
	}
	if result.Note.Kind == eviction.HoldExpired {
		annotations["hold-expired"] = result.Verdict.HoldExpired
	}
	return annotations
}

// refuseBad answers what is no question.
func refuseBad(err error) admission.Response {
	return admission.Errored(http.StatusBadRequest, err)
}

// unknownRetry is when to ask again after something could not be found out.
const unknownRetry = 5 * time.Second

// requestTime is what the request that an unknown answer leaves may take: half of what the answer needs to get back in time.
const requestTime = margin / 2

// unknown is the answer where not enough could be found out: what is not known to be safe is not let through. It leaves an
// EvictionRequest in the caller's name, as every refusal of a governed pod does: some callers, such as Kubernetes for a
// taint, do not ask again. The pod that it returns is one that is there by more than the request's word, nil for none.
func (h *disruptionHandler) unknown(ctx context.Context, w *removal, pod *corev1.Pod, err error) (eviction.AdmissionResult, *corev1.Pod) {
	result := unknown(ctx, w, err)
	if w.dryRun {
		return result, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTime)
	defer cancel()
	pod = h.shown(ctx, w, pod)
	if pod == nil || pod.Labels[v1alpha1.PolicyLabel] == "" || pod.DeletionTimestamp != nil || w.own || w.ask != "" ||
		slices.Contains(h.Self, w.request.UserInfo.Username) {
		return result, pod
	}
	_, answer := h.act(ctx, w, []eviction.Action{{
		Kind: eviction.Request, Pod: w.pod, UID: pod.UID, Requester: w.request.UserInfo.Username,
		Why: w.request.UserInfo.Username + " was refused and may ask again",
	}})
	if answer.Code == answers.Accepted {
		result.Message += " An EvictionRequest was made: Usher evicts the pod once it is known to be safe."
	}
	return result, pod
}

func unknown(ctx context.Context, w *removal, err error) eviction.AdmissionResult {
	message := fmt.Sprintf("Whether pod %s may leave could not be found out: %v. Ask again; if it stays so, look at the log of usher-manager.", w.pod, err)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		message = fmt.Sprintf("Whether pod %s may leave is still being asked: its system or the apiserver takes longer than this request may. Ask again.", w.pod)
	}
	return eviction.AdmissionResult{
		Code: http.StatusTooManyRequests, Message: message, RetryAfter: unknownRetry,
		Causes: []metav1.StatusCause{{Type: eviction.NoEvidence, Message: message}},
		Note:   eviction.Note{Kind: eviction.Refused, Message: message},
	}
}

// withheld is the answer where the verdict lets the pod go, and the permit would go with a policy that is being deleted. Nothing is
// tried again meanwhile, and no EvictionRequest is left: the policy takes that along as well.
func withheld(w *removal, result *eviction.AdmissionResult, refused answers.Answer) eviction.AdmissionResult {
	message := fmt.Sprintf("Pod %s may leave, and that cannot be written down now: %s. Ask again.", w.pod, refused.Message)
	return eviction.AdmissionResult{
		Code: http.StatusTooManyRequests, Message: message, RetryAfter: max(refused.RetryAfter, unknownRetry),
		Causes: []metav1.StatusCause{{Type: eviction.NoEvidence, Message: message}},
		Note:   eviction.Note{Kind: eviction.Refused, Message: message}, Verdict: result.Verdict,
	}
}
