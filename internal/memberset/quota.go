package memberset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"
)

// amounts are what the set's objects use of what a ResourceQuota counts. A pod that has ended uses nothing.
func (r *rehearsal) amounts() corev1.ResourceList {
	all := corev1.ResourceList{}
	for i := range r.in.Pods {
		if p := &r.in.Pods[i]; !p.Finished && p.Spec != nil {
			addPod(all, p.Spec)
		}
	}
	for i := range r.in.Claims {
		addClaim(all, r.storage[r.in.Claims[i].Name])
	}
	for range r.in.Services {
		add(all, corev1.ResourceServices, one)
	}
	return all
}

var one = resource.MustParse("1")

func add(all corev1.ResourceList, name corev1.ResourceName, quantity resource.Quantity) {
	if quantity.IsZero() {
		return
	}
	sum := all[name].DeepCopy()
	sum.Add(quantity)
	all[name] = sum
}

func addPod(all corev1.ResourceList, spec *corev1.PodSpec) {
	add(all, corev1.ResourcePods, one)
	pod := &corev1.Pod{Spec: *spec.DeepCopy()}
	requestLimits(pod.Spec.InitContainers)
	requestLimits(pod.Spec.Containers)
	for name, quantity := range podresource.PodRequests(pod, podresource.PodResourcesOptions{}) {
		add(all, "requests."+name, quantity)
	}
	for name, quantity := range podresource.PodLimits(pod, podresource.PodResourcesOptions{}) {
		add(all, "limits."+name, quantity)
	}
}

// addClaim adds a claim with this spec; nil: that is not known.
func addClaim(all corev1.ResourceList, spec *corev1.PersistentVolumeClaimSpec) {
	add(all, corev1.ResourcePersistentVolumeClaims, one)
	if spec == nil {
		return
	}
	storage := *spec.Resources.Requests.Storage()
	add(all, corev1.ResourceRequestsStorage, storage)
	if class := spec.StorageClassName; class != nil && *class != "" {
		add(all, corev1.ResourceName(*class+ofClass)+corev1.ResourceRequestsStorage, storage)
		add(all, corev1.ResourceName(*class+ofClass)+corev1.ResourcePersistentVolumeClaims, one)
	}
}

// requestLimits has containers request what they are limited to where they do not say what they request, as the apiserver has it.
func requestLimits(containers []corev1.Container) {
	for i := range containers {
		own := &containers[i].Resources
		requests := maps.Clone(own.Limits)
		if requests == nil {
			continue
		}
		maps.Copy(requests, own.Requests)
		own.Requests = requests
	}
}

// ofClass is between the name of a StorageClass and that of a resource, where a quota counts what is of the class.
const ofClass = ".storageclass.storage.k8s.io/"

// largest has of each resource the larger amount.
func largest(a, b corev1.ResourceList) corev1.ResourceList {
	all := maps.Clone(a)
	for name, quantity := range b {
		if there, is := all[name]; !is || quantity.Cmp(there) > 0 {
			all[name] = quantity
		}
	}
	return all
}

// countedAs is under which name amounts have what a quota counts under another.
func countedAs(name corev1.ResourceName) corev1.ResourceName {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return "requests." + name
	case "count/pods", "count/services", "count/persistentvolumeclaims":
		return corev1.ResourceName(strings.TrimPrefix(string(name), "count/"))
	default:
		return name
	}
}

// quotaUses are what quotas have of what more is used of than today. What a quota with scopes counts is not known.
func quotaUses(quotas []corev1.ResourceQuota, today, most corev1.ResourceList) []QuotaUse {
	var all []QuotaUse
	for i := range quotas {
		q := &quotas[i]
		if scoped(q) {
			continue
		}
		for name, hard := range q.Status.Hard {
			more := most[countedAs(name)].DeepCopy()
			more.Sub(today[countedAs(name)])
			if more.Sign() <= 0 {
				continue
			}
			use := QuotaUse{Quota: q.Name, Resource: name, Hard: hard, Used: q.Status.Used[name], Most: q.Status.Used[name].DeepCopy()}
			use.Most.Add(more)
			use.Exceeded = use.Most.Cmp(hard) > 0
			all = append(all, use)
		}
	}
	slices.SortFunc(all, func(a, b QuotaUse) int {
		return cmp.Or(cmp.Compare(a.Quota, b.Quota), cmp.Compare(a.Resource, b.Resource))
	})
	return all
}

func scoped(q *corev1.ResourceQuota) bool {
	return len(q.Spec.Scopes) > 0 || q.Spec.ScopeSelector != nil
}

// notes are what is worth knowing of a forecast.
func (r *rehearsal) notes(f *Forecast, quotas []corev1.ResourceQuota) []string {
	var notes []string
	pods, most := f.Today[corev1.ResourcePods], f.Most[corev1.ResourcePods]
	if len(f.Replaced) > 0 && most.Cmp(pods) > 0 {
		notes = append(notes, fmt.Sprintf("members that are replaced stay until those that take their place do their work and their removal may begin: there are %s pods at once at most, for which the quota and the nodes must have room", most.String()))
	}
	for i := range quotas {
		if scoped(&quotas[i]) {
			notes = append(notes, fmt.Sprintf("ResourceQuota %s has scopes, and whether it counts these pods is not looked at", quotas[i].Name))
		}
	}
	return notes
}

// unknown is what a rehearsal assumes.
func (r *rehearsal) unknown() []string {
	all := []string{"that pods start and become Ready, and that the rules of their roles let members go"}
	if r.in.Kind.Lists {
		all = append(all, fmt.Sprintf("that the list of %s has the members that have joined, and no others: the system is not asked", r.in.Kind.Name))
	}
	if r.in.Kind.Empties {
		all = append(all, fmt.Sprintf("that %s moves what members have to others when it is asked to, and keeps nothing on any member but for that: it is not asked", r.in.Kind.Name))
	}
	if r.contents.formed {
		all = append(all, "that the first members run on nodes of their own")
	}
	return all
}
