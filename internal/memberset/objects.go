package memberset

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

// SetUIDAnnotation is on claims, which no set owns, so that they outlive it: the UID of the set that they were made for.
const SetUIDAnnotation = "usher.sh/member-set-uid"

// TemplateHashAnnotation says on a pod, and on a claim, what its template was when it was made; LabelsHashAnnotation on a pod what its labels and annotations were.
const (
	TemplateHashAnnotation = "usher.sh/template-hash"
	LabelsHashAnnotation   = "usher.sh/template-labels-hash"
)

// ownedBy is the reference by which the set controls an object.
func ownedBy(set *v1alpha1.MemberSet) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.GroupVersion.WithKind("MemberSet"))}
}

func (d *decision) labels(m *v1alpha1.SetMember, own map[string]string) map[string]string {
	all := maps.Clone(own)
	if all == nil {
		all = map[string]string{}
	}
	all[v1alpha1.MemberSetLabel], all[v1alpha1.MemberGroupLabel], all[v1alpha1.MemberIDLabel] = d.Set.Name, m.Group, m.ID
	return all
}

// annotations are those of a member's pod, but for the hash of what it was made of.
func (d *decision) annotations(g *group) map[string]string {
	all := maps.Clone(g.pod.Annotations)
	if all == nil {
		all = map[string]string{}
	}
	all[LabelsHashAnnotation] = g.labels
	switch d.Set.Spec.OnEviction {
	case v1alpha1.OnEvictionRecreate:
		all[v1alpha1.OnEvictionAnnotation] = v1alpha1.PodRecreates
	case v1alpha1.OnEvictionReplace:
		all[v1alpha1.OnEvictionAnnotation] = v1alpha1.PodIsReplaced
	case v1alpha1.OnEvictionAuto: // known once its volumes are
	}
	return all
}

// newPod is a member's pod, as its group's template says, with its claims, and with what it gets to start.
func (d *decision) newPod(g *group, m *v1alpha1.SetMember) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Set.Namespace, Name: m.ID, Labels: d.labels(m, g.pod.Labels), Annotations: d.annotations(g), OwnerReferences: ownedBy(d.Set),
		},
		Spec: *g.pod.Spec.DeepCopy(),
	}
	pod.Annotations[TemplateHashAnnotation] = d.madeOf(g, m)
	d.crash(g, pod, m)
	if why := d.emptyConfiguration(m); why != "" {
		pod.Annotations[v1alpha1.EmptyConfigurationAnnotation] = why
	}
	pod.Spec.Hostname, pod.Spec.NodeSelector = m.ID, maps.Clone(m.Shape.NodeSelector) // its volume is where that let it be
	for _, name := range m.Shape.Claims {
		pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(name, m.ID)},
		}})
	}
	if joining(m) {
		restrict(&pod.Spec, corev1.NodeSelectorOpNotIn, m.AvoidNodes)
	}
	if m.ForNode != "" {
		restrict(&pod.Spec, corev1.NodeSelectorOpIn, []string{m.ForNode})
	}
	if d.Kind.Environment != nil {
		start := &Start{
			Set: d.Set.UID, Group: g.MemberGroup, Namespace: d.Set.Namespace, ID: m.ID, First: m.First && d.status.Formed == nil, Peers: d.peers(m),
			Processes: m.Shape.MembersPerPod, Address: d.serviceIP(m), Empty: d.emptyConfiguration(m) != "",
		}
		first := &pod.Spec.Containers[0]
		first.Env = append(first.Env, d.Kind.Environment(&g.pod.Spec, &d.Set.Spec.System, start)...)
		pod.Spec.EnableServiceLinks = new(bool) // what a Service is called must not tell the process anything
	}
	return pod
}

