package policycache

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
)

// Cache knows the policies, compiled, and which pods are their members. It may be used by several goroutines at once.
type Cache struct {
	// cache may hand out shared objects; nothing here changes any.
	cache client.Reader
	kind  func(*v1alpha1.System) (system.Kind, bool)
	roles []v1alpha1.Role
	room  *room // for pages of pods that are read past the cache
	// Own is Usher's namespace, "" for none: nothing in it can be governed, since Usher itself needs it.
	Own string
	// Compile compiles a policy; New sets eviction.Compile. Simulations, which open the same few policies thousands
	// of times, put a memory in front of it.
	Compile func(*v1alpha1.EvictionPolicySpec, []v1alpha1.Role, eviction.Declaration) (*eviction.Policy, []eviction.Problem)

	// Changed is called for a policy whose system says something new; nil: for none. It must not block.
	Changed func(policy *v1alpha1.EvictionPolicy)

	mu       sync.Mutex
	compiled map[types.UID]compiledPolicy
	written  map[types.UID]writtenPolicy
}

// writtenPolicy is a policy as the apiserver returned it, and when.
type writtenPolicy struct {
	policy *v1alpha1.EvictionPolicy
	at     time.Time
}

// writtenLife is how long a version that was learned is preferred to the cache's: far longer than a watch takes to deliver it. A
// version that never comes was lost when the cluster's etcd was restored. No member goes on the older version that the cache shows
// then: every leave is written down with that version as precondition.
const writtenLife = time.Minute

type compiledPolicy struct {
	generation int64
	policy     *eviction.Policy
}

// New returns a Cache over a cache that has the index of SetupIndex. Roles are the built-in ones.
func New(cache client.Reader, kind func(*v1alpha1.System) (system.Kind, bool), roles []v1alpha1.Role) *Cache {
	return &Cache{
		cache: cache, kind: kind, roles: roles, room: roomOf(cache), Compile: eviction.Compile,
		compiled: map[types.UID]compiledPolicy{}, written: map[types.UID]writtenPolicy{},
	}
}

// Observe takes in a policy as the apiserver has just returned it, because the cache will see it only later.
func (b *Cache) Observe(policy *v1alpha1.EvictionPolicy) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known, ok := b.written[policy.UID]; ok && newer(known.policy, policy) && time.Since(known.at) < writtenLife {
		return
	}
	b.written[policy.UID] = writtenPolicy{policy, time.Now()}
}

// forget drops what is known of a policy that is gone.
func (b *Cache) forget(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.compiled, uid)
	delete(b.written, uid)
}

// Policies returns those of a namespace that are in mode Enforce, in the order of their names. They must not be changed. Those
// in mode Audit are left out, so that whatever has an effect on pods rests on the others alone.
func (b *Cache) Policies(ctx context.Context, namespace string) ([]*v1alpha1.EvictionPolicy, error) {
	return b.inMode(ctx, namespace, v1alpha1.ModeEnforce)
}

// Audited returns those that are in mode Audit, likewise. Nothing that has an effect on pods may rest on them.
func (b *Cache) Audited(ctx context.Context, namespace string) ([]*v1alpha1.EvictionPolicy, error) {
	return b.inMode(ctx, namespace, v1alpha1.ModeAudit)
}

func (b *Cache) inMode(ctx context.Context, namespace string, mode v1alpha1.PolicyMode) ([]*v1alpha1.EvictionPolicy, error) {
	all, err := b.All(ctx, namespace)
	return slices.DeleteFunc(all, func(p *v1alpha1.EvictionPolicy) bool { return p.Spec.Audited() != (mode == v1alpha1.ModeAudit) }), err
}

// All returns those of both modes, likewise: for what keeps the policies themselves.
func (b *Cache) All(ctx context.Context, namespace string) ([]*v1alpha1.EvictionPolicy, error) {
	var list v1alpha1.EvictionPolicyList
	if err := b.cache.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the policies of namespace %s: %w", namespace, err)
	}
	policies := make([]*v1alpha1.EvictionPolicy, len(list.Items))
	for i := range list.Items {
		policies[i] = b.latest(&list.Items[i])
	}
	slices.SortFunc(policies, func(a, b *v1alpha1.EvictionPolicy) int { return cmp.Compare(a.Name, b.Name) })
	return policies, nil
}

// Policy returns one policy; apierrors.IsNotFound reports that it is not there. It must not be changed.
func (b *Cache) Policy(ctx context.Context, key snapshot.Key) (*v1alpha1.EvictionPolicy, error) {
	var policy v1alpha1.EvictionPolicy
	if err := b.cache.Get(ctx, key, &policy); err != nil {
		return nil, fmt.Errorf("reading policy %s: %w", key.Name, err)
	}
	return b.latest(&policy), nil
}

