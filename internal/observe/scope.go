package observe

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.sh/usher/internal/snapshot"
)

// scope is of whose pods decisions are to be made, and what they have turned out to need. The observer's lock guards it.
type scope struct {
	nodes map[string]bool // nil: every node
	wide  bool            // everything is read of each resource that is needed

	owners  map[snapshot.OwnerKey]depth
	ruled   map[string]map[snapshot.OwnerKey]labels.Selector // of the pods of Deployments whose pods are needed, by namespace; it never changes
	raised  map[snapshot.Key]string                          // Deployments by the autoscalers of theirs that a drain has changed
	scanned map[snapshot.Key]string                          // budgets for which pods on the nodes were looked for, by what selectors
	counted map[snapshot.Key]string                          // those that count one, by what selectors

	places   map[string]*places // by label selector
	unplaced bool               // a pod has come for which no place was looked for yet
}

func newScope(nodes []string) scope {
	return scope{
		nodes:   set(nodes),
		owners:  map[snapshot.OwnerKey]depth{},
		ruled:   map[string]map[snapshot.OwnerKey]labels.Selector{},
		raised:  map[snapshot.Key]string{},
		scanned: map[snapshot.Key]string{},
		counted: map[snapshot.Key]string{},
		places:  map[string]*places{},
	}
}

// depth is how much of an owner is needed.
type depth int

const (
	alone     depth = iota + 1 // it, and what it belongs to
	unsettled                  // its pods as well, once it may have more than it is to keep
	withPods                   // its pods as well
)

// owners are the resources of the kinds of owners that are read.
var owners = map[schema.GroupKind]resource{
	{Group: "apps", Kind: "ReplicaSet"}:  replicaSets,
	{Group: "apps", Kind: "Deployment"}:  deployments,
	{Group: "apps", Kind: "StatefulSet"}: statefulSets,
	{Group: "apps", Kind: "DaemonSet"}:   daemonSets,
	{Kind: "ReplicationController"}:      controllers,
	{Group: "batch", Kind: "Job"}:        jobs,
}

func set(names []string) map[string]bool {
	if names == nil {
		return nil
	}
	found := make(map[string]bool, len(names))
	for _, name := range names {
		found[name] = true
	}
	return found
}

func (o *Observer) inScope(node string) bool { return o.scope.nodes == nil || o.scope.nodes[node] }

// onNodes reports whether a pod is on one of the nodes.
func (o *Observer) onNodes(p *snapshot.Pod) bool { return p.Node != "" && o.inScope(p.Node) }

// seePod asks for what decisions need because of a pod: of one on the nodes, and of others near them. The caller holds the lock.
func (o *Observer) seePod(p *snapshot.Pod) {
	switch {
	case !o.scope.wide && o.onNodes(p):
		o.needPod(p)
	case !o.scope.wide:
		o.needNear(p)
	case o.onNodes(p):
		eachNeed(p, func(r resource) { o.ask(question{resource: r}) })
	}
}

// needPod asks for what decisions about a pod on the nodes need.
func (o *Observer) needPod(p *snapshot.Pod) {
	o.ask(question{resource: budgets, namespace: p.Namespace})
	for _, b := range o.cluster.BudgetsFor(p) {
		o.count(b)
	}
	o.needOwner(p.Namespace, p.Owner, withPods)
	o.needPlace(p)
	if asking := o.cluster.WithVolumes(p); asking != p {
		o.needPlace(asking)
	}
	eachNeed(p, func(r resource) {
		switch r {
		case volumeClaims:
			for _, name := range p.Claims {
				o.ask(ofName(r, p.Namespace, name))
			}
		case attachments:
			o.ask(question{resource: r}) // no selector names the node of one
		case autoscalers, evictionRequests, evictions, policies:
			o.ask(question{resource: r, namespace: p.Namespace})
		default: // owners
		}
	})
}

