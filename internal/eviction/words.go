package eviction

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"

	"usher.sh/usher/internal/expression"
)

// lookAgain is when a blocker that the system's own life may clear is worth another look.
const lookAgain = 10 * time.Second

func claimedTwice(found []claimant) Blocker {
	var names, policies []string
	for _, c := range found {
		names = append(names, fmt.Sprintf("%s (spec.members[%d])", c.policy.Key.Name, c.entry.index))
		if !slices.Contains(policies, c.policy.Key.Name) {
			policies = append(policies, c.policy.Key.Name)
		}
	}
	return Blocker{
		Reason:  ClaimedTwice,
		Message: "more than one entry of the policies claims the pod: " + expression.Listed(names) + "; it stays until only one does",
		Remedy:  fmt.Sprintf("change the selectors so that each pod is claimed once: kubectl edit evictionpolicy -n %s %s", found[0].policy.Key.Namespace, strings.Join(policies, " ")),
	}
}

func policyInvalid(policy snapshot.Key, problems []Problem) Blocker {
	const shown = 3
	var said []string
	for _, problem := range problems[:min(shown, len(problems))] {
		said = append(said, problem.Path+": "+problem.Message)
	}
	if rest := len(problems) - len(said); rest > 0 {
		said = append(said, fmt.Sprintf("and %d more", rest))
	}
	return Blocker{
		Reason:  PolicyInvalid,
		Message: fmt.Sprintf("policy %s cannot be used and its pods stay until it can: %s", policy.Name, strings.Join(said, "; ")),
		Remedy:  "correct it: kubectl edit evictionpolicy -n " + policy.Namespace + " " + policy.Name,
	}
}

func leavesByReplacement(policy snapshot.Key, pod *snapshot.Pod, why string) Blocker {
	return Blocker{
		Reason: LeavesByReplacement, Message: fmt.Sprintf("another member takes the place of %s, and the pod goes with it then: %s", pod.Name, why),
		Remedy: fmt.Sprintf("wait while its eviction is asked for: kubectl get memberset %s -n %s -o yaml shows how far that is", policy.Name, policy.Namespace), Retry: lookAgain,
	}
}

func departureUnknown(policy snapshot.Key, pod *snapshot.Pod) Blocker {
	return Blocker{
		Reason: LeavesByReplacement, Message: fmt.Sprintf("MemberSet %s has not noted yet what comes of the eviction of pod %s", policy.Name, pod.Name),
		Remedy: fmt.Sprintf("wait; if it stays so: kubectl describe memberset %s -n %s", policy.Name, policy.Namespace), Retry: lookAgain,
	}
}

func policySuspended(policy snapshot.Key) Blocker {
	return Blocker{
		Reason:  PolicySuspended,
		Message: fmt.Sprintf("policy %s is suspended by its owner, and its pods stay until it is not", policy.Name),
		Remedy:  "set spec.suspend to false: kubectl edit evictionpolicy -n " + policy.Namespace + " " + policy.Name,
	}
}

func policyUnknown(pod snapshot.Key, label string) Blocker {
	return Blocker{
		Reason:  PolicyUnknown,
		Message: fmt.Sprintf("the pod's label %s names policy %q, and namespace %s has no such policy in mode Enforce", v1alpha1.PolicyLabel, label, pod.Namespace),
		Remedy: fmt.Sprintf("wait: Usher takes off the label of a policy that has been missing for some seconds; if it stays: kubectl label pod -n %s %s %s-",
			pod.Namespace, pod.Name, v1alpha1.PolicyLabel),
		Retry: lookAgain,
	}
}

func policyDisagrees(policy snapshot.Key) Blocker {
	return Blocker{
		Reason:  PolicyUnknown,
		Message: fmt.Sprintf("the pod's label %s names policy %s, which by what is known here does not select the pod, or asks nothing of its role; it waits until one of the two has changed", v1alpha1.PolicyLabel, policy),
		Remedy:  "wait: Usher takes the label off a pod that the policy does not guard",
		Retry:   lookAgain,
	}
}

func idUnknown(problem string) Blocker {
	return Blocker{
		Reason:  MemberUnknown,
		Message: "which member of the system the pod is cannot be determined: " + problem,
		Remedy:  "correct spec.members[].id in the policy, or the pod's labels that it reads",
	}
}

func notAMember(member string) Blocker {
	return Blocker{
		Reason:  MemberUnknown,
		Message: fmt.Sprintf("the system does not know a member %q; it waits until the system does", member),
		Remedy:  "see whether the member has joined its system, and whether spec.members[].id in the policy gives the id that the system uses",
		Retry:   lookAgain,
	}
}

