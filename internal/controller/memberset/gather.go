package memberset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/evictionrequest/targets"
	"usher.sh/usher/internal/memberset"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/replacement"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/text"
)

// patience is how long a system may keep a worker waiting for its list.
const patience = 5 * time.Second

// look is what is known of a set at one moment.
type look struct {
	set    *v1alpha1.MemberSet
	source *policycache.Source
	policy *v1alpha1.EvictionPolicy // nil: there is none
	in     memberset.Input
	// members are those of the set as its system is asked about them, where it says what is on them.
	members []system.Member
}

// gather reads what a decision rests on past the cache: what is made is named by it, and what is removed.
func (r *reconciler) gather(ctx context.Context, set *v1alpha1.MemberSet) (*look, error) {
	l := &look{set: set, source: policycache.SetSource(set)}
	l.in = memberset.Input{Now: r.Now(), Set: set}
	kind, known := r.Gatherer.Observer.Kind(l.source)
	if !known || kind.Set == nil {
		l.unread("spec.system", "members of this kind of system cannot be run", "name another in spec.system")
		return l, nil
	}
	l.in.Kind = *kind.Set
	for _, read := range []func(context.Context, *look) error{r.pods, r.claims, r.services, r.file, r.nodes, r.requests, r.ownPolicy} {
		if err := read(ctx, l); err != nil {
			return nil, err
		}
	}
	r.compile(l)
	r.list(ctx, l)
	return l, nil
}

// compile notes what the set's policy is wrong in, or would be: once there are members, it is too late for it.
func (r *reconciler) compile(l *look) {
	policies, want := r.Gatherer.Policies, memberset.PolicyOf(l.set, &l.in.Kind)
	var problems []eviction.Problem
	if l.policy != nil && equality.Semantic.DeepEqual(l.policy.Spec, want.Spec) { // which is compiled already
		problems = policies.Compiled(l.policy).Problems()
	} else if problems = policies.Check(&want.Spec); policies.Reserved(l.set.Namespace) {
		problems = append(problems, eviction.Problem{Path: "metadata.namespace", Message: "Usher itself needs the pods of this namespace, which cannot be governed"})
	}
	for i := range problems {
		l.in.Unread = append(l.in.Unread, memberset.PolicyWrong(problems[i].Path, problems[i].Message))
	}
}

func (l *look) unread(what, why, remedy string) {
	l.in.Unread = append(l.in.Unread, memberset.Unread(what, text.Line(why), remedy))
}

func (l *look) of() []client.ListOption {
	return []client.ListOption{client.InNamespace(l.set.Namespace), client.MatchingLabels{v1alpha1.MemberSetLabel: l.set.Name}}
}

func (r *reconciler) pods(ctx context.Context, l *look) error {
	var pods []corev1.Pod
	err := observe.EachPage(ctx, r.live, &corev1.PodList{}, func(page *corev1.PodList) bool {
		for i := range page.Items {
			pods = append(pods, *memberset.SlimPod(&page.Items[i]))
		}
		return true
	}, l.of()...)
	if err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	l.members = membersOf(l.set, pods)
	for i := range pods {
		pod := &pods[i]
		p := memberset.PodOf(l.set, pod)
		if p.Node != "" {
			if err := r.place(ctx, l.set, &p); err != nil {
				return err
			}
		}
		r.asked(ctx, pod, &p)
		l.in.Pods = append(l.in.Pods, p)
	}
	return nil
}

// asked looks up who asks for the eviction of a pod: the set, or others.
func (r *reconciler) asked(ctx context.Context, pod *corev1.Pod, p *memberset.Pod) {
	if !r.Requests {
		p.Unasked = "the cluster serves no eviction requests"
		return
	}
	requests, err := targets.RequestsOf(ctx, r.client, snapshot.Key{Namespace: pod.Namespace, Name: pod.Name})
	if err != nil {
		p.Unasked = text.Line(err.Error())
		return
	}
	for _, q := range requests {
		if of := q.Spec.Target.Pod; of == nil || of.UID != pod.UID || q.Spec.Intent != api.EvictionRequestIntentEviction || q.DeletionTimestamp != nil {
			continue
		}
		if q.Spec.Requester == memberset.Requester {
			p.Asked = true
		} else {
			p.Wanted = true
		}
	}
}

