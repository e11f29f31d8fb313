package observe

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"usher.sh/usher/internal/snapshot"
)

// begin starts the watches that are needed from the beginning.
func (o *Observer) begin(options Options) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case options.Only && len(options.Nodes) <= maxNamed:
		o.cluster.SetPartial(nodes.name, true)
		for _, name := range options.Nodes {
			o.ask(question{resource: nodes, fields: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()})
		}
		return
	case options.Only:
		o.ask(question{resource: nodes})
		return
	}
	o.ask(question{resource: nodes})
	if o.scope == nil || len(options.Nodes) > mostNarrow {
		o.ask(question{resource: budgets})
		o.ask(question{resource: pods})
		return
	}
	o.ask(question{resource: pods, labels: snapshot.SurgeLabel})
	for _, name := range options.Nodes {
		o.ask(question{resource: pods, fields: fields.OneTermEqualSelector("spec.nodeName", name).String()})
	}
}

// require asks for what decisions need of a pod: of one on a node that is observed, and of others, which their budgets count, where they are
// not ready. The caller holds the lock.
func (o *Observer) require(p *snapshot.Pod) {
	observed := p.Node != "" && o.inScope(p.Node)
	own, known := owners[p.Owner.GroupKind()]
	switch {
	case o.scope == nil && observed:
		eachNeed(p, func(r resource) { o.ask(question{resource: r}) })
	case o.scope == nil:
	case observed:
		o.requireBeside(p)
	case known && !p.Ready && !p.Finished():
		o.requireNamed(own, p.Namespace, p.Owner.Name)
	}
}

// requireBeside asks for what decisions about a pod need. The caller holds the lock.
func (o *Observer) requireBeside(p *snapshot.Pod) {
	o.ask(question{resource: budgets, namespace: p.Namespace})
	for _, b := range o.cluster.BudgetsFor(p) {
		o.requirePods(b.Namespace, b.Selector.String())
	}
	own, known := owners[p.Owner.GroupKind()]
	switch {
	case known:
		o.requireNamed(own, p.Namespace, p.Owner.Name)
	case p.Owner.UID != "":
		o.requirePods(p.Namespace, "") // which of them are of the same owner no selector says
	}
	eachNeed(p, func(r resource) {
		switch r {
		case own:
		case attachments:
			o.ask(question{resource: r})
		case deployments:
			o.ask(question{resource: r, labels: snapshot.SurgeLabel}) // those that its ReplicaSet belongs to when that is seen
		case autoscalers:
			o.ask(question{resource: r, labels: snapshot.SurgeLabel})
			o.ask(question{resource: r, namespace: p.Namespace})
		case evictionRequests:
			o.ask(question{resource: r, labels: snapshot.DrainLabel})
			o.ask(question{resource: r, namespace: p.Namespace})
		default:
			o.ask(question{resource: r, namespace: p.Namespace})
		}
	})
}

// requireOf asks for what decisions about a workload's pods need. The caller holds the lock.
func (o *Observer) requireOf(w *snapshot.Workload) {
	if o.scope == nil {
		return
	}
	if w.Surge != nil || w.SurgeError != "" {
		o.ask(question{resource: autoscalers, namespace: w.Namespace})
	}
	switch w.Kind {
	case "DaemonSet":
	case "ReplicaSet":
		if own, known := owners[w.Owner.GroupKind()]; known {
			o.requireNamed(own, w.Namespace, w.Owner.Name)
			return
		}
		o.requirePods(w.Namespace, w.Selector)
	case "Deployment":
		o.ask(question{resource: replicaSets, namespace: w.Namespace, labels: w.Selector})
		o.requirePods(w.Namespace, w.Selector)
	default:
		o.requirePods(w.Namespace, w.Selector)
	}
}

// requireWithoutOwner asks for the pods of a namespace where an owner may not be read that says which are its own. The caller holds the lock.
func (o *Observer) requireWithoutOwner(refused question) {
	if slices.Contains(slices.Collect(maps.Values(owners)), refused.resource) && refused.fields != "" && refused.resource != daemonSets {
		o.requirePods(refused.namespace, "")
	}
}

// requireScaled asks for the Deployment whose autoscaler a drain has changed. The caller holds the lock.
func (o *Observer) requireScaled(a *snapshot.Autoscaler) {
	if o.scope != nil && (a.Surge != nil || a.SurgeError != "") && a.TargetKind == "Deployment" {
		o.requireNamed(deployments, a.Namespace, a.TargetName)
	}
}

// requireUnder asks for the pods that a budget counts, if one is on a node that is observed. The caller holds the lock.
func (o *Observer) requireUnder(b *snapshot.Budget) {
	selector := b.Selector.String()
	if o.scope == nil || o.counted[b.Key()] == selector {
		return
	}
	for node := range o.scope {
		if slices.ContainsFunc(o.cluster.PodsOn(node), b.Matches) {
			o.counted[b.Key()] = selector
			o.requirePods(b.Namespace, selector)
			return
		}
	}
}

// requireNamed asks for an object by its name. The caller holds the lock.
func (o *Observer) requireNamed(r resource, namespace, name string) {
	o.ask(question{resource: r, namespace: namespace, fields: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()})
}

// longestSelector is the longest that is sent, in bytes: what its author makes longer is answered by reading all of the namespace.
const longestSelector = 2 << 10

// requirePods asks for the pods of a namespace that a label selector selects. The caller holds the lock.
func (o *Observer) requirePods(namespace, selector string) {
	if len(selector) > longestSelector {
		selector = ""
	}
	o.ask(question{resource: pods, namespace: namespace, labels: selector})
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

func (o *Observer) inScope(node string) bool { return o.scope == nil || o.scope[node] }
