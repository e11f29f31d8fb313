package replacement

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/replacement"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
)

// look is what is known of a request at one moment.
type look struct {
	request *v1alpha1.ReplacementRequest
	read    time.Time                // when all was, of which a later look takes some over
	policy  *v1alpha1.EvictionPolicy // nil: it is not there
	pod     *corev1.Pod              // under the member's name, as the apiserver has it; nil: there is none
	cached  bool                     // it is looked at by few reads: of nodes, and of a successor, by the cache
	in      replacement.StepInput
	places  []v1alpha1.ReplacementPlace
	nodes   map[string]node // that were read
	made    *corev1.Pod     // what the set would make under the member's name; nil: that was not read
	// template is the set's, of the pods that it makes; nil: that was not read.
	template *corev1.PodSpec
	role     *v1alpha1.Role        // the member's; nil: no entry claims it
	data     []string              // nodes that the volumes may be on
	pods     []string              // that have not finished and are the member; nil: that was not read, or none is
	verdict  []replacement.Blocker // what keeps the member by its rules, as its system is by now
	asked    bool                  // since the look began its system was asked to put the successor on its list
	entryAt  int                   // of the policy's entries, the one that claims the member; -1: none
	// patch is the provider of the entry with its values for the member; nil: no object is patched. Do and Undo are what it comes to for the
	// object as it was read; nil: nothing.
	patch    *v1alpha1.PatchProvider
	do, undo json.RawMessage
}

func (l *look) policyKey() snapshot.Key {
	return snapshot.Key{Namespace: l.request.Namespace, Name: l.request.Spec.Source.Name}
}

// policyVersion is that of the policy that was read, "" where none was.
func (l *look) policyVersion() string {
	if l.policy == nil {
		return ""
	}
	return l.policy.ResourceVersion
}

func (l *look) entry() v1alpha1.Replacing {
	return v1alpha1.Replacing{
		Role: l.request.Spec.Member.Role, ID: l.request.Spec.Member.ID, Request: l.request.Name, RequestUID: l.request.UID,
		StartTime: metav1.NewTime(l.in.Now),
	}
}

func (l *look) lacks(b replacement.Blocker) { l.in.Rules = append(l.in.Rules, b) }

func (l *look) unread(what string, err error, remedy string) {
	l.in.Unread = append(l.in.Unread, replacement.Unread(what, err.Error(), remedy))
}

// newLook has read nothing.
func (r *reconciler) newLook(request *v1alpha1.ReplacementRequest) *look {
	l := &look{request: request, read: r.Now(), places: request.Status.Places, nodes: map[string]node{}, entryAt: -1}
	l.in = replacement.StepInput{
		Now: r.Now(), Namespace: request.Namespace, Repair: request.Spec.Requester == replacement.RepairRequester, Cancelled: request.DeletionTimestamp != nil, Progress: replacement.ProgressOf(&request.Status),
		Member: v1alpha1.MemberRef{Role: request.Spec.Member.Role, ID: request.Spec.Member.ID},
		System: replacement.Membership{Left: replacement.Yes, Joined: replacement.Yes}, Policy: request.Spec.Source.Name,
	}
	if given := request.Spec.Abandonment; given != nil {
		l.in.Abandonment = replacement.Abandonment{Requester: given.Requester, Rules: given.Rules}
	}
	if begun := request.Status.StepTime; begun != nil {
		l.in.StepTime = begun.Time
	}
	return l
}

// look reads what the next step rests on: what is removed, and what says that it may be, past the cache.
func (r *reconciler) look(ctx context.Context, request *v1alpha1.ReplacementRequest) (*look, error) {
	ctx, cancel := context.WithTimeout(ctx, r.patienceFor(ctx, request))
	defer cancel()
	l := r.newLook(request)
	if err := r.source(ctx, l); err != nil || l.in.Progress.Phase.Over() {
		return l, err
	}
	switch is, err := r.delegates(ctx, l); {
	case err != nil:
		return l, err
	case is:
		return l, r.delegated(ctx, l)
	}
	if err := r.member(ctx, l); err != nil || l.in.Member.PodName == "" || l.in.Set.Name == "" {
		return l, err
	}
	l.claimed(r.Gatherer.Policies)
	joining := l.in.Progress.Phase == replacement.Joining
	if unbound := l.pod != nil && l.pod.Spec.NodeName == ""; unbound || !joining { // the nodes of its volumes are read with them
		var err error
		if l.data, err = r.claims(ctx, l); err != nil {
			return l, err
		}
	}
	if err := r.present(ctx, l); err != nil {
		return l, err
	}
	if !joining {
		l.in.Retain = l.retains()
		if err := r.whereabouts(ctx, l); err != nil {
			return l, err
		}
	}
	r.listing(ctx, l)
	return l, r.judge(ctx, l)
}