// needOwner asks for an owner of pods, unless that was asked for.
func (o *Observer) needOwner(namespace string, owner snapshot.Owner, much depth) {
	r, known := owners[owner.GroupKind()]
	key := owner.In(namespace)
	if !known || owner.UID == "" || o.scope.owners[key] >= much {
		return
	}
	o.scope.owners[key] = much
	o.ask(ofName(r, namespace, owner.Name))
	if w := o.cluster.WorkloadOf(key); w != nil {
		o.needOf(w, much)
	}
}

// seeWorkload asks for what decisions need because of a workload. The caller holds the lock.
func (o *Observer) seeWorkload(w *snapshot.Workload) {
	if o.scope.wide {
		return
	}
	if much := o.scope.owners[w.AsOwner()]; much > 0 {
		o.needOf(w, much)
	}
	if w.Surge != nil || w.SurgeError != "" || w.Kind == "Deployment" && o.isRaised(w.Key()) {
		o.needScaled(w)
	}
}

// needOf asks for what a workload belongs to, and for its pods. Of one that is settled and not surged these are as many as it is to keep.
func (o *Observer) needOf(w *snapshot.Workload, much depth) {
	if w.Kind == "ReplicaSet" {
		o.needOwner(w.Namespace, w.Owner, much)
	}
	switch {
	case much < unsettled || much == unsettled && w.Settled || w.Kind == "DaemonSet":
	case w.Kind == "Deployment":
		o.rule(w)
	case w.Kind == "ReplicaSet" && o.belongs(w):
	default:
		o.ask(selectedBy(pods, w.Namespace, w.Selector))
	}
}

// belongs reports whether a ReplicaSet has a Deployment, by whose selector its pods are read, or may have one that has not been read yet.
func (o *Observer) belongs(w *snapshot.Workload) bool {
	if owners[w.Owner.GroupKind()] != deployments {
		return false
	}
	if o.cluster.WorkloadOf(w.OwnerKey()) != nil {
		return true
	}
	for _, q := range []question{ofName(deployments, w.Namespace, w.Owner.Name), {resource: deployments, namespace: w.Namespace}, {resource: deployments}} {
		if f := o.feeds[q]; f != nil {
			return !f.synced && !f.final
		}
	}
	return true // it is asked for
}

// needOrphans asks for the pods of ReplicaSets whose Deployment is gone or cannot be read.
func (o *Observer) needOrphans() {
	for key, much := range o.scope.owners {
		if w := o.cluster.WorkloadOf(key); w != nil && w.Kind == "ReplicaSet" {
			o.needOf(w, much)
		}
	}
}

// rule asks for the pods of a Deployment. Which of its ReplicaSets have some is seen by them.
func (o *Observer) rule(w *snapshot.Workload) {
	o.ask(selectedBy(pods, w.Namespace, w.Selector))
	if o.scope.ruled[w.Namespace][w.AsOwner()] != nil {
		return
	}
	selector, err := labels.Parse(w.Selector)
	if err != nil {
		return
	}
	if o.scope.ruled[w.Namespace] == nil {
		o.scope.ruled[w.Namespace] = map[snapshot.OwnerKey]labels.Selector{}
	}
	o.scope.ruled[w.Namespace][w.AsOwner()] = selector
	for _, p := range o.cluster.PodsIn(w.Namespace) {
		o.needNear(p)
	}
}

// needScaled asks for what undoing a surge needs: the autoscaler, and the pods that scaling down may remove, with their budgets.
func (o *Observer) needScaled(w *snapshot.Workload) {
	o.ask(question{resource: autoscalers, namespace: w.Namespace})
	o.ask(question{resource: budgets, namespace: w.Namespace})
	o.needOwner(w.Namespace, snapshot.Owner{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: w.Kind, Name: w.Name, UID: w.UID}, withPods)
}

