package drain

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/snapshot"
)

// Kind says what an Action does.
type Kind string

// The kinds of action. Each is idempotent, and each that removes or changes
// something carries the UID or the resource version of what was decided upon.
const (
	Cordon      Kind = "cordon"       // Node, Record: make it unschedulable and write the record; fails on another resource version
	Mark        Kind = "mark"         // Node, Record: write the record only (sign of life, final state); fails on another UID, where Lapsed on another resource version
	Uncordon    Kind = "uncordon"     // Node: make it schedulable and remove the record; fails on another resource version
	Unmark      Kind = "unmark"       // Node: remove the record, leave the cordon; fails on another resource version
	Evict       Kind = "evict"        // Pod, Grace: the eviction API, with UID precondition
	Delete      Kind = "delete"       // Pod, Grace: a plain delete past the budgets, with UID precondition
	LowerCost   Kind = "lower-cost"   // Pod, Drain: pod-deletion-cost to its minimum, former value in the mark; fails on another resource version
	RestoreCost Kind = "restore-cost" // Pod: the former pod-deletion-cost back and the mark away; fails on another resource version
	Scale       Kind = "scale"        // Workload, Replicas, Surge: replicas and record (nil removes it and the label); fails on another resource version
	ScaleMin    Kind = "scale-min"    // Autoscaler, Replicas, Surge: minReplicas and record (Workload is what it rules); fails on another resource version
	Ask         Kind = "ask"          // Pod, Drain: an EvictionRequest of this drain for the pod of this UID
	Withdraw    Kind = "withdraw"     // Request: delete it; fails on another UID
	RenewLease  Kind = "renew-lease"  // Lease: write it, or create it where it has no UID; fails on another resource version, or where there is one
	DeleteLease Kind = "delete-lease" // Lease: delete it; fails on another resource version
)

// Action is one write to the cluster.
type Action struct {
	Kind        Kind
	Node        *snapshot.Node
	Record      *snapshot.DrainRecord
	Lapsed      bool // marks: another drain may have taken the node since it was seen
	Pod         *snapshot.Pod
	Grace       *time.Duration // nil: the pod's own
	Workload    *snapshot.Workload
	Autoscaler  *snapshot.Autoscaler // scale: whose raised minimum the Deployment has reached, where the record is written to undo that
	Replicas    int32
	Surge       *snapshot.SurgeRecord
	Request     *snapshot.Request
	Lease       *snapshot.Lease // renewals: as it is to be
	Drain       string          // id of the drain that lowers a cost or asks
	GiveUp      string          // why what the scaling serves is not to be surged again in this drain
	Why         string          // for people
	HoldExpired string          // deletions: whom budgets have held for longer than administrators let them, and by which limit
	Note        string          // marks that end something: what is left on the node, and what holds it

	budget  budgetRef           // evictions, and deletions past a budget: the one that they use
	past    bool                // a delete past what held the pod, near the deadline
	passes  map[types.UID]int32 // deletions past budgets that have held too long: what pods share of which one goes so at a time
	removes []*snapshot.Pod     // scaling down: the pods of which some are to go with it
	from    []claim             // scaling down, of replicas or of the minimum that keeps them: the nodes whose pods that removes first
}

// claim is a node that a drain has.
type claim struct {
	node string
	of   snapshot.Drainer
}

// Target returns the UID of what the action changes.
func (a Action) Target() types.UID {
	switch a.Kind {
	case Cordon, Mark, Uncordon, Unmark:
		return a.Node.UID
	case Evict, Delete, LowerCost, RestoreCost, Ask:
		return a.Pod.UID
	case Scale:
		return a.Workload.UID
	case ScaleMin:
		return a.Autoscaler.UID
	case Withdraw:
		return a.Request.UID
	case RenewLease, DeleteLease:
		return leaseTarget(a.Lease.ID)
	}
	return ""
}

// leaseTarget stands for the UID of a drain's Lease, which has none before it is created.
func leaseTarget(id string) types.UID { return types.UID(snapshot.LeaseName(id)) }

// restsOn returns the nodes on which the record and the cordon of this drain, or of another one whose pods a scaling down removes too, have
// to stand when the action is sent; a mark needs the record only.
func (a Action) restsOn(self snapshot.Drainer) []claim {
	switch a.Kind {
	case Evict, Delete, LowerCost, Ask:
		return []claim{{a.Pod.Node, self}}
	case Mark:
		if !a.Lapsed {
			return []claim{{a.Node.Name, self}}
		}
	case Scale, ScaleMin:
		return a.from
	case Cordon, Uncordon, Unmark, RestoreCost, Withdraw, RenewLease, DeleteLease:
	}
	return nil
}

// scalesDown reports whether pods may be removed by the action: replicas go down, or the minimum below which no autoscaler sets them.
func (a Action) scalesDown() bool {
	return a.Kind == Scale && a.Replicas < a.Workload.Replicas || a.Kind == ScaleMin && a.Replicas < a.Autoscaler.Min
}

// version returns the resource version of what the action was decided upon.
func (a Action) version() string {
	switch a.Kind {
	case Cordon, Mark, Uncordon, Unmark:
		return a.Node.ResourceVersion
	case Evict, Delete, LowerCost, RestoreCost:
		return a.Pod.ResourceVersion
	case Scale:
		return a.Workload.ResourceVersion
	case ScaleMin:
		return a.Autoscaler.ResourceVersion
	case RenewLease, DeleteLease:
		return a.Lease.ResourceVersion
	case Ask, Withdraw: // they rest on a UID alone
	}
	return ""
}

// surgeTarget returns the UID of the workload that a scaling serves.
func (a Action) surgeTarget() types.UID {
	if a.Workload != nil {
		return a.Workload.UID
	}
	return a.Autoscaler.UID
}
