package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"usher.sh/usher/internal/text"

	"usher.sh/usher/internal/snapshot"
)

// What is assumed where nothing can be learned.
const (
	assumedStart = 20 * time.Second
	assumedStop  = 5 * time.Second
	flapping     = 30 * time.Minute // a pod that took longer to become ready has more likely been unready since
)

// learner knows how long pods took to become ready so far.
type learner struct {
	cluster *snapshot.Cluster
	owners  map[snapshot.OwnerKey]time.Duration
	kinds   map[string]time.Duration // nil until asked for
	guessed []string                 // owners of which nothing is known
}

func newLearner(c *snapshot.Cluster) *learner {
	return &learner{cluster: c, owners: map[snapshot.OwnerKey]time.Duration{}}
}

// start is the median of the owner's ready pods, else of all pods of that kind of
// owner, else what is assumed. A pod that nothing owns is of its own kind.
func (l *learner) start(p *snapshot.Pod, _ *rand.Rand) time.Duration {
	owner := p.OwnerKey()
	if owner.UID == "" {
		owner.UID = p.UID
	}
	if known, ok := l.owners[owner]; ok {
		return known
	}
	took, ok := median(l.cluster.PodsOf(owner))
	if !ok {
		took = l.ofKind(p.Owner.Kind)
		l.guessed = append(l.guessed, fmt.Sprintf("%s (%s)", nameOf(p), took))
	}
	l.owners[owner] = took
	return took
}

// nameOf names what starts pods like this one: its owner, or the pod where it has none.
func nameOf(p *snapshot.Pod) string {
	if p.Owner.UID == "" {
		return "Pod " + p.Key().String()
	}
	return fmt.Sprintf("%s %s/%s", p.Owner.Kind, p.Namespace, p.Owner.Name)
}

func (l *learner) stop(*snapshot.Pod, *rand.Rand) time.Duration { return assumedStop }

func (l *learner) ofKind(kind string) time.Duration {
	if l.kinds == nil {
		l.kinds = map[string]time.Duration{}
		pods := map[string][]*snapshot.Pod{}
		l.cluster.EachPod(func(p *snapshot.Pod) { pods[p.Owner.Kind] = append(pods[p.Owner.Kind], p) })
		for kind, of := range pods {
			if took, ok := median(of); ok {
				l.kinds[kind] = took
			}
		}
	}
	if took, ok := l.kinds[kind]; ok {
		return took
	}
	return assumedStart
}

func median(pods []*snapshot.Pod) (time.Duration, bool) {
	var took []time.Duration
	for _, p := range pods {
		if d := p.ReadySince.Sub(p.Created); p.Ready && d >= 0 && d < flapping {
			took = append(took, d)
		}
	}
	if len(took) == 0 {
		return 0, false
	}
	slices.Sort(took)
	return took[len(took)/2], true
}

// unknown says what was assumed.
func (l *learner) unknown() []string {
	said := []string{fmt.Sprintf("how long pods take to stop: %s assumed, or their grace where that is shorter", assumedStop)}
	if len(l.guessed) > 0 {
		said = append(said, fmt.Sprintf("how long it takes until pods are ready of which none is: %s", text.List(l.guessed, mostListed)))
	}
	for _, gap := range l.cluster.Gaps() {
		said = append(said, fmt.Sprintf("%s cannot be read (%s): what depends on them is taken to go on as before", gap.Resource, gap.Reason))
	}
	return said
}

const mostListed = 5
