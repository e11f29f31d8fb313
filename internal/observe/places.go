package observe

import (
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/internal/snapshot"
)

// places are the nodes to which pods may go that ask for the same labels. One node is enough for each such pod, which is watched: it is
// found by a sample. Where a sample has none for a pod, all nodes with the labels are watched.
type places struct {
	pods    map[snapshot.OwnerKey][]asking // one for each owner and template
	samples int                            // that were taken
	chosen  []question                     // the nodes that the last sample gave
}

// asking is what pods ask of a node.
type asking struct {
	pod       *snapshot.Pod // what is asked, and nothing else
	placement snapshot.Placement
}

// mostSamples is how often a place is looked for by a sample, where the former ones were lost.
const mostSamples = 5

// needPlace asks for a node, but for those that are drained, to which a pod on them may go.
func (o *Observer) needPlace(p *snapshot.Pod) {
	if own, known := owners[p.Owner.GroupKind()]; !known || own == daemonSets || own == jobs {
		return // nothing is decided by where others like it may run
	}
	placement := snapshot.PlacementOf(p)
	selector := placement.Selector()
	of := o.scope.places[selector]
	if of == nil {
		of = &places{pods: map[snapshot.OwnerKey][]asking{}}
		o.scope.places[selector] = of
	}
	known := of.pods[p.OwnerKey()]
	if !slices.ContainsFunc(known, func(other asking) bool { return samePlaces(other.pod, p) }) {
		asked := &snapshot.Pod{NodeSelector: p.NodeSelector, NodeAffinity: p.NodeAffinity, Tolerations: p.Tolerations}
		of.pods[p.OwnerKey()] = append(known, asking{asked, snapshot.PlacementOf(asked)})
		o.scope.unplaced = true
	}
}

// seeClaim asks for the volume of a claim, where it is to be known which nodes can use it. No decision waits for it.
func (o *Observer) seeClaim(c *snapshot.Claim) {
	if o.volumes && c.Volume != "" {
		o.askAside(ofName(volumes, "", c.Volume))
	}
}

// seeVolume asks for nodes that can use a volume of pods on those that are drained.
func (o *Observer) seeVolume(v *snapshot.Volume) {
	if o.scope.wide || v.Affinity == nil {
		return
	}
	for name := range o.scope.nodes {
		for _, p := range o.cluster.PodsOn(name) {
			if slices.Contains(o.cluster.VolumesOf(p), v) {
				o.needPlace(o.cluster.WithVolumes(p))
			}
		}
	}
}

// samePlaces reports whether the same nodes take two pods of one owner.
func samePlaces(p, other *snapshot.Pod) bool {
	return reflect.DeepEqual(p.Tolerations, other.Tolerations) &&
		reflect.DeepEqual(p.NodeSelector, other.NodeSelector) && reflect.DeepEqual(p.NodeAffinity, other.NodeAffinity)
}

// forget forgets what an owner's pods do not ask any more, and reports whether nothing is left.
func (p *places) forget(owner snapshot.OwnerKey, asked func(snapshot.OwnerKey, *snapshot.Pod) bool) bool {
	p.pods[owner] = slices.DeleteFunc(p.pods[owner], func(known asking) bool { return !asked(owner, known.pod) })
	if len(p.pods[owner]) == 0 {
		delete(p.pods, owner)
	}
	return len(p.pods) == 0
}

// findPlaces looks for places that are not known, or were lost.
func (o *Observer) findPlaces() {
	o.scope.unplaced = false
	for selector, of := range o.scope.places {
		o.find(selector, of)
	}
}

// find has a place looked for where a pod has none, as far as is known. It waits for what is being looked at.
func (o *Observer) find(selector string, of *places) {
	unread := func(q question) bool { return o.asked[q] || o.feeds[q] != nil && !o.feeds[q].synced }
	all := question{resource: nodes, labels: selector}
	if o.answering(all) != nil || o.asked[all] || slices.ContainsFunc(of.chosen, unread) || unread(of.sample(selector)) || !o.lacking(of, nil) {
		return
	}
	if of.samples == mostSamples {
		o.ask(all)
		return
	}
	of.samples++
	of.chosen = nil
	o.ask(of.sample(selector))
}

// sample is the question for the last sample.
func (p *places) sample(selector string) question {
	return question{resource: nodes, labels: selector, sample: p.samples}
}

// lacking reports whether one of the pods has no place among the nodes that are known, and calls place, if given, with each of these.
func (o *Observer) lacking(of *places, place func(*snapshot.Placement) bool) bool {
	lacks := false
	for _, pods := range of.pods {
		for i := range pods {
			placement := &pods[i].placement
			if !o.cluster.AnyNode(func(n *snapshot.Node) bool { return o.takes(n, placement) }) {
				lacks = place == nil || !place(placement) || lacks
			}
		}
	}
	return lacks
}

// takes reports whether a node, if it is not drained, may run such a pod.
func (o *Observer) takes(n *snapshot.Node, placement *snapshot.Placement) bool {
	return !o.inScope(n.Name) && placement.Refusal(n) == ""
}

// sampleNodes lists a few of the nodes with labels, and has those watched that pods need. The caller holds the lock.
func (o *Observer) sampleNodes(q question) {
	ctx, f := o.open(q)
	o.done.Go(func() {
		defer f.cancel()
		for backoff := reconnect(); ; {
			list, err := o.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: q.labels, Limit: int64(o.limits.sample)})
			o.recordEnd(ctx, f, "list", err)
			if err == nil {
				o.choose(f, list.Items) //nolint:contextcheck // what it starts has the observer's own context
				return
			}
			select {
			case <-time.After(backoff.Step()):
			case <-ctx.Done():
				return
			}
		}
	})
}

// choose has nodes of a sample watched, as few as the pods need, or all with the labels where it does not have enough. The sample has no more
// to bring then.
func (o *Observer) choose(f *feed, sample []corev1.Node) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if of := o.scope.places[f.question.labels]; of != nil {
		o.chooseOf(of, f.question.labels, sample)
	}
	o.end(f)
	o.finish(nodes)
	o.step()
}

func (o *Observer) chooseOf(of *places, selector string, sample []corev1.Node) {
	chosen := map[string]bool{}
	lacks := o.lacking(of, func(placement *snapshot.Placement) bool {
		fits := func(n corev1.Node) bool { return o.takes(NodeFacts(&n), placement) }
		isChosen := func(n corev1.Node) bool { return chosen[n.Name] && fits(n) }
		if slices.ContainsFunc(sample, isChosen) {
			return true
		}
		i := slices.IndexFunc(sample, fits)
		if i < 0 {
			return false
		}
		chosen[sample[i].Name] = true
		return true
	})
	for name := range chosen {
		of.chosen = append(of.chosen, ofName(nodes, "", name))
		o.ask(ofName(nodes, "", name))
	}
	if lacks {
		o.ask(question{resource: nodes, labels: selector})
	}
}
