package etcd

import "context"

// API is what is asked of an etcd cluster, one endpoint at a time. Its methods may be called by several goroutines at
// once. Errors need not name the endpoint.
type API interface {
	// Members reads the list of members linearizably: the answer has been confirmed by a quorum. Learners refuse.
	Members(ctx context.Context, endpoint string) (Membership, error)
	// Status is what the member at the endpoint knows by itself.
	Status(ctx context.Context, endpoint string) (Status, error)
	// Alarms reads the cluster's alarms through a quorum.
	Alarms(ctx context.Context, endpoint string) ([]Alarm, error)
	// MoveLeader asks the leader at the endpoint to hand over, and returns when it has. The error wraps ErrNotLeader if
	// the member at the endpoint does not lead.
	MoveLeader(ctx context.Context, endpoint string, to uint64) error
	// AddLearner puts a member without a vote on the list of members, at these peer URLs.
	AddLearner(ctx context.Context, endpoint string, peerURLs []string) error
	// Promote gives a learner a vote. The error wraps ErrLearnerNotReady if it is too far behind the leader.
	Promote(ctx context.Context, endpoint string, id uint64) error
	// Remove takes a member off the list of members. That it is not there is no error.
	Remove(ctx context.Context, endpoint string, id uint64) error
	// Close lets go of connections.
	Close()
}

// Membership is the list of members, as By has it.
type Membership struct {
	Cluster uint64
	By      uint64
	Members []Member
}

// Member is one entry of the list of members.
type Member struct {
	ID         uint64
	Name       string // empty until the member has started for the first time
	PeerURLs   []string
	ClientURLs []string
	Learner    bool
}

// Status is what a member says about itself.
type Status struct {
	Cluster   uint64
	Member    uint64
	Leader    uint64 // 0: it knows none
	Term      uint64
	Committed uint64
	Applied   uint64
	Learner   bool
	Version   string
	Errors    []string
}

// Alarm is raised by one member for the whole cluster.
type Alarm struct {
	Member uint64 // 0: not known which
	Name   string // NOSPACE, CORRUPT
}

// The alarms that etcd knows.
const (
	NoSpace = "NOSPACE"
	Corrupt = "CORRUPT"
)
