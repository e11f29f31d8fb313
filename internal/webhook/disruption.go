package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/share"
	"usher.sh/usher/internal/snapshot"
)

// disruptionHandler answers evictions and deletions of pods.
type disruptionHandler struct {
	Options
	verdicts *share.Shares
	audits   *share.Shares // verdicts of policies in mode Audit, which keep no other waiting
}

// verdictsEach is how many verdicts about governed pods of one namespace are made at a time: they wait for a system and compute.
const verdictsEach = 8

// removal is what a caller wants, read from the request.
type removal struct {
	request *admissionv1.AdmissionRequest
	verb    eviction.Verb
	pod     snapshot.Key
	old     *corev1.Pod // the object of a DELETE
	uid     types.UID   // the eviction's precondition, "" without one
	ask     string
	own     bool // the caller keeps requests of its own
	grace   *int64
	dryRun  bool
}

// Handle answers one request.
func (h *disruptionHandler) Handle(ctx context.Context, request admission.Request) admission.Response {
	began := time.Now()
	w, err := readRemoval(&request.AdmissionRequest)
	if err != nil {
		return refuseBad(err)
	}
	result, pod, err := h.answer(ctx, w)
	about := pod
	if err != nil {
		result, about = h.unknown(ctx, w, pod, err)
	}
	h.report(ctx, w, about, result, time.Since(began))
	return respond(w, pod, result)
}

func readRemoval(r *admissionv1.AdmissionRequest) (*removal, error) {
	w := &removal{request: r, pod: snapshot.Key{Namespace: r.Namespace, Name: r.Name}, dryRun: r.DryRun != nil && *r.DryRun}
	switch {
	case r.Operation == admissionv1.Create && r.Resource.Resource == "pods" && r.SubResource == "eviction":
		return w, w.readEviction()
	case r.Operation == admissionv1.Delete && r.Resource.Resource == "pods" && r.SubResource == "":
		return w, w.readDelete()
	}
	return nil, fmt.Errorf("a %s of %s %s is no question for this webhook", r.Operation, r.Resource.Resource, r.SubResource)
}

func (w *removal) readEviction() error {
	w.verb = eviction.VerbEvict
	var object policyv1.Eviction
	if err := json.Unmarshal(w.request.Object.Raw, &object); err != nil {
		return fmt.Errorf("reading the Eviction: %w", err)
	}
	if w.pod.Name == "" {
		w.pod.Name = object.Name
	}
	w.ask, w.own = object.Annotations[v1alpha1.VerdictAnnotation], object.Annotations[v1alpha1.SkipEvictionRequestAnnotation] != ""
	w.readOptions(object.DeleteOptions)
	return nil
}

func (w *removal) readDelete() error {
	w.verb = eviction.VerbDelete
	w.old = &corev1.Pod{}
	if err := json.Unmarshal(w.request.OldObject.Raw, w.old); err != nil {
		return fmt.Errorf("reading the pod: %w", err)
	}
	w.pod = snapshot.Key{Namespace: w.old.Namespace, Name: w.old.Name} // the request has no name where a collection is deleted
	var options metav1.DeleteOptions
	if len(w.request.Options.Raw) > 0 {
		if err := json.Unmarshal(w.request.Options.Raw, &options); err != nil {
			return fmt.Errorf("reading the options: %w", err)
		}
	}
	w.readOptions(&options)
	return nil
}

// readOptions reads what is the same in both. An eviction is a dry run also where only its own options say so.
func (w *removal) readOptions(options *metav1.DeleteOptions) {
	if options == nil {
		return
	}
	w.grace = options.GracePeriodSeconds
	w.dryRun = w.dryRun || slices.Contains(options.DryRun, metav1.DryRunAll)
	if options.Preconditions != nil && options.Preconditions.UID != nil {
		w.uid = *options.Preconditions.UID
	}
}

// mostTries bounds how often everything is looked at again because another replica was faster.
const mostTries = 4

