package webhook

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/text"
)

// auditHandler says of evictions and deletions of pods what policies in mode Audit would have refused, and lets everything through: its
// own errors as well, a pod that could not be read, and a panic. It writes nothing.
type auditHandler struct{ disruptionHandler }

// Handle answers one request.
func (h *auditHandler) Handle(ctx context.Context, request admission.Request) (response admission.Response) {
	began := time.Now()
	defer func() {
		if r := recover(); r != nil {
			h.Log.Error("panic while auditing", "request", request.UID, "panic", r, "stack", string(debug.Stack()))
			response = admission.Response{AdmissionResponse: *unaudited(errors.New("a mistake in Usher, which its log has"))}
		}
	}()
	w, err := readRemoval(&request.AdmissionRequest)
	if err != nil {
		return admission.Response{AdmissionResponse: *unaudited(err)}
	}
	result, pod, err := h.answer(ctx, w)
	if err != nil {
		result = notJudged(w, err)
	}
	if result.Note.Kind != eviction.NotGoverned {
		h.report(ctx, w, pod, result, time.Since(began))
	}
	return respond(w, pod, result)
}

// answer decides. The pod is nil if there is none.
func (h *auditHandler) answer(ctx context.Context, w *removal) (eviction.AdmissionResult, *corev1.Pod, error) {
	subject, err := h.subject(ctx, w)
	if err != nil || !w.means(subject.Pod) {
		return unclaimed(), subject.Pod, err
	}
	if w.ask != "" {
		result, mine, err := h.answerAudited(ctx, w, &subject)
		if !mine {
			result = unclaimed() // the answer is that of policies in mode Enforce
		}
		return result, subject.Pod, err
	}
	result, err := h.audit(ctx, w, subject)
	return result, subject.Pod, err
}

func unclaimed() eviction.AdmissionResult {
	return eviction.AdmissionResult{Allow: true, Note: eviction.Note{Kind: eviction.NotGoverned}}
}

// answerAudited answers a question about a pod that policies in mode Audit alone claim. A namespace may be both governed and audited, and
// the apiserver then returns whichever answer comes first: both webhooks answer such a question alike, and only evict.usher.sh any other.
func (h *disruptionHandler) answerAudited(ctx context.Context, w *removal, subject *policycache.Subject) (result eviction.AdmissionResult, mine bool, err error) {
	if w.ask == "" || !w.means(subject.Pod) {
		return result, false, nil
	}
	enforced, audited, err := h.Facts.Claimed(ctx, subject.Pod)
	_, labelled := subject.Pod.Labels[v1alpha1.PolicyLabel]
	if err != nil || enforced || labelled || !audited {
		return result, false, err
	}
	result, err = h.audit(ctx, w, *subject)
	return result, true, err
}

// audit is what the policies in mode Audit say of a removal, by what the replica knows: nothing is let go by it.
func (h *disruptionHandler) audit(ctx context.Context, w *removal, subject policycache.Subject) (eviction.AdmissionResult, error) {
	if _, audited, err := h.Facts.Claimed(ctx, subject.Pod); err != nil || !audited {
		return unclaimed(), err
	}
	release, err := h.audits.Take(ctx, subject.Pod.Namespace)
	if err != nil {
		return unclaimed(), fmt.Errorf("waiting for a verdict: %w", err)
	}
	defer release()
	subject.Audit = true
	input, err := h.Facts.Input(ctx, subject)
	if err != nil {
		return unclaimed(), err
	}
	admitted, err := h.admissionInput(ctx, w, input)
	if err != nil {
		return unclaimed(), err
	}
	return eviction.Audit(admitted), ctx.Err()
}

// notJudged lets through what could not be judged. In mode Enforce it would have been refused.
func notJudged(w *removal, err error) eviction.AdmissionResult {
	message := text.Line(fmt.Sprintf("Usher could not tell what policies in mode Audit say of pod %s, and in mode Enforce would have refused this: %v", w.pod, err))
	return eviction.AdmissionResult{Allow: true, Warnings: []string{message}, Note: eviction.Note{Kind: eviction.NotJudged, Message: message}}
}

// unaudited lets through what was not read.
func unaudited(err error) *admissionv1.AdmissionResponse {
	response := admission.Allowed("").WithWarnings(text.Line("usher did not audit this request: " + err.Error()))
	return &response.AdmissionResponse
}