// forcedRemoval is about what takes a pod's object away while its process still runs. OfSet: a MemberSet writes the pod's policy, and names no controllers there.
func forcedRemoval(in *AdmissionInput, ofSet bool) Blocker {
	b := Blocker{
		Reason:  ForcedRemoval,
		Message: "a grace period of 0 would take the pod away while its process still runs, and the next member could go meanwhile; it waits for an eviction that gives it time",
		Remedy:  "leave out --grace-period=0 and --force, or break the glass",
		Retry:   lookAgain,
	}
	switch {
	case in.Pod.Terminating():
		b.Message = "it is terminating, and a grace period of 0 would take the pod away while its process still runs; it waits until its kubelet has seen it end"
		b.Remedy = "wait, or break the glass; a user that ends pods of its node and is no kubelet must be named in spec.members[].controllers of the policy"
		if ofSet {
			b.Remedy = fmt.Sprintf("wait; or, where node %s is lost, prove that it is off: usher fence %[1]s; or break the glass. A MemberSet names no user who may do this otherwise", in.Pod.Node)
		}
	case in.Grace == nil:
		b.Message = "its spec has terminationGracePeriodSeconds 0: " + b.Message
		b.Remedy = "give it time, as with --grace-period=30, or let Usher evict it: usher evict"
	}
	return b
}

func roleUnknown(absent *Absent) Blocker {
	return Blocker{
		Reason:  MemberUnknown,
		Message: fmt.Sprintf("policy %s has no members of role %s, or is not there", absent.Policy, absent.Member.Role),
		Remedy:  "name the policy and the role that the member has: kubectl get evictionpolicies",
		Retry:   lookAgain,
	}
}

func notAbsent(absent *Absent, pod *snapshot.Pod) Blocker {
	return Blocker{
		Reason:  MemberUnknown,
		Message: fmt.Sprintf("%s is said to have no pod, and pod %s is that member", absent.Member.ID, pod.Name),
		Remedy:  "ask about the pod: usher why --replace " + pod.Name + " -n " + pod.Namespace,
		Retry:   lookAgain,
	}
}

func staticPod() Blocker {
	return Blocker{
		Reason:  Unmovable,
		Message: "a static pod cannot be evicted: its node's kubelet runs it from a file, and goes on when its image in the API is taken away",
		Remedy:  "remove the file on the node",
		Never:   true,
	}
}

func daemonPod(owner string) Blocker {
	return Blocker{
		Reason:  Unmovable,
		Message: fmt.Sprintf("a pod of a DaemonSet cannot be evicted: %s would start it again on the same node at once", owner),
		Remedy:  "change the DaemonSet, or delete the pod to have it restarted where it is",
		Never:   true,
	}
}

func sharedID(member string, pods []string) Blocker {
	return Blocker{
		Reason:  MemberShared,
		Message: fmt.Sprintf("pods %s all give the id %q: whose facts the system reports cannot be known; it waits until only one gives it", expression.Print(pods), member),
		Remedy:  "see whether spec.members[].id in the policy distinguishes the pods",
		Retry:   lookAgain,
	}
}

func notAsked() Blocker {
	return Blocker{
		Reason:  NoEvidence,
		Message: "the system was not asked yet; it waits for its first answer",
		Remedy:  "ask again in a moment",
		Retry:   2 * time.Second,
	}
}

func cannotAsk(problem string) Blocker {
	return Blocker{
		Reason:  NoEvidence,
		Message: "the system cannot be asked whether the member may go: " + problem,
		Remedy:  "make the system answer, or correct spec.system in the policy (endpoints, credentials)",
		Retry:   lookAgain,
	}
}

func tooLarge(problem string) Blocker {
	return Blocker{
		Reason:  EvidenceTooLarge,
		Message: "the system's answers are not kept: " + problem,
		Remedy: "ask the system for less (narrower URLs in spec.system.http.facts), or have the administrator raise the manager's memory limit and " +
			"its flag --evidence-memory",
		Retry: lookAgain,
	}
}

func stale(message string) Blocker {
	return Blocker{
		Reason:  EvidenceStale,
		Message: message + "; it waits for newer evidence",
		Remedy:  "ask again in a moment",
		Retry:   2 * time.Second,
	}
}

func factMissing(r *rule, missing *expression.MissingError) Blocker {
	return Blocker{
		Rule:    r.declared.Name,
		Reason:  FactMissing,
		Message: fmt.Sprintf("rule %s asks for %q, which the system did not say; it waits until it does", r.declared.Name, missing.Fact),
		Remedy:  "see why the system does not say it, or correct the rule (kubectl describe evictionpolicy)",
		Retry:   lookAgain,
	}
}

