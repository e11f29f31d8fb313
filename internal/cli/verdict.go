package cli

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
)

// askSystem adds what the pod's system says, where a policy governs the pod and there is a cluster to be asked.
func (o *whyOptions) askSystem(ctx context.Context, page *show.Why) error {
	about := eviction.AskEvict
	if o.replace {
		about = eviction.AskReplace
	}
	if o.dump != "" {
		return nil
	}
	conn, err := connect(o.config, o.ErrOut)
	if err != nil {
		return err
	}
	if !page.Pod.Labelled() && !page.Pod.Audited() && !o.replace {
		checkAdmission(ctx, conn.client, page)
		return nil
	}
	verdict, err := observe.Verdict(ctx, conn.client, page.Pod, about)
	if !page.Pod.Labelled() && (errors.Is(err, observe.ErrNoVerdict) || err == nil && verdict.Role == "") {
		if page.Set != "" {
			return errors.New(page.Set)
		}
		return fmt.Errorf("pod %s is not governed by an EvictionPolicy: only its controller knows what takes its place", page.Pod.Key())
	}
	if errors.Is(err, observe.ErrNoVerdict) {
		governed, known := governs(ctx, conn.client, page.Pod.Namespace)
		page.Unfounded = known && !governed
	}
	if page.Unfounded && !o.replace {
		return nil
	}
	answered(page, &verdict, err)
	return nil
}

// checkAdmission adds that admission does not answer, of a pod that nothing else keeps and no policy guards.
func checkAdmission(ctx context.Context, client kubernetes.Interface, page *show.Why) {
	if len(page.Blockers) > 0 {
		return
	}
	if governed, _ := governs(ctx, client, page.Pod.Namespace); governed {
		_, err := observe.Verdict(ctx, client, page.Pod, eviction.AskEvict)
		unreached(page, err)
	}
}

// answered adds what a question about a pod came to. What only policies in mode Audit claim goes whatever they say, and where they say
// nothing.
func answered(page *show.Why, verdict *eviction.Verdict, err error) {
	switch {
	case err != nil && !page.Pod.Labelled() && !page.Replace:
		return
	case err != nil:
		page.Blockers = append(page.Blockers, unasked(page, err))
		return
	}
	page.Verdict = shownVerdict(verdict)
	switch {
	case page.Replace, verdict.Audit == "" && verdict.BreakGlass == "":
		page.Blockers = append(page.Blockers, blockersOf(page, verdict)...)
	case verdict.Audit != "" && verdict.BreakGlass == "":
		page.Verdict.Refusals = blockersOf(page, verdict)
	}
}

// whyGone asks about the replacement of a member whose pod is gone, of which the manager remembers what it was.
func (o *whyOptions) whyGone(ctx context.Context, view snapshot.View, pod snapshot.Key) error {
	conn, err := connect(o.config, o.ErrOut)
	if err != nil {
		return err
	}
	page := show.Why{Pod: &snapshot.Pod{Namespace: pod.Namespace, Name: pod.Name}, Now: view.Now, Replace: true}
	verdict, err := observe.Verdict(ctx, conn.client, page.Pod, eviction.AskReplace)
	switch {
	case apierrors.IsNotFound(err), errors.Is(err, observe.ErrNoVerdict):
		return unknownPod(view.Cluster, pod, "why", o.commands)
	case err != nil:
		page.Blockers = append(page.Blockers, unasked(&page, err))
	default:
		page.Verdict = shownVerdict(&verdict)
		page.Blockers = append(page.Blockers, blockersOf(&page, &verdict)...)
	}
	o.addReplacements(ctx, &page)
	return o.printPods(show.WhyPods{One: true, Pods: []show.Why{page}})
}

func shownVerdict(v *eviction.Verdict) *show.Verdict {
	return &show.Verdict{Answer: string(v.Answer), Role: v.Role, Member: v.Member, Evidence: v.Evidence, BreakGlass: v.BreakGlass, Audit: v.Audit}
}

// blockersOf are a verdict's as the drain has them.
func blockersOf(page *show.Why, verdict *eviction.Verdict) []drain.Blocker {
	var all []drain.Blocker
	for i := range verdict.Blockers {
		b := &verdict.Blockers[i]
		at := drain.Blocker{Reason: drain.Reason(b.Reason), Pod: page.Pod.Key(), Node: page.Pod.Node, Message: b.Message, Remedy: b.Remedy, Dead: verdict.Answer == eviction.Never}
		if b.Retry > 0 {
			at.Retry = page.Now.Add(b.Retry)
		}
		all = append(all, at)
	}
	return all
}

// governs reports whether a namespace has the label of one with policies, without which nothing in it is guarded, and whether that is
// known: it may not be readable.
func governs(ctx context.Context, client kubernetes.Interface, namespace string) (governed, known bool) {
	found, err := client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	return err == nil && found.Labels[v1alpha1.GovernedLabel] == "true", err == nil
}

// unreached adds that admission does not answer. In a namespace with policies it is asked about the evictions of all pods, and those that no
// policy guards are refused as well.
func unreached(page *show.Why, err error) {
	if !apierrors.IsInternalError(err) {
		return
	}
	b := unasked(page, err)
	b.Message = "its namespace has policies, and evictions in it are refused while usher's manager does not answer: " + err.Error()
	page.Blockers = append(page.Blockers, b)
}

// unasked says why there is no verdict. Unknown is unsafe: it is a blocker.
func unasked(page *show.Why, err error) drain.Blocker {
	b := drain.Blocker{
		Reason: drain.EvidenceUnavailable, Pod: page.Pod.Key(), Node: page.Pod.Node, Message: err.Error(),
		Remedy: "see whether usher's manager runs: kubectl get pods -A -l app.kubernetes.io/name=usher",
	}
	switch {
	case errors.Is(err, observe.ErrNoVerdict):
		b.Message = fmt.Sprintf("its label %s names policy %q, and no verdict was returned: usher's manager is not there, or the policy is gone", v1alpha1.PolicyLabel, page.Pod.Policy())
		b.Remedy += fmt.Sprintf("; if no policy is to govern it: kubectl label pod -n %s %s %s-", page.Pod.Namespace, page.Pod.Name, v1alpha1.PolicyLabel)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		b.Message = "its namespace is being deleted, where no verdict can be asked for: what keeps a pod there is in the log of usher's manager"
		b.Remedy = "wait; see what is left: kubectl get pods,evictionpolicies -n " + page.Pod.Namespace
	case apierrors.IsForbidden(err):
		b.Message = "its system cannot be asked: " + err.Error()
		b.Remedy = "ask for the right to create pods/eviction in namespace " + page.Pod.Namespace
	}
	return b
}