// answer decides, and does what has to be done before the answer is given. The pod is nil if there is none.
func (h *disruptionHandler) answer(ctx context.Context, w *removal) (eviction.AdmissionResult, *corev1.Pod, error) {
	subject, err := h.subject(ctx, w)
	if err != nil {
		return eviction.AdmissionResult{}, nil, err
	}
	if result, mine, err := h.answerAudited(ctx, w, &subject); mine || err != nil {
		return result, subject.Pod, err
	}
	result, err := h.try(ctx, w, &subject)
	return result, subject.Pod, err
}

// try decides and acts until what it decides upon stays the same meanwhile.
func (h *disruptionHandler) try(ctx context.Context, w *removal, subject *policycache.Subject) (eviction.AdmissionResult, error) {
	var excused *eviction.AdmissionResult
	var refused answers.Answer
	for range mostTries {
		result, err := h.consider(ctx, w, subject)
		if err != nil {
			return settled(excused, err)
		}
		var at eviction.Action
		if at, refused = h.act(ctx, w, result.Actions); refused.Code == answers.Accepted || !result.Allow {
			return confirmed(result, refused), nil
		}
		if result.Regardless {
			excused = &result
		}
		switch {
		case excused != nil && refused.Code != answers.Conflict:
			return *excused, nil
		case refused.Vanishing:
			return withheld(w, &result, refused), nil
		case refused.Code == answers.RefusedForNow:
			return eviction.AdmissionResult{}, unwritten(refused)
		}
		if err := h.anew(ctx, w, subject, &at); err != nil {
			return settled(excused, err)
		}
	}
	return settled(excused, unwritten(refused))
}

// anew has the policy and the pod be as they are once a write was refused: a pod that was not Ready may have become so since it was read.
func (h *disruptionHandler) anew(ctx context.Context, w *removal, subject *policycache.Subject, refused *eviction.Action) error {
	if err := h.Facts.Refresh(ctx, refused.Policy, refused.Version); err != nil {
		return err
	}
	return h.refresh(ctx, w, subject)
}

func unwritten(permit answers.Answer) error {
	return fmt.Errorf("the permit could not be written down: %s", permit.Message)
}

// settled is the end where not everything could be done: what is excused goes all the same.
func settled(excused *eviction.AdmissionResult, err error) (eviction.AdmissionResult, error) {
	if excused != nil {
		return *excused, nil
	}
	return eviction.AdmissionResult{}, err
}

// confirmed adds to a refusal what was done about it.
func confirmed(result eviction.AdmissionResult, answer answers.Answer) eviction.AdmissionResult {
	if !result.Allow && answer.Code == answers.Accepted && result.Done != "" {
		result.Message += "; " + result.Done
	}
	return result
}

// subject finds the pod, in the cache if that will do.
func (h *disruptionHandler) subject(ctx context.Context, w *removal) (policycache.Subject, error) {
	subject := policycache.Subject{Pod: w.old, Fresh: true, Replace: w.ask == eviction.AskReplace}
	if w.old != nil {
		return subject, nil
	}
	var err error
	if subject.Pod, subject.Fresh, err = h.Facts.Pod(ctx, w.pod); err != nil {
		return subject, err
	}
	if subject.Pod == nil && subject.Replace {
		subject.Pod = h.Facts.Departed(w.pod)
		subject.Deleted = subject.Pod != nil
	}
	if !subject.Fresh && (!w.means(subject.Pod) || unscheduled(subject.Pod)) {
		err = h.refresh(ctx, w, &subject)
	}
	return subject, err
}

// unscheduled pods may go, but a cache is not believed that they still are: it would be a matter of chance which pod is let go.
func unscheduled(pod *corev1.Pod) bool { return pod != nil && pod.Spec.NodeName == "" }

