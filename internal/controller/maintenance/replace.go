package maintenance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/maintenance"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/replacement"
)

// volumesAtOnce is how many volumes one answer has.
const volumesAtOnce = 500

// replaceMembers makes a ReplacementRequest for each member whose data is on a node alone, or for each of them whose pod has left it. No error: all of
// them are there. A namespace in which one cannot be made keeps those of others from nothing.
func (r *reconciler) replaceMembers(ctx context.Context, wanted maintenance.Replacement) error {
	var node corev1.Node
	err := r.live.Get(ctx, client.ObjectKey{Name: wanted.Node}, &node)
	if apierrors.IsNotFound(err) || err == nil && node.UID != wanted.Call.Node {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading node %s: %w", wanted.Node, err)
	}
	claims, err := r.claimsOn(ctx, &node)
	if err != nil {
		return err
	}
	var failed []error
	for _, namespace := range namespacesOf(claims) {
		if err := r.replaceIn(ctx, namespace, claims[namespace], wanted); err != nil {
			failed = append(failed, fmt.Errorf("namespace %s: %w", namespace, err))
		}
	}
	return errors.Join(failed...)
}

// claimsOn returns the claims whose volumes can be used on a node alone, with the names of these, by namespace. They are found by the volumes: what a
// pod says of where its data is is its author's word.
func (r *reconciler) claimsOn(ctx context.Context, node *corev1.Node) (map[string][]corev1.PersistentVolume, error) {
	var nodes corev1.NodeList
	if err := r.client.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	found := map[string][]corev1.PersistentVolume{}
	for next := ""; ; {
		var volumes corev1.PersistentVolumeList
		if err := r.live.List(ctx, &volumes, client.Limit(volumesAtOnce), client.Continue(next)); err != nil {
			return nil, fmt.Errorf("listing volumes: %w", err)
		}
		for i := range volumes.Items {
			v := &volumes.Items[i]
			if v.Spec.ClaimRef != nil && observe.OnNodeAlone(v, node, nodes.Items) {
				found[v.Spec.ClaimRef.Namespace] = append(found[v.Spec.ClaimRef.Namespace], *v)
			}
		}
		if next = volumes.Continue; next == "" {
			return found, nil
		}
	}
}

func namespacesOf(claims map[string][]corev1.PersistentVolume) []string {
	var all []string
	for namespace := range claims {
		all = append(all, namespace)
	}
	slices.Sort(all)
	return all
}

// replaceIn makes the requests of one namespace.
func (r *reconciler) replaceIn(ctx context.Context, namespace string, volumes []corev1.PersistentVolume, wanted maintenance.Replacement) error {
	policies, err := r.providing(ctx, namespace)
	if err != nil || len(policies) == 0 {
		return err
	}
	u := &users{volumes: volumes, made: make([]*corev1.Pod, len(volumes)), bound: map[int]bool{}}
	err = observe.EachPage(ctx, r.live, &appsv1.StatefulSetList{}, u.addSets, client.InNamespace(namespace))
	if err != nil {
		return fmt.Errorf("listing StatefulSets: %w", err)
	}
	standing, err := r.requests(ctx, client.InNamespace(namespace))
	if err != nil {
		return err
	}
	var failed []error
	request := func(volume int, pod *corev1.Pod) {
		if wanted.Gone && pod.Spec.NodeName != "" {
			return
		}
		bound, err := r.boundOnce(ctx, u, volume)
		if bound {
			err = r.requestFor(ctx, policies, pod, standing, wanted)
		}
		failed = append(failed, err)
	}
	err = observe.EachPage(ctx, r.live, &corev1.PodList{}, func(pods *corev1.PodList) bool { return u.eachUser(pods, request) }, client.InNamespace(namespace))
	if err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	for i, pod := range u.made { // those that are not there
		if pod != nil {
			request(i, pod)
		}
	}
	return errors.Join(failed...)
}

