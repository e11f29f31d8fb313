package observe

import (
	"weak"

	"usher.sh/usher/internal/snapshot"
)

// held finds facts of pods again for as long as something else holds them: it keeps none from being garbage. The zero value has none.
type held[K comparable] struct {
	facts map[K]weak.Pointer[snapshot.Pod]
	crowd int // with how many it is looked next which are garbage
}

// leastCrowd is with how many that is looked for the first time: after each time, with twice as many as were left.
const leastCrowd = 64

// get returns facts, nil where there are none, or are none any more.
func (h *held[K]) get(key K) *snapshot.Pod { return h.facts[key].Value() }

// put enters facts in place of those of the same key.
func (h *held[K]) put(key K, p *snapshot.Pod) {
	if h.facts == nil {
		h.facts, h.crowd = map[K]weak.Pointer[snapshot.Pod]{}, leastCrowd
	}
	h.facts[key] = weak.Make(p)
	if len(h.facts) < h.crowd {
		return
	}
	for known, facts := range h.facts {
		if facts.Value() == nil {
			delete(h.facts, known)
		}
	}
	h.crowd = max(leastCrowd, 2*len(h.facts))
}
