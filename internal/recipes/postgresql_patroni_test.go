package recipes_test

import (
	"testing"

	"usher.sh/usher/internal/eviction"
)

func TestPatroni(t *testing.T) {
	leader, replica := question{role: "postgresql", pod: "postgresql-0"}, question{role: "postgresql", pod: "postgresql-2"}
	lostLeader, lostReplica := leader, replica
	lostLeader.replace, lostReplica.replace = true, true
	checkVerdicts(t, "postgresql-patroni", map[string]verdict{
		"a replica leaves":                   {files: []string{"healthy"}, question: replica, answer: eviction.Allowed},
		"the leader hands over":              {files: []string{"healthy"}, question: leader, answer: eviction.Blocked, reasons: []string{"LeadsCluster"}, needs: "Switchover"},
		"no replica has caught up":           {files: []string{"behind"}, question: leader, answer: eviction.Blocked, reasons: []string{"NoStandby", "LeadsCluster"}, says: "postgresql-1 streaming"},
		"the other one may not lead":         {files: []string{"nofailover"}, question: leader, answer: eviction.Blocked, reasons: []string{"NoStandby", "LeadsCluster"}},
		"the only synchronous standby stays": {files: []string{"synchronous"}, question: replica, answer: eviction.Blocked, reasons: []string{"LastSynchronousStandby"}},
		"the only one of a quorum stays":     {files: []string{"quorum"}, question: replica, answer: eviction.Blocked, reasons: []string{"LastSynchronousStandby"}},
		"its name is another":                {files: []string{"healthy"}, question: question{role: "postgresql", pod: "db-0"}, answer: eviction.Blocked, reasons: []string{"MemberUnknown"}, says: "postgresql-0"},
		"Patroni is paused":                  {files: []string{"paused"}, question: leader, answer: eviction.Blocked, reasons: []string{"Paused", "LeadsCluster"}},
		"no member leads":                    {files: []string{"leader-lost"}, question: replica, answer: eviction.Blocked, reasons: []string{"NoLeader", "NoStandby"}},
		"Patroni is silent":                  {files: []string{"silent"}, question: replica, answer: eviction.Blocked, reasons: []string{eviction.NoEvidence}, says: "connection refused"},
		"a lost replica is replaced":         {files: []string{"lost"}, question: lostReplica, answer: eviction.Allowed},
		"a leader that was lost is replaced": {files: []string{"failed-over"}, question: lostLeader, answer: eviction.Allowed},
		"it is not missed yet":               {files: []string{"healthy"}, question: lostReplica, answer: eviction.Blocked, reasons: []string{"NotMissedYet"}},
		"it may have the last copy":          {files: []string{"leader-lost"}, question: lostLeader, answer: eviction.Blocked, reasons: []string{"LastCopy"}, says: "postgresql-0 may have what no other has"},
		"it leads still, as far as known":    {files: []string{"healthy"}, question: lostLeader, answer: eviction.Blocked, reasons: []string{"LastCopy", "NotMissedYet"}},
		"whether another leads, none tells":  {files: []string{"silent"}, question: lostLeader, answer: eviction.Blocked, reasons: []string{eviction.NoEvidence}},
	})
}