// requests are those that the apiserver has.
func (r *reconciler) requests(ctx context.Context, options ...client.ListOption) (all []*v1alpha1.ReplacementRequest, err error) {
	err = observe.EachPage(ctx, r.live, &v1alpha1.ReplacementRequestList{}, func(page *v1alpha1.ReplacementRequestList) bool {
		for i := range page.Items {
			all = append(all, replacement.Slim(&page.Items[i]))
		}
		return true
	}, options...)
	if err != nil {
		return nil, fmt.Errorf("listing requests: %w", err)
	}
	return all, nil
}

// users are the pods that use the claims of volumes: those that are there, an operator's as well, or those that StatefulSets make.
type users struct {
	volumes []corev1.PersistentVolume
	made    []*corev1.Pod // by a set, for each volume; nil: none is, or it is there
	bound   map[int]bool  // whether a volume is bound to its claim, where that was read
}

func (u *users) addSets(page *appsv1.StatefulSetList) (more bool) {
	for i := range page.Items {
		for v := range u.volumes {
			if ordinal, is := ordinalOf(&page.Items[i], u.volumes[v].Spec.ClaimRef.Name); is {
				u.made[v] = observe.MadePod(&page.Items[i], ordinal)
			}
		}
	}
	return true
}

// eachUser calls each with the pods of a page that use a volume.
func (u *users) eachUser(page *corev1.PodList, each func(volume int, pod *corev1.Pod)) (more bool) {
	for i := range page.Items {
		pod := &page.Items[i]
		for v := range u.volumes {
			made := u.made[v] != nil && u.made[v].Name == pod.Name
			if made {
				u.made[v] = nil
			}
			if made || mounts(pod, u.volumes[v].Spec.ClaimRef.Name) {
				each(v, pod)
			}
		}
	}
	return true
}

func mounts(pod *corev1.Pod, claim string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
	})
}

// boundOnce reports whether a volume is bound to its claim, and reads that once.
func (r *reconciler) boundOnce(ctx context.Context, u *users, volume int) (bool, error) {
	if bound, read := u.bound[volume]; read {
		return bound, nil
	}
	bound, err := r.bound(ctx, &u.volumes[volume])
	if err == nil {
		u.bound[volume] = bound
	}
	return bound, err
}

// requestFor makes a request for the member that a pod is, if any.
func (r *reconciler) requestFor(
	ctx context.Context, policies []*v1alpha1.EvictionPolicy, pod *corev1.Pod, standing []*v1alpha1.ReplacementRequest, wanted maintenance.Replacement,
) error {
	for _, policy := range policies {
		if member, is := r.memberOf(policy, pod); is {
			return r.request(ctx, policy, member, standing, wanted)
		}
	}
	return nil
}

// providing returns the policies of a namespace in mode Enforce that say for some of their members how a successor comes about.
func (r *reconciler) providing(ctx context.Context, namespace string) ([]*v1alpha1.EvictionPolicy, error) {
	policies, err := r.Policies.Policies(ctx, namespace)
	if err != nil {
		return nil, fmt.Errorf("reading its policies: %w", err)
	}
	return slices.DeleteFunc(policies, func(p *v1alpha1.EvictionPolicy) bool {
		return p.DeletionTimestamp != nil || !slices.ContainsFunc(p.Spec.Members, func(m v1alpha1.MemberSelector) bool { return m.Provider != nil })
	}), nil
}

// bound reports whether a volume is bound to its claim, and the claim to it.
func (r *reconciler) bound(ctx context.Context, volume *corev1.PersistentVolume) (bool, error) {
	ref := volume.Spec.ClaimRef
	var claim corev1.PersistentVolumeClaim
	err := r.live.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, &claim)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading claim %s: %w", ref.Name, err)
	}
	return claim.UID == ref.UID && claim.Spec.VolumeName == volume.Name, nil
}

