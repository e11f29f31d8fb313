package drain

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/snapshot"
)

// Surplus is that a workload has more ready pods than it is to have.
type Surplus struct {
	Wanted string    // what its controllers want: its replicas, and those of its ReplicaSets that have pods. A step of a rollout makes another surplus
	Since  time.Time // when it was first seen
	Last   time.Time // when it was last seen
}

// surplusOf returns how many of a workload's ready pods its controller removes: those beyond its replicas, since unready ones go first; of a
// StatefulSet those with the highest ordinals, ready or not.
func (d *decider) surplusOf(w *snapshot.Workload, ready []*snapshot.Pod, keeps int) int {
	if w.Kind != "StatefulSet" {
		return len(ready) - keeps
	}
	first, over := -1, 0
	for _, p := range d.podsOf(w) {
		n, numbered := p.Ordinal()
		if !numbered {
			return len(ready) - keeps
		}
		if first < 0 || n < first {
			first = n
		}
	}
	for _, p := range ready {
		if n, _ := p.Ordinal(); n >= first+keeps {
			over++
		}
	}
	return over
}

// goesSoon reports whether the surplus of a workload was first seen a short time ago, by this drain or by another one of this process.
func (d *decider) goesSoon(w *snapshot.Workload) bool {
	s := Surplus{Wanted: d.wantedOf(w), Since: d.Now, Last: d.Now}
	for _, l := range d.led.sharing() {
		if before, known := l.surplus[w.UID]; known && before.stands(s.Wanted, d.Now) && before.Since.Before(s.Since) {
			s.Since = before.Since
		}
	}
	d.out.Surplus[w.UID] = s
	until := s.Since.Add(disruptedFor)
	d.wake(until)
	return d.Now.Before(until)
}

// surplusFor is how long a surplus that is not seen any more, since pods of its workload are unready for a while, is still the same one.
const surplusFor = 10 * time.Minute

// stands reports whether a surplus is still the same one.
func (s Surplus) stands(wanted string, now time.Time) bool {
	return s.Wanted == wanted && now.Before(s.Last.Add(surplusFor))
}

// wantedOf says what the controllers of a workload want. Evictions do not change that. A ReplicaSet without a pod does not count: it is not read, and none of
// its pods is ready.
func (d *decider) wantedOf(w *snapshot.Workload) string {
	var words strings.Builder
	fmt.Fprint(&words, d.scaledTo(w))
	for _, set := range d.Cluster.WorkloadsOf(w.AsOwner()) {
		if set.Replicas != 0 && len(d.Cluster.PodsOf(set.AsOwner())) > 0 {
			fmt.Fprintf(&words, " %s=%d", set.UID, set.Replicas)
		}
	}
	return words.String()
}

// rememberSurplus carries on what earlier decisions have seen: one that looks at no pod of a workload does not forget its surplus.
func (d *decider) rememberSurplus() {
	d.out.Surplus = map[types.UID]Surplus{}
	for uid, s := range d.led.surplus {
		if w := d.Cluster.Workload(uid); w != nil && s.stands(d.wantedOf(w), d.Now) {
			d.out.Surplus[uid] = s
		}
	}
}