// source reads the policy, and whether it says that the member is being replaced for this request. One that is gone says nothing of others
// either: what was begun goes on without.
func (r *reconciler) source(ctx context.Context, l *look) error {
	policy, err := r.Gatherer.Policies.Policy(ctx, l.policyKey())
	switch {
	case apierrors.IsNotFound(err):
		l.unwritten()
		l.lacks(replacement.NoSource(l.request.Spec.Source.Name))
		return nil
	case err != nil:
		return err
	}
	l.policy = policy
	if at := eviction.ReplacingFor(&policy.Status, l.request.UID); at >= 0 {
		l.in.PermitTime = policy.Status.Replacing[at].StartTime.Time
	}
	entry := l.entry()
	if other := eviction.ReplacedForAnother(&policy.Status, &entry); other != nil {
		l.in.PermittedFor = other.Request
	}
	if !runBySet(policy) { // whose members are marked for good by a request
		l.in.Unfounded = replacement.Unfounded(policy, l.request, l.in.Now)
	}
	if policy.Spec.Audited() {
		l.lacks(replacement.AuditedSource(policy.Name))
	}
	if policy.DeletionTimestamp != nil {
		l.lacks(replacement.NoSource(policy.Name))
		l.unwritten()
	}
	return nil
}

// unwritten has what was begun go on where no policy takes note of it any more, also where that was taken back to wait.
func (l *look) unwritten() {
	phase := l.in.Progress.Phase
	waits := phase == replacement.Waiting && !l.in.Progress.StartTime.IsZero() && !l.in.Cancelled
	if l.in.PermitTime.IsZero() && (waits || phase == replacement.Removing || phase == replacement.Joining) {
		l.in.PermitTime = l.in.Now
	}
}

// member finds the member's pod and the set that makes it.
func (r *reconciler) member(ctx context.Context, l *look) error {
	var name, set string
	if p := l.request.Status.Predecessor; p != nil {
		name, set = p.PodName, p.StatefulSet
	}
	if name == "" && l.policy != nil {
		var err error
		if name, err = r.named(ctx, l); err != nil {
			return err
		}
	}
	if name == "" {
		if l.policy != nil {
			l.lacks(replacement.NoMember(l.in.Member.Role, l.in.Member.ID, l.policy.Name))
		}
		return nil
	}
	if err := r.readPod(ctx, l, name); err != nil {
		return err
	}
	return r.set(ctx, l, set)
}

// readPod reads the pod under the member's name, past the cache.
func (r *reconciler) readPod(ctx context.Context, l *look, name string) (err error) {
	l.in.Member.PodName = name
	l.pod, err = r.Gatherer.FreshPod(ctx, snapshot.Key{Namespace: l.request.Namespace, Name: name})
	return err
}

// set reads the StatefulSet of the name; "": that of the pod, or the one that would make it.
func (r *reconciler) set(ctx context.Context, l *look, name string) error {
	if l.pod != nil {
		owner := metav1.GetControllerOfNoCopy(l.pod)
		switch ours := owner != nil && owner.Kind == "StatefulSet" && strings.HasPrefix(owner.APIVersion, appsv1.GroupName+"/"); {
		case !ours && name == "":
			l.lacks(replacement.NotOfSet(l.pod.Name))
			return nil
		case !ours:
			l.in.Unread = append(l.in.Unread, replacement.NotOfSet(l.pod.Name))
		case name == "":
			name = owner.Name
		}
	}
	if name == "" {
		name, _ = setOf(l.in.Member.PodName)
	}
	l.in.Set = replacement.Set{Name: name}
	if l.in.Progress.Phase == replacement.Joining && !l.in.Cancelled && l.pod != nil && l.pod.Spec.NodeName != "" { // it was made, and has its claims
		l.in.Set.Makes = replacement.Yes
		return nil
	}
	for _, c := range l.in.Progress.Claims { // whatever the set's templates say by now
		l.in.Claims = append(l.in.Claims, replacement.Claim{Name: c.Name})
	}
	set, err := r.statefulSet(ctx, snapshot.Key{Namespace: l.request.Namespace, Name: name})
	switch {
	case apierrors.IsForbidden(err):
		l.unread("StatefulSet "+name, err, bringRights)
		return nil
	case err != nil:
		return err
	case set == nil:
		l.in.Set.Makes = replacement.No
		return nil
	}
	if err := r.producible(ctx, l, set); err != nil {
		return err
	}
	l.in.Grace = max(l.in.Grace, graceOf(&set.Spec.Template.Spec))
	for i := range set.Spec.VolumeClaimTemplates {
		name := set.Spec.VolumeClaimTemplates[i].Name + "-" + l.in.Member.PodName
		if !slices.ContainsFunc(l.in.Claims, func(c replacement.Claim) bool { return c.Name == name }) {
			l.in.Claims = append(l.in.Claims, replacement.Claim{Name: name})
		}
	}
	return nil
}