// ordinalOf returns the ordinal of the pod that a set makes with a claim of the name.
func ordinalOf(set *appsv1.StatefulSet, claim string) (ordinal int, is bool) {
	first, replicas := observe.Ordinals(set)
	for i := range set.Spec.VolumeClaimTemplates {
		number, found := strings.CutPrefix(claim, set.Spec.VolumeClaimTemplates[i].Name+"-"+set.Name+"-")
		ordinal, err := strconv.Atoi(number)
		if found && err == nil && set.DeletionTimestamp == nil && strconv.Itoa(ordinal) == number && ordinal >= first && ordinal < first+replicas {
			return ordinal, true
		}
	}
	return 0, false
}

// memberOf returns the member of a policy that a pod is, where the policy says how its successor comes about.
func (r *reconciler) memberOf(policy *v1alpha1.EvictionPolicy, pod *corev1.Pod) (v1alpha1.ReplacementMember, bool) {
	claim, claims := r.Policies.Compiled(policy).Claim(policycache.Facts(pod))
	if !claims || claim.Role == nil || claim.Error != "" || claim.Role.Replace.Successor == v1alpha1.SuccessorNone || policy.Spec.Members[claim.Entry].Provider == nil {
		return v1alpha1.ReplacementMember{}, false
	}
	return v1alpha1.ReplacementMember{Role: claim.Role.Name, ID: claim.Member}, true
}

// request makes one request, unless another stands for the member: that one replaces it.
func (r *reconciler) request(
	ctx context.Context, policy *v1alpha1.EvictionPolicy, member v1alpha1.ReplacementMember, standing []*v1alpha1.ReplacementRequest, wanted maintenance.Replacement,
) error {
	if slices.ContainsFunc(standing, func(q *v1alpha1.ReplacementRequest) bool {
		return q.Spec.Source.Name == policy.Name && q.Spec.Member == member && !q.Status.Over() && q.DeletionTimestamp == nil
	}) {
		return nil
	}
	q := replacement.MaintenanceRequest(policy, member, wanted.Requester, wanted.Maintenance, wanted.Call.Node)
	answer := r.Replacements.Create(ctx, q, policy)
	if answer.Code == answers.Accepted || answer.Code == answers.Conflict {
		return nil
	}
	return fmt.Errorf("creating a ReplacementRequest for %s %s: %s", member.Role, member.ID, cmp.Or(answer.Message, string(answer.Code)))
}

// withdrawRequests takes back the requests that were made for members with data on a node, which is not deleted after all. What has been removed
// of a member is replaced all the same. They are read anew: one that was just made may not be in the cache yet.
func (r *reconciler) withdrawRequests(ctx context.Context, node types.UID) error {
	all, err := r.requests(ctx, client.MatchingLabels{v1alpha1.MaintainedNodeLabel: string(node)})
	if err != nil {
		return err
	}
	var failed []error
	for _, q := range all {
		failed = append(failed, r.withdraw(ctx, q))
	}
	return errors.Join(failed...)
}

func (r *reconciler) withdraw(ctx context.Context, q *v1alpha1.ReplacementRequest) error {
	if q.DeletionTimestamp != nil || q.Status.Over() {
		return nil
	}
	answer := r.Replacements.Withdraw(ctx, q)
	if answer.Code == answers.Accepted || answer.Code == answers.Gone {
		return nil
	}
	return fmt.Errorf("withdrawing ReplacementRequest %s in namespace %s: %s", q.Name, q.Namespace, cmp.Or(answer.Message, string(answer.Code)))
}

// withdrawLeftOver takes back the requests for nodes that no maintenance has any more: a drain that ends uncordons its node by itself, and a request may
// have been under way when its node was given back.
func (r *reconciler) withdrawLeftOver(ctx context.Context, in *maintenance.Input) error {
	var all v1alpha1.ReplacementRequestList
	if err := r.client.List(ctx, &all, client.HasLabels{v1alpha1.MaintainedNodeLabel}); err != nil {
		return fmt.Errorf("listing requests: %w", err)
	}
	var failed []error
	for i := range all.Items {
		if in.Free(types.UID(all.Items[i].Labels[v1alpha1.MaintainedNodeLabel])) {
			failed = append(failed, r.withdraw(ctx, &all.Items[i]))
		}
	}
	return errors.Join(failed...)
}
