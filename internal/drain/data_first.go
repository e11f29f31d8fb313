package drain

import (
	"fmt"
	"slices"
	"time"

	"usher.sh/usher/internal/snapshot"
)

// lineUpData lets the members of a policy whose data the node does not have alone be asked for after those of which it has, where the node goes by itself: what a
// policy lets go one after the other is then first what would be lost, and what can be made anew after it. Once the responder has looked at the first ones, which
// have their permits or their steps then, or the time for that is over, none waits any more.
func (d *decider) lineUpData(t *target) {
	until := d.judgedBy()
	if !d.req.NodeGoes || d.req.Deadline.IsZero() || t.node == nil || !d.Now.Before(until) {
		return
	}
	for i := range t.queue {
		q := &t.queue[i]
		if !d.mayAsk(q.pod) || d.dataOn(q.pod, t.node) {
			continue
		}
		q.data = d.inLine(t.queue, func(other *queued) bool {
			p := other.pod
			return p.Policy() == q.pod.Policy() && p.Namespace == q.pod.Namespace && d.mayAsk(p) && !d.judged(p) && d.dataOn(p, t.node)
		})
		if q.data.first != nil {
			d.wake(until)
		}
	}
}

// judgedBy is when responders have had time to look at what was asked for at the beginning of a drain.
func (d *decider) judgedBy() time.Time {
	return d.req.Started.Add(min(mostJudging, d.req.Deadline.Sub(d.req.Started)/8))
}

// judged reports whether a responder has looked at a pod that was asked for.
func (d *decider) judged(p *snapshot.Pod) bool {
	e := d.Cluster.EvictionOf(p)
	return p.Terminating() || e != nil && e.Message != ""
}

// dataOn reports whether a pod has data that is on the node alone, as far as its volumes are known.
func (d *decider) dataOn(p *snapshot.Pod, n *snapshot.Node) bool {
	return len(p.EmptyDirs) > 0 || slices.ContainsFunc(d.Cluster.VolumesOf(p), func(v *snapshot.Volume) bool { return v.OnAlone(n) })
}

// afterData names what a member waits for whose data is not on the node alone.
func (d *decider) afterData(q *queued) Blocker {
	p := q.pod
	b := Blocker{Reason: EarlierWave, Pod: p.Key(), Node: p.Node, Remedy: "wait"}
	if d.verbose {
		b.Message = fmt.Sprintf("its eviction is requested once a responder has looked at %s, whose data is on this node alone, at the latest at %s",
			nameBeside(q.data.first, p), d.judgedBy().UTC().Format("15:04:05"))
	}
	return b
}