// consider decides about the pod that has the name. A cache that is behind shows a pod that is gone under a name that
// another has by now, and an eviction without a UID means that other; one whose policies are behind as well would call a
// governed pod ungoverned, and only the pod's label shows it. The labels by which a pod has its role, and the annotation that
// breaks the glass, may be others by now under the same UID, and members that the cache shows Ready may have crashed. So whatever
// is let through is looked at afresh, but for a dry run, which lets nothing go.
func (h *disruptionHandler) consider(ctx context.Context, w *removal, subject *policycache.Subject) (eviction.AdmissionResult, error) {
	if !w.means(subject.Pod) {
		return w.misses(subject.Pod), nil
	}
	result, err := h.decide(ctx, w, *subject)
	if err == nil && subject.Pod == w.old && !w.dryRun && len(result.Actions) > 0 {
		return h.confirm(ctx, w, subject, &result)
	}
	// A client that is answered that the pod is gone looks no further, so the pod and its node are looked at afresh for that, too.
	subject.FreshNode = err == nil && result.Note.Kind == eviction.GoneMeanwhile
	final := !subject.FreshNode && (!result.Allow || !rested(&result, subject))
	if err != nil || final || w.dryRun {
		return result, err
	}
	subject.FreshMembers = true
	if subject.FreshNode || !subject.Fresh {
		if err := h.refresh(ctx, w, subject); err != nil {
			return eviction.AdmissionResult{}, err
		}
	}
	if !w.means(subject.Pod) {
		return w.misses(subject.Pod), nil
	}
	return h.decide(ctx, w, *subject)
}

// confirm decides about the pod of a DELETE as a read of the apiserver shows it, where something would be written for it: until then it is
// known from the request alone, and a member that leaves without a pod would keep the others. What is let through in any case goes also
// where the pod cannot be read, and is written down if the cache shows the pod: a leave that is not written down is worse than members
// that wait.
func (h *disruptionHandler) confirm(ctx context.Context, w *removal, subject *policycache.Subject, result *eviction.AdmissionResult) (eviction.AdmissionResult, error) {
	live, err := h.Facts.FreshPod(ctx, w.pod)
	switch {
	case err == nil:
		subject.Pod = live
		return h.consider(ctx, w, subject)
	case !result.Regardless:
		return eviction.AdmissionResult{}, err
	case h.shown(ctx, w, w.old) == nil:
		result.Actions = nil
	}
	return *result, nil
}

// shown is the pod of a removal as something else than the request shows it: the pod itself, unless it is known from a DELETE alone. That one
// is looked up in the cache, and read past it only where the cache has none of the name. It is nil where the pod that is meant is not seen.
func (h *disruptionHandler) shown(ctx context.Context, w *removal, pod *corev1.Pod) *corev1.Pod {
	if pod == nil || pod != w.old {
		return pod
	}
	known, _, err := h.Facts.Pod(ctx, w.pod)
	if err != nil || !w.means(known) {
		return nil
	}
	return known
}

// rested reports whether an answer rests on what a cache shows of the pod, or of which members are Ready.
func rested(result *eviction.AdmissionResult, on *policycache.Subject) bool {
	return !on.Fresh || result.ByReadiness && !on.FreshMembers
}

// means reports whether the caller means this pod.
func (w *removal) means(pod *corev1.Pod) bool {
	return pod != nil && (w.uid == "" || w.uid == pod.UID) && (w.old == nil || w.old.UID == pod.UID)
}

// misses answers a removal of a pod that is not the one of that name. A UID is checked by the server, which has better
// words. So it is with a DELETE: a server deletes the version of the pod that it has asked about, and asks again where there is another.
// Where there is no pod at all to evict the server must not look again: it may find one that was created this moment, and
// evict it unjudged.
func (w *removal) misses(pod *corev1.Pod) eviction.AdmissionResult {
	switch {
	case pod != nil:
		return eviction.AdmissionResult{Allow: true, Note: eviction.Note{Kind: eviction.NotGoverned, Message: "another pod was meant"}}
	case w.old != nil:
		return eviction.AdmissionResult{Allow: true, Note: eviction.Note{Kind: eviction.NoSuchPod, Message: "the pod is gone"}}
	}
	message := fmt.Sprintf("pods %q not found", w.pod.Name)
	return eviction.AdmissionResult{
		Code: http.StatusNotFound, Message: message, Note: eviction.Note{Kind: eviction.NoSuchPod, Message: message},
	}
}

