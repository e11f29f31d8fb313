package observe

import (
	"cmp"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"usher.sh/usher/internal/snapshot"
)

// question is what a feed reads: the objects of a resource, in one namespace or in all (""), that selectors select, or all ("").
type question struct {
	resource  resource
	namespace string
	fields    string
	labels    string
	sample    int // not 0: how often such a sample was taken; nothing is watched
}

// whole is the question without its selectors.
func (q question) whole() question { return question{resource: q.resource, namespace: q.namespace} }

// ofName reads the object of a name.
func ofName(r resource, namespace, name string) question {
	return question{resource: r, namespace: namespace, fields: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}.bounded()
}

// onNode reads the pods of a node.
func onNode(name string) question {
	return question{resource: pods, fields: fields.OneTermEqualSelector("spec.nodeName", name).String()}.bounded()
}

// selectedBy reads the objects of a namespace that a label selector selects.
func selectedBy(r resource, namespace, selector string) question {
	return question{resource: r, namespace: namespace, labels: selector}.bounded()
}

// bounded is the question as it can be sent: one whose author makes its selectors too long is answered by reading all of the namespace. Names
// are too: that of an owner or a claim may be anything.
func (q question) bounded() question {
	if len(q.fields)+len(q.labels) > snapshot.LongestSelector {
		return q.whole()
	}
	return q
}

func compareQuestions(a, b question) int {
	return cmp.Or(
		cmp.Compare(a.resource.name, b.resource.name), cmp.Compare(a.namespace, b.namespace),
		cmp.Compare(a.fields, b.fields), cmp.Compare(a.labels, b.labels), cmp.Compare(a.sample, b.sample),
	)
}

// limits are how many feeds read some objects of a resource in one namespace before all of the namespace is read, how many feeds of a resource
// there are before all of it is, and how many nodes a sample has. Tenants decide how many names and selectors there are of their namespace, and
// how many of these select one object.
type limits struct {
	selecting, feeds, sample int
}

func (l limits) orUsual() limits {
	return limits{cmp.Or(l.selecting, maxNamed), cmp.Or(l.feeds, 500), cmp.Or(l.sample, 20)}
}

// ask notes a question, which has its feed when what is being done under the lock is done: that brings many at once. The caller holds
// the lock.
func (o *Observer) ask(q question) {
	if f := o.answering(q); f != nil {
		f.aside = false
		return
	}
	o.asked[q] = true
}

// askAside notes a question for whose answer decisions do not wait. The caller holds the lock.
func (o *Observer) askAside(q question) {
	if _, asked := o.asked[q]; !asked && o.answering(q) == nil {
		o.asked[q] = false
	}
}

// answering is the feed that reads what a question is about, nil where none does. The caller holds the lock.
func (o *Observer) answering(q question) *feed {
	return cmp.Or(o.feeds[q], o.feeds[q.whole()], o.feeds[question{resource: q.resource}])
}

// flush starts the feeds of what was asked. The caller holds the lock.
func (o *Observer) flush() {
	for len(o.asked) > 0 {
		waited := maps.Clone(o.asked)
		clear(o.asked)
		all := slices.SortedFunc(maps.Keys(waited), compareQuestions)
		selecting := o.selecting(all)
		for _, q := range all {
			o.start(o.widened(q, selecting), waited[q])
		}
	}
}

// widened is a question, or the one that is asked in place of so many like it.
func (o *Observer) widened(q question, selecting map[question]int) question {
	switch here := q.whole(); {
	case q.sample > 0:
	case len(o.feedsOf(q.resource)) >= o.limits.feeds:
		return question{resource: q.resource}
	case selecting[here] > o.limits.selecting:
		return here
	}
	return q
}

// start starts the feed of a question, if none reads that, and notes whether decisions wait for it.
func (o *Observer) start(q question, waits bool) {
	f := o.answering(q)
	if f == nil {
		o.watch(q)
		if f = o.feeds[q]; f == nil {
			return // it is not read at all
		}
		f.aside = true
	}
	f.aside = f.aside && !waits
}

// selecting counts by what reads all of a resource and a namespace the questions that read, or are to read, some of it.
func (o *Observer) selecting(fresh []question) map[question]int {
	counts := map[question]int{}
	count := func(q question) {
		if q.namespace != "" && q != q.whole() {
			counts[q.whole()]++
		}
	}
	for q := range o.feeds {
		count(q)
	}
	for _, q := range fresh {
		count(q)
	}
	return counts
}

// feedsOf are the feeds of a resource. The caller holds the lock and does not change the slice.
func (o *Observer) feedsOf(r resource) []*feed { return o.byResource[r] }

// watch starts the feed of a question. The caller holds the lock.
func (o *Observer) watch(q question) {
	switch {
	case q.sample > 0:
		o.sampleNodes(q)
	case q.resource == pods:
		o.watchPods(q)
	case q.resource == nodes:
		o.watchNodes(q)
	case q.resource == budgets:
		o.watchBudgets(q)
	case q.resource == autoscalers:
		o.watchAutoscalers(q)
	case q.resource == volumeClaims:
		o.watchClaims(q)
	case q.resource == volumes:
		o.watchVolumes(q)
	case q.resource == attachments:
		o.watchAttachments(q)
	case q.resource == evictionRequests:
		o.watchRequests(q)
	case q.resource == leases:
		o.watchLeases(q)
	case q.resource == evictions:
		o.watchEvictions(q)
	case q.resource == policies:
		o.watchPolicies(q)
	default:
		o.watchWorkloads(q)
	}
}
