package drain

import (
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/snapshot"
)

// Excluded returns the pods on the drain's nodes that the filters leave where they are,
// terminating ones included: their end is not the drain's doing.
func Excluded(view snapshot.View, req Request) map[types.UID]bool {
	d := newDecider(view, req, NewLedger(), true)
	excluded := map[types.UID]bool{}
	for _, name := range req.Nodes {
		for _, p := range view.Cluster.PodsOn(name) {
			if d.fateOf(p).stays != "" {
				excluded[p.UID] = true
			}
		}
	}
	return excluded
}