// producible notes what a set makes under the member's name, and what it waits for before it does.
func (r *reconciler) producible(ctx context.Context, l *look, set *appsv1.StatefulSet) (err error) {
	l.in.Set.Makes, l.template = makes(set, l.in.Member.PodName), &set.Spec.Template.Spec
	if l.in.Set.Makes != replacement.Yes {
		return nil
	}
	_, ordinal := setOf(l.in.Member.PodName)
	l.made = observe.MadePod(set, ordinal)
	l.in.Set.After, err = r.after(ctx, set, ordinal)
	return err
}

// graceOf is how long a pod may take to end.
func graceOf(pod *corev1.PodSpec) time.Duration {
	if pod.TerminationGracePeriodSeconds == nil {
		return corev1.DefaultTerminationGracePeriodSeconds * time.Second
	}
	return snapshot.Seconds(*pod.TerminationGracePeriodSeconds)
}

// claims reads the member's claims and their volumes, and returns the nodes that these may be on.
func (r *reconciler) claims(ctx context.Context, l *look) (data []string, err error) {
	for i := range l.in.Claims {
		nodes, err := r.claim(ctx, l, &l.in.Claims[i])
		switch {
		case apierrors.IsForbidden(err):
			l.unread("claim "+l.in.Claims[i].Name, err, bringRights)
		case err != nil:
			return nil, err
		}
		data = append(data, nodes...)
	}
	return data, nil
}

// retains reports whether volumes are kept. A policy that is gone, or says nothing, keeps them.
func (l *look) retains() bool {
	provider := l.provider()
	return provider == nil || provider.StatefulSet == nil || provider.StatefulSet.VolumeClaims != v1alpha1.VolumeClaimsDelete
}

// provider is what the policy says of the entry that claims the member; nil: nothing.
func (l *look) provider() *v1alpha1.Provider {
	if l.policy == nil || l.entryAt < 0 || l.entryAt >= len(l.policy.Spec.Members) {
		return nil
	}
	return l.policy.Spec.Members[l.entryAt].Provider
}

// present says what the pod under the member's name is.
func (r *reconciler) present(ctx context.Context, l *look) error {
	if l.pod == nil {
		return nil
	}
	l.in.Grace = max(l.in.Grace, graceOf(&l.pod.Spec))
	l.in.Pod = namedPod(l.pod)
	if l.pod.Spec.NodeName == "" {
		return nil
	}
	var err error
	l.in.Pod.Node, err = r.node(ctx, l, l.pod.Spec.NodeName)
	return err
}

// namedPod is what a pod says of itself.
func namedPod(pod *corev1.Pod) *replacement.NamedPod {
	named := &replacement.NamedPod{UID: pod.UID, Version: pod.ResourceVersion, Terminating: pod.DeletionTimestamp != nil}
	if at, grace := pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds; at != nil && grace != nil {
		named.DeletionTime = at.Add(-snapshot.Seconds(*grace))
	}
	for _, c := range pod.Status.Conditions {
		switch {
		case c.Type == corev1.PodReady:
			named.Ready = c.Status == corev1.ConditionTrue
		case c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse:
			named.Unscheduled = c.Message
		}
	}
	return named
}

// whereabouts reads the nodes of the volumes, and of the places that are written down.
func (r *reconciler) whereabouts(ctx context.Context, l *look) error {
	var here *replacement.Node
	if l.in.Pod != nil && l.in.Pod.Node.Name != "" {
		here = &l.in.Pod.Node
	}
	var volumes []replacement.Node
	for _, name := range l.data {
		node, err := r.node(ctx, l, name)
		if err != nil {
			return err
		}
		volumes = append(volumes, node)
	}
	l.places = replacement.NotePlaces(l.request.Status.Places, here, volumes, l.in.Now)
	for i := range l.places {
		p := &l.places[i]
		if p.GoneTime == nil { // the pod is there, and is looked at itself
			continue
		}
		node, err := r.node(ctx, l, p.Node)
		if err != nil {
			return err
		}
		// A Node that was made anew under the name may be the same machine, with what it runs.
		l.in.Places = append(l.in.Places, replacement.Place{Node: node, GoneTime: p.GoneTime.Time})
	}
	return nil
}