func (h *disruptionHandler) refresh(ctx context.Context, w *removal, subject *policycache.Subject) (err error) {
	subject.Pod, err = h.Facts.FreshPod(ctx, w.pod)
	subject.Fresh = true
	return err
}

func (h *disruptionHandler) decide(ctx context.Context, w *removal, subject policycache.Subject) (eviction.AdmissionResult, error) {
	_, labelled := subject.Pod.Labels[v1alpha1.PolicyLabel]
	release, err := h.share(ctx, subject.Pod, labelled)
	if err != nil {
		return eviction.AdmissionResult{}, fmt.Errorf("waiting for a verdict: %w", err)
	}
	defer release()
	input, err := h.Facts.Input(ctx, subject)
	if err != nil {
		return eviction.AdmissionResult{}, err
	}
	if labelled && len(input.Policies) == 0 {
		if input.Ungoverned, err = h.Facts.Ungoverned(ctx, w.pod.Namespace); err != nil {
			return eviction.AdmissionResult{}, err
		}
	}
	admitted, err := h.admissionInput(ctx, w, input)
	if err != nil {
		return eviction.AdmissionResult{}, err
	}
	return eviction.Admit(admitted), ctx.Err()
}

// admissionInput is the removal beside what is known of the pod.
func (h *disruptionHandler) admissionInput(ctx context.Context, w *removal, input eviction.Input) (eviction.AdmissionInput, error) {
	ending, err := h.ending(ctx, w)
	return eviction.AdmissionInput{
		Input: input,
		Verb:  w.verb, User: w.request.UserInfo.Username, Groups: w.request.UserInfo.Groups,
		ByName: w.uid == "", Requester: evictionrequest.Requester(w.request.UserInfo.Username),
		DryRun: w.dryRun, Ask: w.ask, OwnRequest: w.own, Grace: w.grace, NamespaceEnding: ending, Self: h.Self,
	}, err
}

// share waits for one of the namespace's verdicts where a verdict takes more than the pod. The pod's label alone does not tell: its author
// may have taken it off.
func (h *disruptionHandler) share(ctx context.Context, pod *corev1.Pod, labelled bool) (release func(), err error) {
	if !labelled {
		guarded, err := h.Facts.Guarded(ctx, pod)
		if err != nil || !guarded {
			return func() {}, err
		}
	}
	return h.verdicts.Take(ctx, pod.Namespace)
}

// ending reports whether the pod's namespace is being deleted. It makes no difference to evictions.
func (h *disruptionHandler) ending(ctx context.Context, w *removal) (bool, error) {
	if w.verb != eviction.VerbDelete {
		return false, nil
	}
	var namespace corev1.Namespace
	if err := h.Reader.Get(ctx, client.ObjectKey{Name: w.pod.Namespace}, &namespace); err != nil {
		return false, fmt.Errorf("reading namespace %s: %w", w.pod.Namespace, err)
	}
	return namespace.DeletionTimestamp != nil, nil
}

// act does what has to be done; on a dry run nothing.
func (h *disruptionHandler) act(ctx context.Context, w *removal, actions []eviction.Action) (eviction.Action, answers.Answer) {
	if w.dryRun || len(actions) == 0 {
		return eviction.Action{}, answers.Answer{Code: answers.Accepted}
	}
	at, answer := h.Writer.DoAll(ctx, actions)
	if answer.Code != answers.Accepted {
		h.Log.Info("not carried out", "action", at.Kind, "pod", w.pod, "policy", at.Policy, "code", answer.Code, "why", answer.Message)
	}
	return at, answer
}
