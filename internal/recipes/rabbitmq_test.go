package recipes_test

import (
	"testing"

	"usher.sh/usher/internal/eviction"
)

func TestRabbitMQ(t *testing.T) {
	node, first := question{role: "rabbitmq", pod: "rabbitmq-server-2"}, question{role: "rabbitmq", pod: "rabbitmq-server-0"}
	lost, lostFirst := node, first
	lost.replace, lostFirst.replace = true, true
	checkVerdicts(t, "rabbitmq", map[string]verdict{
		"a node leaves":                   {files: []string{"healthy"}, question: node, answer: eviction.Allowed},
		"a queue of two keeps its node":   {files: []string{"healthy"}, question: first, answer: eviction.Blocked, reasons: []string{"QuorumCritical"}, says: "audit"},
		"a replica of a queue is away":    {files: []string{"healthy", "replica-down"}, question: node, answer: eviction.Blocked, reasons: []string{"QuorumCritical"}, says: "orders"},
		"a replica of a stream is away":   {files: []string{"healthy", "stream-down"}, question: node, answer: eviction.Blocked, reasons: []string{"QuorumCritical"}, says: "events"},
		"of a queue nothing is known":     {files: []string{"healthy", "queue-down"}, question: node, answer: eviction.Blocked, reasons: []string{eviction.FactMissing}},
		"queues are hidden from the user": {files: []string{"healthy", "hidden"}, question: node, answer: eviction.Blocked, reasons: []string{"QueuesHidden"}, says: "the user sees 0 queues, and there are 4"},
		"… when a node is replaced":       {files: []string{"forgotten", "hidden"}, question: lost, answer: eviction.Blocked, reasons: []string{"QueuesHidden"}},
		"its node has another name":       {files: []string{"healthy"}, question: question{role: "rabbitmq", pod: "mq-2"}, answer: eviction.Blocked, reasons: []string{"MemberUnknown"}, says: "rabbit@rabbitmq-server-0"},
		"it has not joined, nor is Ready": {files: []string{"healthy"}, question: question{role: "rabbitmq", pod: "mq-2", unready: []string{"mq-2"}}, answer: eviction.Allowed},
		"the cluster is partitioned":      {files: []string{"healthy", "partitioned"}, question: node, answer: eviction.Blocked, reasons: []string{"Partitioned"}, says: "rabbit@rabbitmq-server-0"},
		"another node is away":            {files: []string{"lost"}, question: first, answer: eviction.Blocked, reasons: []string{"NoMajority", "QuorumCritical"}},
		"RabbitMQ is silent":              {files: []string{"healthy", "silent"}, question: node, answer: eviction.Blocked, reasons: []string{eviction.NoEvidence}, says: "connection refused"},
		"what is forgotten is replaced":   {files: []string{"forgotten"}, question: lost, answer: eviction.Allowed},
		"a member of the cluster is not":  {files: []string{"lost"}, question: lost, answer: eviction.Blocked, reasons: []string{"NotForgotten"}, says: "inconsistent_cluster"},
		"it is not missed yet":            {files: []string{"healthy"}, question: lost, answer: eviction.Blocked, reasons: []string{"NotMissedYet", "NotForgotten"}},
		"it has the last copy":            {files: []string{"lost", "classic"}, question: lost, answer: eviction.Blocked, reasons: []string{"LastCopy", "NotForgotten"}, says: "cache"},
		"two are lost":                    {files: []string{"two-lost"}, question: lost, answer: eviction.Blocked, reasons: []string{"NoMajority", "QuorumCritical", "NotForgotten"}},
		"the first one is not replaced":   {files: []string{"forgotten"}, question: lostFirst, answer: eviction.Never, reasons: []string{"FormsItsOwnCluster", "NotMissedYet", "NoMajority", "QuorumCritical", "NotForgotten"}},
		"whether it is known, none tells": {files: []string{"lost", "silent"}, question: lost, answer: eviction.Blocked, reasons: []string{eviction.NoEvidence}},
	})
}