// nodes are, by group, those on which a group with a member for each has one.
func (r *reconciler) nodes(ctx context.Context, l *look) error {
	for i := range l.set.Spec.Groups {
		g := &l.set.Spec.Groups[i]
		if g.PerNode == nil {
			continue
		}
		var nodes corev1.NodeList
		if err := r.client.List(ctx, &nodes, client.MatchingLabels(g.PerNode.NodeSelector), client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("listing nodes: %w", err)
		}
		var names []string
		for j := range nodes.Items {
			if nodes.Items[j].DeletionTimestamp == nil {
				names = append(names, nodes.Items[j].Name)
			}
		}
		slices.Sort(names)
		if l.in.Nodes == nil {
			l.in.Nodes = map[string][]string{}
		}
		l.in.Nodes[g.Name] = names
	}
	return nil
}

// place notes where a pod is. Its zone is the value of the label of its node that says it, or the node's name.
func (r *reconciler) place(ctx context.Context, set *v1alpha1.MemberSet, p *memberset.Pod) error {
	node := corev1.Node{Spec: corev1.NodeSpec{Unschedulable: true}} // as one that is gone
	if err := r.client.Get(ctx, client.ObjectKey{Name: p.Node}, &node); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading node %s: %w", p.Node, err)
	}
	p.Zone, p.Cordoned = cmp.Or(node.Labels[set.Spec.FaultDomainKey], p.Node), node.Spec.Unschedulable
	return nil
}

// claims are not owned by the set: those are its own that were made for it.
func (r *reconciler) claims(ctx context.Context, l *look) error {
	var claims []corev1.PersistentVolumeClaim
	err := observe.EachPage(ctx, r.live, &corev1.PersistentVolumeClaimList{}, func(page *corev1.PersistentVolumeClaimList) bool {
		for i := range page.Items {
			claims = append(claims, *memberset.SlimClaim(&page.Items[i]))
		}
		return true
	}, l.of()...)
	switch {
	case apierrors.IsForbidden(err):
		l.unread("the claims of namespace "+l.set.Namespace, err.Error(), r.binding())
		return nil
	case err != nil:
		return fmt.Errorf("listing claims: %w", err)
	}
	pinning(l)
	for i := range claims {
		claim := &claims[i]
		c := memberset.ClaimOf(l.set, claim)
		if c.Volume != "" && l.leaves(claim.Name) {
			if err := r.volume(ctx, claim, &c); err != nil {
				return err
			}
		}
		if err := r.pin(ctx, l, claim); err != nil {
			return err
		}
		l.in.Claims = append(l.in.Claims, c)
	}
	return nil
}

// leaves reports whether a claim may be one of a member that is being removed, by the name that the set gives it.
func (l *look) leaves(claim string) bool {
	return slices.ContainsFunc(l.set.Status.Members, func(m v1alpha1.SetMember) bool {
		return m.Removal != nil && m.Removal.Step == v1alpha1.RemovalRemoving && strings.HasSuffix(claim, "-"+m.ID)
	})
}

// volume reads the one that a claim says it is bound to. One that is bound to another claim is none of it.
func (r *reconciler) volume(ctx context.Context, claim *corev1.PersistentVolumeClaim, c *memberset.Claim) error {
	var volume corev1.PersistentVolume
	err := r.live.Get(ctx, client.ObjectKey{Name: c.Volume}, &volume)
	switch {
	case apierrors.IsForbidden(err): // what is to stay is said to be not known
		return nil
	case apierrors.IsNotFound(err), err == nil && (volume.Spec.ClaimRef == nil || volume.Spec.ClaimRef.UID != claim.UID):
		c.Volume = ""
		return nil
	case err != nil:
		return fmt.Errorf("reading volume %s: %w", c.Volume, err)
	}
	c.Known, c.VolumeUID = true, volume.UID
	c.Retained = volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
	return nil
}

