package lostnode

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"usher.sh/usher/api/v1alpha1"
)

// mostNames is how many names a sentence lists.
const mostNames = 5

// listed is the first names, and how many more there are.
func listed(names []string) string {
	if len(names) <= mostNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:mostNames], ", "), len(names)-mostNames)
}

// crowded says why nothing is begun in a zone.
func crowded(zone string, silent []string, most int) string {
	where := "zone " + zone
	if zone == "" {
		where = "the zone of nodes that name none"
	}
	return fmt.Sprintf("%d nodes of %s are unreachable or being fenced at once (%s), and maxPerZone is %d: a silent zone is a broken network, so nothing is begun. "+
		"It goes on when fewer are; of a machine that is certainly off, say so: usher fence NODE --confirm; of one that is gone for good, delete the Node",
		len(silent), where, listed(silent), most)
}

// renewed says that a node which Kubernetes calls unreachable renews its Lease.
func renewed(node string, silent time.Duration) string {
	if silent < 0 {
		return fmt.Sprintf("its Lease says that it is renewed %s from now, so how long it has been silent is not known: its clock was wrong; "+
			"if the machine is certainly lost: kubectl delete lease -n kube-node-lease %s", (-silent).Round(time.Second), node)
	}
	return fmt.Sprintf("its Lease was renewed %s ago: it is not silent", silent.Round(time.Second))
}

// fenceWords is what a fence says of itself.
func fenceWords(fence *v1alpha1.NodeFence) string {
	if c := meta.FindStatusCondition(fence.Status.Conditions, v1alpha1.ConditionReady); c != nil && c.Message != "" {
		return c.Message
	}
	return "its fence is begun"
}
