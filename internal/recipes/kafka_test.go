package recipes_test

import (
	"testing"

	"usher.sh/usher/internal/eviction"
)

func TestKafka(t *testing.T) {
	broker := question{role: "kafka-broker", pod: "kafka-2"}
	lost, unready, twoLost := broker, broker, broker
	lost.replace, twoLost.replace = true, true
	unready.unready, twoLost.unready = []string{"kafka-1"}, []string{"kafka-1"}
	checkVerdicts(t, "kafka", map[string]verdict{
		"a broker leaves":                   {files: []string{"healthy"}, question: broker, answer: eviction.Allowed},
		"partitions are not in sync":        {files: []string{"healthy", "unsynced"}, question: broker, answer: eviction.Blocked, reasons: []string{"UnderReplicated"}, says: "orders-3"},
		"partitions have too few replicas":  {files: []string{"healthy", "thin"}, question: broker, answer: eviction.Blocked, reasons: []string{"TooFewReplicas"}, says: "scratch-0"},
		"another one is not Ready":          {files: []string{"healthy"}, question: unready, answer: eviction.Blocked, reasons: []string{"OthersNotReady"}, says: "1"},
		"its id is another":                 {files: []string{"healthy"}, question: question{role: "kafka-broker", pod: "kafka-7"}, answer: eviction.Blocked, reasons: []string{"MemberUnknown"}, says: "no broker 7"},
		"it is not scraped any more":        {files: []string{"healthy", "old"}, question: broker, answer: eviction.Blocked, reasons: []string{"EvidenceOld"}, says: "214.781"},
		"nothing is known of Kafka":         {files: []string{"healthy", "none"}, question: broker, answer: eviction.Blocked, reasons: []string{"EvidenceOld", "EvidencePartial", "MemberUnknown"}},
		"topics are not known":              {files: []string{"healthy", "partial"}, question: broker, answer: eviction.Blocked, reasons: []string{"EvidencePartial"}, says: "there are 62, and replicas are known, and the leader has answered, of 60"},
		"Prometheus is silent":              {files: []string{"healthy", "silent"}, question: broker, answer: eviction.Blocked, reasons: []string{eviction.NoEvidence}, says: "connection refused"},
		"a lost broker is replaced":         {files: []string{"healthy", "lost"}, question: lost, answer: eviction.Allowed},
		"it is not missed yet":              {files: []string{"healthy"}, question: lost, answer: eviction.Blocked, reasons: []string{"NotMissedYet"}},
		"it may have the last copy":         {files: []string{"healthy", "lost", "leaderless"}, question: lost, answer: eviction.Blocked, reasons: []string{"LastCopy"}, says: "scratch-0"},
		"two are lost":                      {files: []string{"healthy", "lost"}, question: twoLost, answer: eviction.Blocked, reasons: []string{"OthersNotReady"}},
		"whether it has that, none tells":   {files: []string{"healthy", "lost", "silent"}, question: lost, answer: eviction.Blocked, reasons: []string{eviction.NoEvidence}},
		"what is known of it lacks topics":  {files: []string{"healthy", "lost", "partial"}, question: lost, answer: eviction.Blocked, reasons: []string{"EvidencePartial"}},
		"what is known of it is of earlier": {files: []string{"healthy", "lost", "old"}, question: lost, answer: eviction.Blocked, reasons: []string{"EvidenceOld"}},
	})
}