// seeAutoscaler asks for the Deployment whose autoscaler a drain has changed. The caller holds the lock.
func (o *Observer) seeAutoscaler(a *snapshot.Autoscaler) {
	changed := (a.Surge != nil || a.SurgeError != "") && a.TargetKind == "Deployment"
	if known := o.scope.raised[a.Key()]; o.scope.wide || changed && known == a.TargetName {
		return
	}
	delete(o.scope.raised, a.Key())
	if !changed {
		return
	}
	o.scope.raised[a.Key()] = a.TargetName
	o.ask(ofName(deployments, a.Namespace, a.TargetName))
	for _, w := range o.cluster.Workloads() {
		if a.Rules(w) {
			o.needScaled(w)
		}
	}
}

// isRaised reports whether a drain has changed an autoscaler of the Deployment of a name.
func (o *Observer) isRaised(deployment snapshot.Key) bool {
	for key, name := range o.scope.raised {
		if name == deployment.Name && key.Namespace == deployment.Namespace {
			return true
		}
	}
	return false
}

// seeBudget asks for the pods that a budget counts, if one is on the nodes. The caller holds the lock.
func (o *Observer) seeBudget(b *snapshot.Budget) {
	if _, selects := b.Selector.Requirements(); !selects { // what selects nothing and what selects all are written alike
		delete(o.scope.scanned, b.Key())
		return
	}
	selector := b.Selector.String()
	if known, done := o.scope.scanned[b.Key()]; o.scope.wide || done && known == selector {
		return
	}
	o.scope.scanned[b.Key()] = selector
	for _, p := range o.cluster.PodsIn(b.Namespace) {
		if o.onNodes(p) && b.Matches(p) {
			o.count(b)
			return
		}
	}
}

// count asks for the pods that a budget counts.
func (o *Observer) count(b *snapshot.Budget) {
	selector := b.Selector.String()
	if known, done := o.scope.counted[b.Key()]; done && known == selector {
		return
	}
	o.scope.counted[b.Key()] = selector
	o.ask(selectedBy(pods, b.Namespace, selector))
	for _, p := range o.cluster.PodsIn(b.Namespace) {
		o.needNear(p)
	}
}

// needNear asks for what decisions need of a pod that is not on the nodes.
func (o *Observer) needNear(p *snapshot.Pod) {
	if o.onNodes(p) {
		return
	}
	if o.isRuled(p) {
		o.needOwner(p.Namespace, p.Owner, alone)
	}
	o.needCounted(p)
}

// isRuled reports whether a ReplicaSet has the pod that was not asked for, of a Deployment whose pods are needed.
func (o *Observer) isRuled(p *snapshot.Pod) bool {
	if owners[p.Owner.GroupKind()] != replicaSets || o.scope.owners[p.OwnerKey()] >= alone {
		return false
	}
	for _, selector := range o.scope.ruled[p.Namespace] {
		if selector.Matches(labels.Set(p.Labels)) {
			return true
		}
	}
	return false
}

// needCounted asks for what decides how many pods a budget of pods on the nodes will count, because of one that it counts: its owner, which may
// have more pods than it is to keep, and of one that is not ready its node, which may say why.
func (o *Observer) needCounted(p *snapshot.Pod) {
	for _, b := range o.cluster.BudgetsFor(p) {
		if _, counted := o.scope.counted[b.Key()]; !counted {
			continue
		}
		o.needOwner(p.Namespace, p.Owner, unsettled)
		if (!p.Ready || p.Terminating()) && !p.Finished() && p.Node != "" {
			o.askAside(ofName(nodes, "", p.Node))
		}
		return
	}
}

// finish asks for what follows from a change of a resource as a whole, and starts the feeds of all that was asked for. The caller holds
// the lock.
func (o *Observer) finish(r resource) {
	if !o.scope.wide && (r == nodes || o.scope.unplaced) {
		o.findPlaces()
	}
	if !o.scope.wide && r == deployments {
		o.needOrphans()
	}
	o.endCovered(r)
	o.flush()
}