// restrict keeps a pod off nodes, or on one. The terms of a node selector are alternatives, so each of them has to say it.
func restrict(spec *corev1.PodSpec, operator corev1.NodeSelectorOperator, nodes []string) {
	if len(nodes) == 0 {
		return
	}
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	affinity := spec.Affinity.NodeAffinity
	if affinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
	}
	terms := affinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	for i := range terms {
		for _, node := range nodes {
			terms[i].MatchFields = append(terms[i].MatchFields, corev1.NodeSelectorRequirement{
				Key: metav1.ObjectNameField, Operator: operator, Values: []string{node},
			})
		}
	}
}

// newClaim is a member's claim. It is not owned by the set: data outlives it, as that of a StatefulSet does.
func (d *decision) newClaim(t *claimTemplate, m *v1alpha1.SetMember) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Set.Namespace, Name: claimName(t.Name, m.ID), Labels: d.labels(m, t.Labels),
			Annotations: map[string]string{SetUIDAnnotation: string(d.Set.UID), TemplateHashAnnotation: t.hash},
		},
		Spec: *t.spec.DeepCopy(),
	}
}

// newService gives a member an address that stays. Members have to find each other to become Ready.
func (d *decision) newService(m *v1alpha1.SetMember) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Set.Namespace, Name: m.ID, Labels: d.labels(m, nil), OwnerReferences: ownedBy(d.Set)},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{v1alpha1.MemberSetLabel: d.Set.Name, v1alpha1.MemberIDLabel: m.ID}, Ports: d.Kind.Ports(m.Shape.MembersPerPod), PublishNotReadyAddresses: true,
		},
	}
}

// PolicyOf is the policy over the members of a set of a kind, with the defaults that the apiserver sets.
func PolicyOf(set *v1alpha1.MemberSet, kind *Kind) *v1alpha1.EvictionPolicy {
	policy := &v1alpha1.EvictionPolicy{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: set.Name, Labels: map[string]string{v1alpha1.MemberSetLabel: set.Name}, OwnerReferences: ownedBy(set),
		},
		Spec: v1alpha1.EvictionPolicySpec{
			Mode: v1alpha1.ModeEnforce, System: set.Spec.System, Evidence: set.Spec.Evidence, Roles: set.Spec.Roles, Repair: repairOf(set, kind), Suspend: set.Spec.Suspend,
		},
	}
	for i := range set.Spec.Groups {
		g := &set.Spec.Groups[i]
		policy.Spec.Members = append(policy.Spec.Members, v1alpha1.MemberSelector{
			Role: g.Role, ID: "pod.name", Deletes: v1alpha1.DeleteGuard, OwnerDeletes: v1alpha1.DeleteGuard, Leaves: v1alpha1.LeavesPod,
			Tolerations: v1alpha1.TolerationsKeepOwn, OnNodePressure: v1alpha1.PressureWhenAllowed,
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.MemberSetLabel: set.Name, v1alpha1.MemberGroupLabel: g.Name}},
			Provider: &v1alpha1.Provider{MemberSet: providerOf(set, kind, g)},
		})
	}
	return policy
}

func providerOf(set *v1alpha1.MemberSet, kind *Kind, g *v1alpha1.MemberGroup) *v1alpha1.MemberSetProvider {
	provider := &v1alpha1.MemberSetProvider{VolumeClaims: cmp.Or(set.Spec.Removal.VolumeClaims, v1alpha1.VolumeClaimsRetain)}
	if maintains(set, kind, g) {
		provider.Maintenance = v1alpha1.MaintenanceManaged
	}
	return provider
}

// govern has the set's policy say what the set does. There is none before the system is formed: what asks a system that is not there holds every pod.
func (d *decision) govern() {
	if d.status.Formed == nil {
		return
	}
	want := PolicyOf(d.Set, &d.Kind)
	switch p := d.Policy; {
	case p == nil:
		d.act(Action{Kind: MakePolicy, Policy: want})
	case !p.Ours:
		d.block(d.notOurs("EvictionPolicy", &Object{Name: d.Set.Name}, ""))
	case p.Deleted:
		d.block(policyTerminates(d.Set))
	case !equality.Semantic.DeepEqual(p.Spec, want.Spec):
		d.act(Action{Kind: ChangePolicy, Policy: want, UID: p.UID, Version: p.Version})
	}
}