// judge asks for the verdict, as long as it decides whether the member is replaced, and for what its system reports of the successor.
func (r *reconciler) judge(ctx context.Context, l *look) error {
	if l.policy == nil {
		l.in.System.Reported = replacement.Yes
		return nil
	}
	if l.in.Progress.Phase == replacement.Removing && !replacement.Untouched(&l.in) { // no rule keeps from going what is in part gone
		return nil
	}
	input, err := r.input(ctx, l)
	if err != nil {
		return err
	}
	l.in.System.Reported = reported(input.Evidence, l.in.Member.ID)
	if l.in.Progress.Phase == replacement.Joining {
		return nil
	}
	l.declared(r.succession(l.policy), r.kind(l.policy).Keeps)
	l.judged(input)
	return nil
}

// judged notes what keeps the member from being replaced by the rules.
func (l *look) judged(input eviction.Input) {
	verdict := eviction.JudgeReplacing(input, l.request.UID)
	for i := range verdict.Blockers {
		b := &verdict.Blockers[i]
		l.verdict = append(l.verdict, replacement.Blocker{Rule: b.Rule, Reason: replacement.Reason(b.Reason), Message: b.Message, Remedy: b.Remedy, Never: b.Never, WaivedBy: b.WaivedBy})
	}
	l.in.Rules = append(l.in.Rules, l.verdict...)
}

func (r *reconciler) input(ctx context.Context, l *look) (eviction.Input, error) {
	if l.pod != nil {
		in, err := r.Gatherer.Input(ctx, policycache.Subject{
			Pod: l.pod, Fresh: !l.cached, FreshNode: !l.cached, FreshMembers: !l.cached, Replace: true, ReadNode: l.nodes[l.pod.Spec.NodeName].object,
		})
		in.Deleted = in.Deleted || l.pod.Spec.NodeName == "" // it is a later one; where earlier ones were is looked at by themselves
		return in, err
	}
	return r.Gatherer.AbsentInput(ctx, l.policy, l.in.Member, replacement.Gone(l.in))
}

// reported says whether a system reports a member. Where its role asks nothing of the system, there is nothing to report.
func reported(evidence *eviction.Evidence, id string) replacement.Tristate {
	switch {
	case evidence == nil:
		return replacement.Yes
	case evidence.Error != "":
		return replacement.Unknown
	case evidence.Members[id] == nil:
		return replacement.No
	}
	return replacement.Yes
}

// claimed finds the entry of the policy that claims the member, and notes where the pod of its name is another one.
func (l *look) claimed(policies *policycache.Cache) {
	if l.policy == nil {
		return
	}
	compiled := policies.Compiled(l.policy)
	claim, claims := compiled.ClaimOf(l.in.Member.Role, l.in.Member.ID)
	if pod := l.pod; pod != nil {
		claim, claims = compiled.Claim(policycache.Facts(pod))
	} else if l.made != nil {
		claim, claims = compiled.Claim(policycache.Facts(l.made))
	}
	if !claims || claim.Role == nil || claim.Role.Name != l.in.Member.Role || claim.Member != l.in.Member.ID {
		l.lacks(replacement.NoMember(l.in.Member.Role, l.in.Member.ID, l.policy.Name))
		return
	}
	l.entryAt, l.role = claim.Entry, claim.Role
	if l.pod == nil && l.made == nil && l.sharedRole() { // which entry's it is, nothing says: that its set makes no pod is waited for
		l.entryAt = -1
	}
}

// unshared notes where several pods are the member: which of them is to be replaced is not known.
func (l *look) unshared() {
	if len(l.pods) > 1 {
		l.lacks(replacement.SharedMember(l.in.Member.ID, l.pods))
	}
}

// sharedRole reports whether several entries of the policy have the member's role.
func (l *look) sharedRole() bool {
	entries := 0
	for i := range l.policy.Spec.Members {
		if l.policy.Spec.Members[i].Role == l.in.Member.Role {
			entries++
		}
	}
	return entries > 1
}

// declared notes what the policy, and the set's template, lack for the member to be replaced.
func (l *look) declared(by system.Succession, keeps func(*corev1.PodSpec) (refusal, remedy string)) {
	if l.entryAt >= 0 && l.provider() == nil {
		l.lacks(replacement.NoProvider(l.policy.Name, l.in.Member.Role))
	}
	if l.role == nil {
		return
	}
	fits := keeps
	switch l.role.Replace.Successor {
	case v1alpha1.SuccessorNewIdentity:
		if fits = by.Refuses; by.Order == "" {
			l.lacks(replacement.NewIdentityUnsupported(l.role.Name, l.role.System))
		}
	case v1alpha1.SuccessorSameIdentity:
	case v1alpha1.SuccessorAnyPod, v1alpha1.SuccessorNone:
		return
	}
	if fits == nil || l.template == nil {
		return
	}
	if refusal, remedy := fits(l.template); refusal != "" {
		l.lacks(replacement.TemplateRefused(refusal, remedy))
	}
}