func podMissing(r *rule) Blocker {
	return Blocker{
		Rule:    r.declared.Name,
		Reason:  PodMissing,
		Message: fmt.Sprintf("rule %s asks for the member's pod, and there is none", r.declared.Name),
		Remedy:  "see why its owner makes no pod, or correct the rule where it need not know the pod (kubectl describe evictionpolicy)",
		Retry:   lookAgain,
	}
}

func ruleFailed(r *rule, err error) Blocker {
	return Blocker{
		Rule:    r.declared.Name,
		Reason:  RuleFailed,
		Message: fmt.Sprintf("rule %s has no answer: %s", r.declared.Name, err),
		Remedy:  "correct the rule in the policy's role",
		Retry:   time.Minute,
	}
}

func stepFailed(step *preparation, err error) Blocker {
	return Blocker{
		Rule:    step.name,
		Reason:  RuleFailed,
		Message: fmt.Sprintf("whether %s is needed cannot be determined: %s", step.name, err),
		Remedy:  "correct evict.prepare in the policy's role",
		Retry:   lookAgain,
	}
}

func anotherIsLeaving(others []*v1alpha1.Leaving, r *role, namespace string) Blocker {
	var names []string
	until, remedy := "it waits until that was seen gone", "wait"
	for _, other := range others {
		if other.GoneTime != nil {
			until = fmt.Sprintf("%s was seen gone at %s, and %s", other.PodName, other.GoneTime.UTC().Format(time.RFC3339), awaitedOfGone(r))
		} else {
			remedy = fmt.Sprintf("wait; usher why pod/%s -n %s shows what holds that one while it is there", other.PodName, namespace)
		}
		name := other.PodName
		if other.ID != "" && other.ID != other.PodName {
			name += " (" + other.ID + ")"
		}
		names = append(names, name)
	}
	return Blocker{
		Reason:  AnotherIsLeaving,
		Message: fmt.Sprintf("%s on the way out, and of role %s %s at a time; %s", are(names), r.declared.Name, mayLeave(r.atOnce), until),
		Remedy:  remedy,
		Retry:   5 * time.Second,
	}
}

func anotherIsReplaced(others []*v1alpha1.Replacing, namespace string) Blocker {
	var names []string
	for _, other := range others {
		names = append(names, other.ID)
	}
	return Blocker{
		Reason:  AnotherIsReplaced,
		Message: fmt.Sprintf("%s being replaced; it waits until the successor does its work", are(names)),
		Remedy:  fmt.Sprintf("wait; kubectl get replacementrequest %s -n %s shows what that waits for", others[0].Request, namespace),
		Retry:   5 * time.Second,
	}
}

func replacedForAnother(other *v1alpha1.Replacing, namespace string) Blocker {
	return Blocker{
		Reason:  AnotherIsReplaced,
		Message: fmt.Sprintf("%s is being replaced for request %s already; it waits until that is over", other.ID, other.Request),
		Remedy:  fmt.Sprintf("delete this request; or wait: kubectl get replacementrequest %s -n %s shows what the other one waits for", other.Request, namespace),
		Retry:   5 * time.Second,
	}
}

// awaitedOfGone says why a member counts whose pod was seen gone: without evict.settle the permit stands for a step to be undone alone.
func awaitedOfGone(r *role) string {
	if r.settle == 0 {
		return fmt.Sprintf("what was prepared for it is taken back, which is waited for no longer than %s", undoFirst)
	}
	return fmt.Sprintf("its system has %s to find that out (evict.settle) unless a Ready pod has its id before", r.settle)
}

func readyUnknown(r *role) Blocker {
	return Blocker{
		Reason:  TooFewReady,
		Message: fmt.Sprintf("it is not known how many other members of role %s are Ready (evict.minReady: %d); it waits until the pods were listed", r.declared.Name, r.minReady),
		Remedy:  "ask again in a moment",
		Retry:   2 * time.Second,
	}
}

func tooFewReady(ready []string, r *role) Blocker {
	found := "no other member"
	if len(ready) > 0 {
		found = expression.Listed(ready) + " only"
	}
	return Blocker{
		Reason:  TooFewReady,
		Message: fmt.Sprintf("of role %s %s would be left with a Ready pod, and evict.minReady is %d; it waits until more are Ready", r.declared.Name, found, r.minReady),
		Remedy:  "start more members, see why the others are not Ready (kubectl get pods), or lower evict.minReady in the role",
		Retry:   lookAgain,
	}
}

func earlierUnknown(e *entry) Blocker {
	return Blocker{
		Reason:  EarlierRole,
		Message: fmt.Sprintf("whether members of %s, which leave before it (%s), are on its node is not known; it waits until the pods were listed", expression.Listed(e.leavesAfter), e.orderedBy()),
		Remedy:  "ask again in a moment",
		Retry:   2 * time.Second,
	}
}