// latest prefers what a write has returned to what the cache shows, until the cache has caught up.
func (b *Cache) latest(cached *v1alpha1.EvictionPolicy) *v1alpha1.EvictionPolicy {
	b.mu.Lock()
	defer b.mu.Unlock()
	learned, ok := b.written[cached.UID]
	switch {
	case !ok:
		return cached
	case newer(learned.policy, cached) && time.Since(learned.at) < writtenLife:
		return learned.policy
	}
	delete(b.written, cached.UID)
	return cached
}

// newer reports whether a is a later version than b. Versions that cannot be compared are taken for later ones of b.
func newer(a, b client.Object) bool { return later(a.GetResourceVersion(), b.GetResourceVersion()) }

// later reports whether resource version a is later than b. Those that cannot be compared are taken for later ones of b.
func later(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}

// Compiled returns the policy compiled.
func (b *Cache) Compiled(policy *v1alpha1.EvictionPolicy) *eviction.Policy {
	b.mu.Lock()
	known, ok := b.compiled[policy.UID]
	b.mu.Unlock()
	if ok && known.generation == policy.Generation {
		return known.policy
	}
	compiled, _ := b.compile(&policy.Spec)
	if b.Reserved(policy.Namespace) {
		compiled = compiled.With(eviction.Problem{
			Path:    "metadata.namespace",
			Message: "pods of this namespace cannot be governed, because Usher itself needs them: admission leaves it out; delete the policy",
		})
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if known, ok := b.compiled[policy.UID]; !ok || known.generation != policy.Generation {
		b.compiled[policy.UID] = compiledPolicy{policy.Generation, compiled}
	}
	return compiled
}

// Source returns the policy as what declares a system.
func (b *Cache) Source(policy *v1alpha1.EvictionPolicy) *Source {
	source := &Source{
		UID: policy.UID, Namespace: policy.Namespace, Name: policy.Name, Generation: policy.Generation, Epoch: policy.Status.Epoch,
		System: &policy.Spec.System, Limits: policy.Spec.Evidence, ServiceAccount: policy.Spec.ServiceAccountName,
		Members: func(ctx context.Context) ([]system.Member, error) { return b.members(ctx, policy) },
		Uses:    func() expression.Uses { return append(b.Compiled(policy).Uses(), b.reportFacts(policy)...) },
	}
	if b.Changed != nil {
		source.Changed = func() { b.Changed(policy) }
	}
	return source
}

// reportFacts are the facts by which it is judged whether a policy's members do their work, and whether that is looked at, where it is.
func (b *Cache) reportFacts(policy *v1alpha1.EvictionPolicy) (uses expression.Uses) {
	kind, known := b.kind(&policy.Spec.System)
	if policy.Spec.Repair == nil || !known {
		return nil
	}
	for _, fact := range kind.ReportFacts {
		uses = append(uses, expression.MemberVariable+"."+fact)
	}
	for _, fact := range kind.SystemFacts {
		uses = append(uses, expression.SystemVariable+"."+fact)
	}
	return uses
}

// Reserved reports whether nothing in a namespace can be governed.
func (b *Cache) Reserved(namespace string) bool {
	return namespace == metav1.NamespaceSystem || b.Own != "" && namespace == b.Own
}

// Declared returns the policy as verdicts see it.
func (b *Cache) Declared(policy *v1alpha1.EvictionPolicy) eviction.Declared {
	return eviction.Declared{
		Key:     client.ObjectKeyFromObject(policy),
		Version: policy.ResourceVersion,
		Policy:  b.Compiled(policy),
		Status:  &policy.Status,
		Deleted: policy.DeletionTimestamp != nil, Held: slices.Contains(policy.Finalizers, v1alpha1.UndoFinalizer),
	}
}

func (b *Cache) declaredAll(policies []*v1alpha1.EvictionPolicy) []eviction.Declared {
	declared := make([]eviction.Declared, len(policies))
	for i, policy := range policies {
		declared[i] = b.Declared(policy)
	}
	return declared
}

// Check returns what is wrong with a policy's spec.
func (b *Cache) Check(spec *v1alpha1.EvictionPolicySpec) []eviction.Problem {
	_, problems := b.compile(spec)
	return problems
}

func (b *Cache) compile(spec *v1alpha1.EvictionPolicySpec) (*eviction.Policy, []eviction.Problem) {
	var declared eviction.Declaration // without a kind there are no facts and no steps, which Compile says
	if kind, ok := b.kind(&spec.System); ok {
		declared = kind.Declaration(&spec.System)
	}
	return b.Compile(spec, b.roles, declared)
}
