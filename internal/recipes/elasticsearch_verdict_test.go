package recipes_test

import (
	"testing"

	"usher.sh/usher/internal/eviction"
)

func TestElasticsearch(t *testing.T) {
	data, master := question{role: "elasticsearch-data", pod: "es-2"}, question{role: "elasticsearch-master", pod: "es-2"}
	lostData, lostMaster := data, master
	lostData.replace, lostMaster.replace = true, true
	checkVerdicts(t, "elasticsearch", map[string]verdict{
		"an empty node leaves":             {files: []string{"healthy"}, question: data, answer: eviction.Allowed},
		"one of OpenSearch":                {files: []string{"healthy", "opensearch"}, question: data, answer: eviction.Allowed},
		"one that has shards stays":        {files: []string{"healthy", "shards"}, question: data, answer: eviction.Blocked, reasons: []string{"HoldsShards"}, says: "31 shards are still on es-2"},
		"shards may come to it":            {files: []string{"healthy", "included"}, question: data, answer: eviction.Blocked, reasons: []string{"NotExcluded"}, needs: "ExcludeShards"},
		"a primary is missing":             {files: []string{"healthy", "red"}, question: data, answer: eviction.Blocked, reasons: []string{"ClusterRed"}, says: "4 shards are nowhere"},
		"the majority would go":            {files: []string{"healthy", "two-lost"}, question: master, answer: eviction.Blocked, reasons: []string{"MemberUnknown", "VotersMissing"}, says: "no majority is left of the 3 nodes"},
		"a master leaves":                  {files: []string{"healthy"}, question: master, answer: eviction.Allowed},
		"its name is another":              {files: []string{"healthy"}, question: question{role: "elasticsearch-master", pod: "master-2"}, answer: eviction.Blocked, reasons: []string{"MemberUnknown"}, says: "no node master-2", unasked: true},
		"the cluster is silent":            {files: []string{"healthy", "silent"}, question: data, answer: eviction.Blocked, reasons: []string{eviction.NoEvidence}, says: "connection refused"},
		"a lost node is replaced":          {files: []string{"healthy", "lost"}, question: lostData, answer: eviction.Allowed},
		"a lost master is replaced":        {files: []string{"healthy", "lost"}, question: lostMaster, answer: eviction.Allowed},
		"it is not missed yet":             {files: []string{"healthy"}, question: lostData, answer: eviction.Blocked, reasons: []string{"NotMissedYet"}},
		"it may have the last copy":        {files: []string{"healthy", "lost", "red"}, question: lostData, answer: eviction.Blocked, reasons: []string{"LastCopy"}, says: "es-2 may have the last copy"},
		"whether there is one, none tells": {files: []string{"healthy", "lost", "silent"}, question: lostData, answer: eviction.Blocked, reasons: []string{eviction.NoEvidence}},
		"two are lost":                     {files: []string{"healthy", "lost", "two-lost"}, question: lostMaster, answer: eviction.Blocked, reasons: []string{"VotersMissing"}},
	})
}
