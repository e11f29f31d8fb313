package recipes_test

import (
	"testing"

	"usher.sh/usher/internal/eviction"
)

func TestRedis(t *testing.T) {
	master, replica := question{role: "redis", pod: "redis-0"}, question{role: "redis", pod: "redis-2"}
	lostMaster, lostReplica, unready := master, replica, replica
	lostMaster.replace, lostReplica.replace = true, true
	unready.unready = []string{"redis-1"}
	broken := replica
	broken.unready = []string{"redis-2"}
	lostAndUnready := lostReplica
	lostAndUnready.unready = []string{"redis-1"}
	checkVerdicts(t, "redis", map[string]verdict{
		"a replica leaves":                   {files: []string{"healthy"}, question: replica, answer: eviction.Allowed},
		"the master is failed over":          {files: []string{"healthy"}, question: master, answer: eviction.Blocked, reasons: []string{"IsMaster"}, needs: "FailOver", says: "2 replicas follow it"},
		"it is not, while all are behind":    {files: []string{"healthy", "lagging"}, question: master, answer: eviction.Blocked, reasons: []string{"IsMaster"}},
		"another has taken over":             {files: []string{"healthy", "failed-over"}, question: master, answer: eviction.Blocked, reasons: []string{"IsMaster"}},
		"the Sentinels are too few":          {files: []string{"healthy", "no-quorum"}, question: master, answer: eviction.Blocked, reasons: []string{"NoFailover", "IsMaster"}, says: "NOQUORUM 1 usable"},
		"another one is not Ready":           {files: []string{"healthy"}, question: unready, answer: eviction.Blocked, reasons: []string{"OthersNotReady"}, says: "redis-1"},
		"the master is down":                 {files: []string{"healthy", "master-down"}, question: replica, answer: eviction.Blocked, reasons: []string{"MasterDown"}},
		"it is being filled":                 {files: []string{"healthy", "syncing"}, question: replica, answer: eviction.Blocked, reasons: []string{"NotInSync"}},
		"the Sentinels are silent":           {files: []string{"healthy", "silent"}, question: replica, answer: eviction.Blocked, reasons: []string{eviction.NoEvidence}, says: "connection refused"},
		"it is silent itself":                {files: []string{"healthy", "member-silent"}, question: replica, answer: eviction.Blocked, reasons: []string{eviction.FactMissing, eviction.FactMissing}, says: "member.replication"},
		"and is not Ready":                   {files: []string{"healthy", "member-silent"}, question: broken, answer: eviction.Allowed},
		"a lost replica is replaced":         {files: []string{"healthy"}, question: lostReplica, answer: eviction.Allowed},
		"a master that was lost is replaced": {files: []string{"healthy", "failed-over"}, question: lostMaster, answer: eviction.Allowed},
		"it may have the last copy":          {files: []string{"healthy", "master-down"}, question: lostMaster, answer: eviction.Blocked, reasons: []string{"LastCopy", "MasterDown"}, says: "may be on it alone"},
		"it is not missed yet":               {files: []string{"healthy"}, question: lostMaster, answer: eviction.Blocked, reasons: []string{"LastCopy"}},
		"two are lost":                       {files: []string{"healthy"}, question: lostAndUnready, answer: eviction.Blocked, reasons: []string{"OthersNotReady"}},
		"what is left, none tells":           {files: []string{"healthy", "silent"}, question: lostReplica, answer: eviction.Blocked, reasons: []string{eviction.NoEvidence}},
	})
}
