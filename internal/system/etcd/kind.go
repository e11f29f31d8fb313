package etcd

import (
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/replacement"
	"usher.sh/usher/internal/system"
)

// MoveLeader is the one step: leadership goes to the most advanced of the other healthy voters.
const MoveLeader = "MoveLeader"

//go:embed roles/*.yaml
var roles embed.FS

// Kind describes etcd.
func Kind() system.Kind {
	sub, err := fs.Sub(roles, "roles")
	if err != nil {
		sub = roles // cannot be: the name is a valid path
	}
	return system.Kind{
		Name:     "etcd",
		Declared: func(spec *v1alpha1.System) bool { return spec.Etcd != nil },
		Schema:   schema,
		Steps: map[string]string{
			MoveLeader: "Hands leadership to the most advanced of the other healthy voters. Nothing to undo: any voter may lead.",
		},
		Roles:      sub,
		References: references,
		Reports: func(facts expression.Facts) (does, known bool) {
			does, known = facts["healthy"].(bool)
			return does, known
		},
		ReportFacts: []string{"healthy"},
		Succession: func(*v1alpha1.System) system.Succession {
			return system.Succession{Order: replacement.LeavesFirst, Refuses: refuses}
		},
		Set:  setKind(),
		Open: Open,
	}
}

func references(spec *v1alpha1.System) system.References {
	refers := system.References{Access: &spec.Etcd.Access}
	if auth := spec.Etcd.Auth; auth != nil {
		refers.Secrets = []v1alpha1.SecretKey{
			{Name: auth.Name, Key: corev1.BasicAuthUsernameKey}, {Name: auth.Name, Key: corev1.BasicAuthPasswordKey},
		}
	}
	return refers
}

// Open makes a System that asks the cluster over gRPC.
func Open(spec *v1alpha1.System, access system.Access) (system.System, error) {
	api, err := newClient(spec.Etcd, access)
	if err != nil {
		return nil, err
	}
	return Over(api, spec.Etcd.MaxLag, access.Endpoints, access.Timeout), nil
}

// Over makes a System of any API. maxLag is how many entries a voter may be behind and count as caught up; timeout is how
// long one call may take.
func Over(api API, maxLag int64, endpoints []string, timeout time.Duration) system.System {
	return &cluster{api: api, maxLag: maxLag, endpoints: endpoints, timeout: timeout}
}

var schema = expression.Schema{
	System: []expression.Field{
		{Name: "members", Type: expression.Int, Doc: "members, learners and members that have not started included"},
		{Name: "learners", Type: expression.Int, Doc: "members without a vote"},
		{Name: "voters", Type: expression.Int, Doc: "members with a vote"},
		{Name: "healthyVoters", Type: expression.Int, Doc: "voters that a quorum can count on now"},
		{Name: "quorum", Type: expression.Int, Doc: "voters that it takes to commit a write"},
		{Name: "agreed", Type: expression.Bool, Doc: "a quorum names the same leader at the same term, and no voter another"},
		{Name: "leader", Type: expression.String, Doc: "name of the leader; absent unless agreed"},
		{Name: "leaderId", Type: expression.String, Doc: "id of the leader in hexadecimal; absent unless agreed"},
		{Name: "leaders", Type: expression.Strings, Doc: "names of all members that some voter calls leader"},
		{Name: "unhealthy", Type: expression.Strings, Doc: "voters that are not healthy, each with the cause"},
		{Name: "alarms", Type: expression.Strings, Doc: "alarms, each once: NOSPACE, CORRUPT"},
		{Name: "corrupt", Type: expression.Strings, Doc: "names of the members with a CORRUPT alarm"},
		{Name: "maxLag", Type: expression.Int, Doc: "entries that a voter may be behind and count as caught up"},
	},
	Member: []expression.Field{
		{Name: "name", Type: expression.String, Doc: "name in the list of members, or the id of a member that has not started"},
		{Name: "memberId", Type: expression.String, Doc: "id in hexadecimal, as etcdctl prints it"},
		{Name: "learner", Type: expression.Bool, Doc: "it has no vote"},
		{Name: "leader", Type: expression.Bool, Doc: "some voter calls it leader"},
		{Name: "healthy", Type: expression.Bool, Doc: "it answers, a linearizable read through it succeeds, and it agrees with the quorum"},
		{Name: "unhealthyBecause", Type: expression.String, Doc: "why it is not healthy; empty if it is"},
		{Name: "isolated", Type: expression.Bool, Doc: "it answers, and has no part in the quorum; absent if it does not answer"},
		{Name: "appliedIndex", Type: expression.Int, Doc: "last entry that it has applied; absent if it does not answer"},
		{Name: "lag", Type: expression.Int, Doc: "entries behind the newest committed one; absent if it does not answer"},
		{Name: "alarms", Type: expression.Strings, Doc: "alarms that it has raised"},
		{Name: "version", Type: expression.String, Doc: "version of the server; absent if it does not answer"},
		{Name: "votersWithout", Type: expression.Int, Doc: "other voters that are healthy and caught up"},
		{Name: "quorumWithout", Type: expression.Bool, Doc: "the other voters that are healthy and caught up are a quorum"},
		{Name: "othersUnhealthy", Type: expression.Strings, Doc: "other voters that are not healthy, each with the cause"},
		{Name: "othersBehind", Type: expression.Strings, Doc: "other voters that answer and are more than maxLag behind, each with its lag"},
	},
}

// hexID writes an id as etcdctl does.
func hexID(id uint64) string { return strconv.FormatUint(id, 16) }

func (m Member) label() string {
	if m.Name == "" {
		return fmt.Sprintf("%s (not started yet)", hexID(m.ID))
	}
	return m.Name
}