// earlierRoles names the members that are waited for. What can never leave by an eviction gets the remedy, since waiting is none.
func earlierRoles(members []rosterMember, e *entry, policy snapshot.Key) Blocker {
	const shown = 3
	var names []string
	for _, m := range members[:min(shown, len(members))] {
		name := m.pod
		if m.id != "" && m.id != m.pod {
			name += " (" + m.id + ")"
		}
		names = append(names, name+" of role "+m.role)
	}
	if rest := len(members) - len(names); rest > 0 {
		names = append(names, fmt.Sprintf("%d more", rest))
	}
	b := Blocker{
		Reason:  EarlierRole,
		Message: fmt.Sprintf("members that leave before it (%s) are on its node: %s; it waits until they have left", e.orderedBy(), expression.Listed(names)),
		Remedy:  fmt.Sprintf("wait; usher why pod/%s -n %s shows what holds that one", members[0].pod, policy.Namespace),
		Retry:   5 * time.Second,
	}
	if at := slices.IndexFunc(members, func(m rosterMember) bool { return m.fixed }); at >= 0 {
		b.Remedy = fmt.Sprintf("take role %s out of %s (kubectl edit evictionpolicy -n %s %s): %s cannot be evicted, since it would be back on the node at once",
			members[at].role, e.orderedBy(), policy.Namespace, policy.Name, members[at].pod)
		b.Retry = lookAgain
	}
	return b
}

func anotherIsPrepared(names []string, r *role) Blocker {
	return Blocker{
		Reason:  AnotherIsPrepared,
		Message: fmt.Sprintf("%s being prepared, and of role %s %s at a time; it waits for its turn", are(names), r.declared.Name, mayLeave(r.atOnce)),
		Remedy:  "wait, or withdraw the other request (`usher evictions` lists them)",
		Retry:   lookAgain,
	}
}

func are(names []string) string {
	if len(names) == 1 {
		return names[0] + " is"
	}
	return expression.Listed(names) + " are"
}

func mayLeave(atOnce int) string {
	if atOnce == 1 {
		return "one may leave"
	}
	return fmt.Sprintf("%d may leave", atOnce)
}

func isPending(step *v1alpha1.PreparationStatus, message string) Blocker {
	if step.Message != "" {
		message += "; " + step.Message
	}
	return Blocker{
		Rule:    step.Name,
		Reason:  PreparationPending,
		Message: fmt.Sprintf("%s was begun at %s: %s", step.Name, step.StartTime.UTC().Format(time.RFC3339), message),
		Remedy:  "wait until it is done",
		Retry:   lookAgain,
	}
}

func begunForAnotherPod(step *v1alpha1.PreparationStatus) Blocker {
	return Blocker{
		Rule:    step.Name,
		Reason:  PreparationPending,
		Message: fmt.Sprintf("%s was begun for another pod of the member, %s, and is taken back once that one was seen gone", step.Name, step.PodName),
		Remedy:  "wait until it is taken back, then ask again",
		Retry:   lookAgain,
	}
}

// beingUndone does not know which of two causes there was: the status keeps none.
func beingUndone(policy *Declared, step *v1alpha1.PreparationStatus) Blocker {
	why := "no eviction of the member was requested any more, or it was begun for a pod that is gone"
	if policy.Deleted {
		why = "policy " + policy.Key.Name + " is being deleted"
	}
	message := fmt.Sprintf("%s is being taken back, since %s; it waits until that is done", step.Name, why)
	remedy := "wait until it is taken back, then ask again"
	if step.Message != "" {
		message += ": " + step.Message
		remedy = fmt.Sprintf("see that the system can take it back; if it never will, see to it there, then take the step out of spec.system.http.steps, "+
			"or where the step is not the policy's own, set spec.suspend, delete the policy and create it anew: kubectl edit evictionpolicy -n %s %s",
			policy.Key.Namespace, policy.Key.Name)
	}
	return Blocker{
		Rule:    step.Name,
		Reason:  PreparationPending,
		Message: message,
		Remedy:  remedy,
		Retry:   lookAgain,
	}
}

func lostStepMissing(step string) Blocker {
	return Blocker{
		Reason:  PreparationPending,
		Message: fmt.Sprintf("its node is proven off, and %s is not written down yet, which is done for what it carries", step),
		Remedy:  "wait: it is written down within seconds, unless the policy is suspended or the manager does not run",
		Retry:   lookAgain,
	}
}

func noSuccessor(role string) Blocker {
	return Blocker{
		Reason:  NoSuccessor,
		Message: fmt.Sprintf("a member of role %s is never replaced: no other can take its place", role),
		Remedy:  "restore it where it is, from its disk or a backup",
		Never:   true,
	}
}