func (r *reconciler) services(ctx context.Context, l *look) error {
	if l.in.Kind.Ports == nil {
		return nil
	}
	var services []memberset.Service
	err := observe.EachPage(ctx, r.live, &corev1.ServiceList{}, func(page *corev1.ServiceList) bool {
		for i := range page.Items {
			services = append(services, memberset.ServiceOf(l.set, &page.Items[i]))
		}
		return true
	}, l.of()...)
	switch {
	case apierrors.IsForbidden(err):
		l.unread("the Services of namespace "+l.set.Namespace, err.Error(), r.binding())
		return nil
	case err != nil:
		return fmt.Errorf("listing Services: %w", err)
	}
	l.in.Services = services
	l.address()
	return nil
}

// file reads the ConfigMap by which the system is found, where the kind has one. It is the set's that was made for it.
func (r *reconciler) file(ctx context.Context, l *look) error {
	if l.in.Kind.File == nil {
		return nil
	}
	key := l.in.Kind.File.Key(&l.set.Spec.System)
	var found corev1.ConfigMap
	err := r.live.Get(ctx, client.ObjectKey{Namespace: l.set.Namespace, Name: key.Name}, &found)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsForbidden(err):
		l.unread("ConfigMap "+key.Name, err.Error(), r.bindingOfFile(l.set.Namespace))
		return nil
	case err != nil:
		return fmt.Errorf("reading ConfigMap %s: %w", key.Name, err)
	}
	l.in.File = memberset.FileOf(l.set, l.in.Kind.File, &found)
	return nil
}

func (r *reconciler) requests(ctx context.Context, l *look) error {
	err := observe.EachPage(ctx, r.live, &v1alpha1.ReplacementRequestList{}, func(page *v1alpha1.ReplacementRequestList) bool {
		for i := range page.Items {
			if q := &page.Items[i]; q.Spec.Source.Name == l.set.Name {
				l.in.Requests = append(l.in.Requests, memberset.RequestOf(q, replacement.ProgressOf(&q.Status).Phase == replacement.Removing))
			}
		}
		return true
	}, client.InNamespace(l.set.Namespace))
	if err != nil {
		return fmt.Errorf("listing ReplacementRequests: %w", err)
	}
	return nil
}

// ownPolicy reads the policy of the set's name.
func (r *reconciler) ownPolicy(ctx context.Context, l *look) error {
	policy := &v1alpha1.EvictionPolicy{}
	err := r.live.Get(ctx, client.ObjectKeyFromObject(l.set), policy)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading policy: %w", err)
	}
	l.policy = policy
	l.in.Policy = policyOf(policy, l.set)
	return nil
}

// policyOf is what a decision looks at of the policy of a set's name.
func policyOf(policy *v1alpha1.EvictionPolicy, set *v1alpha1.MemberSet) *memberset.Policy {
	p := &memberset.Policy{
		UID: policy.UID, Version: policy.ResourceVersion, Ours: metav1.IsControlledBy(policy, set), Deleted: policy.DeletionTimestamp != nil, Spec: policy.Spec,
	}
	for i := range policy.Status.Replacing {
		p.Permits = append(p.Permits, policy.Status.Replacing[i].RequestUID)
	}
	for i := range policy.Status.Leaving {
		p.Leaving = append(p.Leaving, policy.Status.Leaving[i].ID)
	}
	for i := range policy.Status.Preparations {
		p.Preparing = append(p.Preparing, policy.Status.Preparations[i].ID)
	}
	return p
}

// list asks the system for its list, once there is a member that could answer.
func (r *reconciler) list(ctx context.Context, l *look) {
	if !l.in.Kind.Lists && !l.in.Kind.Empties {
		return
	}
	if len(l.in.Pods) == 0 {
		l.in.List.Unread = "no member has a pod"
		return
	}
	listing, err := r.ask(ctx, l)
	if err != nil {
		l.in.List.Unread, l.in.List.Formable = text.Line(err.Error()), errors.Is(err, system.ErrNotFormed)
		return
	}
	l.in.List = listing
}

// ask has the system say what it knows of its members. One that is emptied has the time that spec.evidence gives it.
func (r *reconciler) ask(ctx context.Context, l *look) (memberset.Listing, error) {
	if l.in.Kind.Empties {
		return r.Gatherer.Observer.Contents(ctx, l.source, l.members)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return r.Gatherer.Observer.List(ctx, l.source)
}
