package policycache

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
)

// leavingIndex finds the terminating pods of a namespace without looking at all of them.
const leavingIndex = "usher.leaving"

// SetupIndex adds the index that Gatherers need to a cache. To be called before the cache starts.
func SetupIndex(ctx context.Context, cache client.FieldIndexer) error {
	if err := cache.IndexField(ctx, &corev1.Pod{}, leavingIndex, IndexLeaving); err != nil {
		return fmt.Errorf("indexing pods: %w", err)
	}
	return nil
}

// LeavingIndex is the index's name, for caches of tests.
const LeavingIndex = leavingIndex

// IndexLeaving is the index's function.
func IndexLeaving(object client.Object) []string {
	if object.GetDeletionTimestamp() == nil {
		return nil
	}
	return []string{"true"}
}

// Pods returns what is known of all pods of a namespace.
func (b *Cache) Pods(ctx context.Context, namespace string) ([]*snapshot.Pod, error) {
	return b.pods(ctx, client.InNamespace(namespace))
}

func (b *Cache) pods(ctx context.Context, options ...client.ListOption) ([]*snapshot.Pod, error) {
	var list corev1.PodList
	if err := b.cache.List(ctx, &list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	pods := make([]*snapshot.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = Facts(&list.Items[i])
	}
	return pods, nil
}

// cachedRoster lists a policy's members by the cache.
func (g *Gatherer) cachedRoster(ctx context.Context, policy eviction.Declared) (*eviction.Roster, error) {
	pods, err := g.Policies.Pods(ctx, policy.Key.Namespace)
	if err != nil {
		return nil, err
	}
	return eviction.NewRoster(policy, pods), nil
}

// freshRoster lists them past the cache, one entry of the policy after the other. It holds one page of pods at a time: unlike those of the
// cache they are as large as their owner has made them.
func (g *Gatherer) freshRoster(ctx context.Context, policy eviction.Declared) (*eviction.Roster, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	roster := eviction.NewRoster(policy, nil)
	from := pages{live: g.Live, cache: g.Policies.cache, room: g.Policies.room}
	err := from.read(ctx, policy.Key.Namespace, policy.Policy.Selectors(), func(pod *corev1.Pod) { roster.Add(policy, Facts(pod)) })
	if err != nil {
		return nil, err
	}
	return roster, nil
}

// members returns the policy's pods as its system knows them, those that are on their way included, and the members without a pod that are to be
// replaced. Pods whose id cannot be determined are left out: there is nothing to ask the system about.
func (b *Cache) members(ctx context.Context, policy *v1alpha1.EvictionPolicy) ([]system.Member, error) {
	pods, err := b.Pods(ctx, policy.Namespace)
	if err != nil {
		return nil, err
	}
	compiled := b.Compiled(policy)
	var members []system.Member
	for _, pod := range pods {
		claim, ok := compiled.Claim(pod)
		if !ok || claim.Role == nil || claim.Error != "" {
			continue
		}
		members = append(members, system.Member{MemberRef: claim.Ref(pod), Pod: pod})
	}
	if members, err = b.addAbsent(ctx, policy, members); err != nil {
		return nil, err
	}
	members = addLost(policy, members)
	return members, b.noteOfSet(ctx, policy, members)
}

// addLost adds the members of nodes that are proven off whose pods are gone, and for which steps stand.
func addLost(policy *v1alpha1.EvictionPolicy, members []system.Member) []system.Member {
	for i := range policy.Status.Preparations {
		p := &policy.Status.Preparations[i]
		listed := slices.ContainsFunc(members, func(m system.Member) bool { return m.Role == p.Role && m.ID == p.ID })
		if p.For == v1alpha1.ForLost && !listed {
			members = append(members, system.Member{MemberRef: v1alpha1.MemberRef{Role: p.Role, ID: p.ID}})
		}
	}
	return members
}

// noteOfSet notes in the members what the MemberSet says of them that the policy belongs to.
func (b *Cache) noteOfSet(ctx context.Context, policy *v1alpha1.EvictionPolicy, members []system.Member) error {
	owner := metav1.GetControllerOfNoCopy(policy)
	if owner == nil || owner.Kind != "MemberSet" {
		return nil
	}
	var set v1alpha1.MemberSet
	err := b.cache.Get(ctx, client.ObjectKeyFromObject(policy), &set)
	switch {
	case apierrors.IsNotFound(err), err == nil && set.UID != owner.UID:
		return nil
	case err != nil:
		return fmt.Errorf("reading MemberSet %s: %w", policy.Name, err)
	}
	for i := range members {
		NoteOfSet(&set, &members[i])
	}
	return nil
}

// NoteOfSet notes in a member what its MemberSet says of it.
func NoteOfSet(set *v1alpha1.MemberSet, member *system.Member) {
	at := slices.IndexFunc(set.Status.Members, func(m v1alpha1.SetMember) bool { return m.ID == member.ID })
	if at < 0 {
		return
	}
	m := &set.Status.Members[at]
	member.Joining, member.Processes = m.State == v1alpha1.MemberJoining, int(m.Shape.MembersPerPod)
	if m.Removal != nil {
		member.Removed = m.Removal.Step == v1alpha1.RemovalRemoved
		member.Leaves = m.Removal.Step != v1alpha1.RemovalRefilling
		member.Emptied = m.Removal.Step != v1alpha1.RemovalGrowing
	}
	if maintenance := set.Status.Maintenance; maintenance != nil && slices.Contains(maintenance.Members, v1alpha1.MaintainedMember{ID: m.ID, PodUID: member.PodUID}) {
		member.Leaves = true // its pod is made anew
	}
}

// mostAbsent bounds what a system is asked about beside pods.
const mostAbsent = 100

// addAbsent adds the members for which a ReplacementRequest stands and that have no pod: what their system says of them decides as well. Those that have one
// are about to leave, too.
func (b *Cache) addAbsent(ctx context.Context, policy *v1alpha1.EvictionPolicy, members []system.Member) ([]system.Member, error) {
	var requests v1alpha1.ReplacementRequestList
	if err := b.cache.List(ctx, &requests, client.InNamespace(policy.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing ReplacementRequests: %w", err)
	}
	compiled, left := b.Compiled(policy), mostAbsent
	for i := range requests.Items {
		spec := &requests.Items[i].Spec
		_, known := compiled.ClaimOf(spec.Member.Role, spec.Member.ID)
		if !known || requests.Items[i].Status.Over() || spec.Source.Name != policy.Name {
			continue
		}
		at := slices.IndexFunc(members, func(m system.Member) bool { return m.Role == spec.Member.Role && m.ID == spec.Member.ID })
		switch {
		case at >= 0:
			members[at].Leaves = true
		case left > 0:
			left--
			members = append(members, system.Member{MemberRef: v1alpha1.MemberRef{Role: spec.Member.Role, ID: spec.Member.ID}, Leaves: true})
		}
	}
	return members, nil
}
