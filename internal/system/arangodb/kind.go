package arangodb

import (
	"embed"
	"io/fs"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/replacement"
	"usher.sh/usher/internal/system"
)

//go:embed roles/*.yaml
var roleFiles embed.FS

// Name is the field of spec.system.
const Name = "arangodb"

// The steps.
const (
	CleanOut         = "CleanOut"
	ResignLeadership = "ResignLeadership"
	StepDown         = "StepDown"
)

// Kind is ArangoDB.
func Kind() system.Kind {
	roles, err := fs.Sub(roleFiles, "roles")
	if err != nil {
		roles = roleFiles // cannot be: the name is a valid path
	}
	return system.Kind{
		Name:     Name,
		Declared: func(spec *v1alpha1.System) bool { return spec.ArangoDB != nil },
		Schema:   Schema,
		Steps: map[string]string{
			CleanOut: "moves every shard of a dbserver to others; undone, the server may hold shards again, but those that were moved stay where they are",
			ResignLeadership: "hands the lead of the dbserver's shards to followers that are in sync; shards without one are passed over in silence, " +
				"so a role must look at member.leads and member.resign; it is not undone: any server may lead",
			StepDown: "restarts the process of the agent that leads the agency in its place, so that another agent leads; it is done only while enough " +
				"others follow and have every entry, and nothing is left to undo; for that moment the agent is away, so a role must look at preparing",
		},
		Roles:       roles,
		References:  references,
		Reports:     reports,
		ReportFacts: []string{"health", "agentAnswers"},
		Succession:  func(*v1alpha1.System) system.Succession { return system.Succession{Order: replacement.LeavesLast} },
		Keeps:       keeps,
		Open:        Open,
	}
}

// reports goes by the supervision's verdict, and of agents, which it does not judge, by their own answers.
func reports(facts expression.Facts) (does, known bool) {
	if answers, agent := facts["agentAnswers"].(bool); agent {
		return answers, true
	}
	health, known := facts["health"].(string)
	return health == "GOOD", known
}

func references(spec *v1alpha1.System) system.References {
	refers := system.References{Access: &spec.ArangoDB.Access, Endpoints: spec.ArangoDB.Agents}
	if jwt := spec.ArangoDB.JWT; jwt != nil {
		refers.Secrets = []v1alpha1.SecretKey{*jwt}
	}
	return refers
}

// Schema declares what rules may look at.
var Schema = expression.Schema{
	System: []expression.Field{
		{Name: "mode", Type: expression.String, Doc: "Cluster, ActiveFailover or Single; Unknown while the agency cannot be read"},
		{Name: "agencyProblem", Type: expression.String, Doc: "why nothing can be built on the agency; empty: one leader answers, a majority follows it, and its answer was understood"},
		{Name: "agencyLeader", Type: expression.String, Doc: "the id of the agents' leader"},
		{Name: "agents", Type: expression.Int, Doc: "how many agents the agency has"},
		{Name: "agentsAnswering", Type: expression.Int, Doc: "how many of them answer"},
		{Name: "agencyQuorum", Type: expression.Int, Doc: "how many of them make a majority"},
		{Name: "maintenance", Type: expression.Bool, Doc: "the supervision does nothing: no failover, and no job makes progress"},
		{Name: "dbservers", Type: expression.Int, Doc: "how many dbservers are planned"},
		{Name: "cleanedOut", Type: expression.Strings, Doc: "ids of servers that count as cleaned out"},
		{Name: "failoverLeader", Type: expression.String, Doc: "the id of the server that leads an active failover deployment, as the agency says; empty: none"},
		{Name: "failoverProblem", Type: expression.String, Doc: "why it is not certain which server leads; empty: the server that the agency names takes writes, and no other does"},
	},
	Member: []expression.Field{
		{Name: "server", Type: expression.String, Doc: "its id in the deployment"},
		{Name: "health", Type: expression.String, Doc: "the supervision's verdict: GOOD, BAD or FAILED"},

		{Name: "agentAnswers", Type: expression.Bool, Doc: "agents: it answers"},
		{Name: "agencyLeader", Type: expression.Bool, Doc: "agents: it leads the agency"},
		{Name: "followersWithout", Type: expression.Int, Doc: "agents: how many others answer and follow the leader"},
		{Name: "agentsWithout", Type: expression.Int, Doc: "agents: how many others answer and follow the leader or lead"},
		{Name: "copiesWithout", Type: expression.Int, Doc: "agents: how many of these have every entry that the leader has"},

		{Name: "failoverLeader", Type: expression.Bool, Doc: "active failover: the agency says that it leads"},
		{Name: "takesWrites", Type: expression.String, Doc: "active failover: what it says of itself: takes writes, takes no writes, does not answer"},

		{Name: "shards", Type: expression.Strings, Doc: "dbservers: shards that the plan puts on it, as DATABASE/COLLECTION/SHARD"},
		{Name: "shardsHeld", Type: expression.Strings, Doc: "dbservers: shards that it holds in sync"},
		{Name: "leads", Type: expression.Strings, Doc: "dbservers: shards that it leads, by plan or in fact"},
		{Name: "onlyHere", Type: expression.Strings, Doc: "dbservers: shards that it leads or holds in sync and no other server could take over at once, each with the reason"},
		{Name: "neededForWrites", Type: expression.Strings, Doc: "dbservers: shards that could take no writes while it is away"},
		{Name: "cleaned", Type: expression.Bool, Doc: "dbservers: it counts as cleaned out and gets no shards"},
		{Name: "drained", Type: expression.Bool, Doc: "dbservers: it is cleaned out, and no shard is on it by plan or in fact"},
		{Name: "empty", Type: expression.Bool, Doc: "dbservers: it is drained, or FAILED while no shard is on it by plan or in fact: others have taken over all that it had"},
		{Name: "toBeCleaned", Type: expression.Bool, Doc: "dbservers: the supervision has it in Target/ToBeCleanedServers, because a job to clean it out or to resign is at work on it"},
		{Name: "room", Type: expression.Int, Doc: "dbservers: how many others may hold shards"},
		{Name: "roomNeeded", Type: expression.Int, Doc: "dbservers: how many the highest replication factor needs"},
		{Name: "cleanOut", Type: expression.String, Doc: "dbservers: where its clean-out job stands: ToDo, Pending, Finished, Failed; empty: there is none, or it is forgotten"},
		{Name: "cleanOutJob", Type: expression.String, Doc: "dbservers: the job's id"},
		{Name: "cleanOutReason", Type: expression.String, Doc: "dbservers: why it failed"},
		{Name: "cleanOutEnded", Type: expression.Time, Doc: "dbservers: when it ended"},
		{Name: "resign", Type: expression.String, Doc: "dbservers: where its job to resign leadership stands, as with cleanOut"},
		{Name: "resignJob", Type: expression.String, Doc: "dbservers: that job's id"},
		{Name: "resignReason", Type: expression.String, Doc: "dbservers: why it failed"},
		{Name: "resignEnded", Type: expression.Time, Doc: "dbservers: when it ended"},
	},
}
