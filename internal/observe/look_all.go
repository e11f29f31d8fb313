package observe

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/evictionrequest/client"
	"usher.sh/usher/internal/snapshot"
)

// All reads everything that decisions about pods on any node need, in parts of 500 objects, which servers compress. It fails where
// pods, nodes or budgets may not be read, where the apiserver does not answer within 30 s, and after two minutes. What else cannot be
// read is a gap; of requests, evictions and policies that is so without a client of theirs. Progress is called with the number of pods read so far.
func (l *Look) All(ctx context.Context, of *client.Client, progress func(pods int)) error {
	ctx, end := l.bounded(ctx)
	defer end()
	reads := l.wholeReads(of, func(p *corev1.Pod) {
		l.setPod(p)
		progress(l.cluster.PodCount())
	})
	for _, r := range always {
		if err := refused(r, l.explained(ctx, r, reads[r](ctx))); err != nil {
			return err
		}
	}
	l.cluster.SetPartial(nodes.name, false)
	l.cluster.SetPartial(pods.name, false)
	needed := map[resource]bool{}
	l.cluster.EachPod(func(p *snapshot.Pod) { eachNeed(p, func(r resource) { needed[r] = true }) })
	needed[volumes] = needed[volumeClaims]
	for r, is := range needed {
		if !is {
			continue
		}
		if reads[r] == nil {
			l.cluster.SetGap(snapshot.Gap{Resource: r.name, Reason: "they are not read", Final: true})
			continue
		}
		if err := l.orGap(r, l.explained(ctx, r, reads[r](ctx))); err != nil {
			return err
		}
	}
	return l.leasesNeeded(ctx)
}

// wholeReads are the requests for all objects of each resource.
func (l *Look) wholeReads(of *client.Client, setPod func(*corev1.Pod)) map[resource]request {
	const everywhere = metav1.NamespaceAll
	core, everything := l.client.CoreV1(), metav1.ListOptions{}
	reads := map[resource]request{
		pods:         list(l, core.Pods(everywhere).List, everything, setPod),
		nodes:        list(l, core.Nodes().List, everything, l.setNode),
		budgets:      list(l, l.client.PolicyV1().PodDisruptionBudgets(everywhere).List, everything, l.setBudget),
		volumeClaims: list(l, core.PersistentVolumeClaims(everywhere).List, everything, l.setClaim),
		autoscalers:  list(l, l.client.AutoscalingV2().HorizontalPodAutoscalers(everywhere).List, everything, l.setAutoscaler),
		volumes:      list(l, core.PersistentVolumes().List, everything, func(v *corev1.PersistentVolume) { l.cluster.SetVolume(volumeFacts(v)) }),
		attachments: list(l, l.client.StorageV1().VolumeAttachments().List, everything,
			func(a *storagev1.VolumeAttachment) { l.cluster.SetAttachment(attachmentFacts(a)) }),
	}
	for _, kind := range workloadKinds {
		reads[kind.resource] = kind.list(l, everywhere)
	}
	if of != nil {
		reads[evictionRequests] = list(l, of.Requests(everywhere).List, everything, func(r *api.EvictionRequest) { l.cluster.SetRequest(RequestFacts(r)) })
		reads[policies] = list(l, of.Policies(everywhere).List, everything, func(p *v1alpha1.EvictionPolicy) { l.cluster.SetPolicy(PolicyFacts(p)) })
		reads[evictions] = list(l, of.Evictions(everywhere).List, everything, func(e *api.Eviction) { l.cluster.SetEviction(EvictionFacts(e)) })
	}
	return reads
}
