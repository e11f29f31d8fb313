package recipes_test

import (
	"testing"

	"usher.sh/usher/internal/eviction"
)

func TestMongoDB(t *testing.T) {
	primary, secondary := question{role: "mongodb", pod: "mongodb-0"}, question{role: "mongodb", pod: "mongodb-2"}
	lostPrimary, lost := primary, secondary
	lostPrimary.replace, lost.replace = true, true
	checkVerdicts(t, "mongodb", map[string]verdict{
		"a secondary leaves":                 {files: []string{"healthy"}, question: secondary, answer: eviction.Allowed},
		"the primary leaves":                 {files: []string{"healthy"}, question: primary, answer: eviction.Allowed},
		"all others are behind":              {files: []string{"healthy", "behind"}, question: primary, answer: eviction.Blocked, reasons: []string{"OthersBehind"}, says: "at most 10 s behind"},
		"another is down":                    {files: []string{"healthy", "down"}, question: primary, answer: eviction.Blocked, reasons: []string{"NoMajority"}, says: "(not reachable/healthy)"},
		"an arbiter has no data":             {files: []string{"healthy", "arbiter"}, question: secondary, answer: eviction.Blocked, reasons: []string{"NoMajority"}, says: "ARBITER"},
		"which vote is not known":            {files: []string{"healthy", "no-config"}, question: secondary, answer: eviction.Blocked, reasons: []string{"NoMajority"}},
		"… when one is replaced":             {files: []string{"healthy", "down", "no-config"}, question: lost, answer: eviction.Blocked, reasons: []string{"OthersBehind"}, says: "of the 0 voters"},
		"its host is another":                {files: []string{"healthy"}, question: question{role: "mongodb", pod: "mongo-2"}, answer: eviction.Blocked, reasons: []string{"MemberUnknown"}, says: "mongodb-0"},
		"the set has no primary":             {files: []string{"healthy", "no-primary"}, question: secondary, answer: eviction.Blocked, reasons: []string{"NoPrimary", "NoMajority", "OthersBehind"}},
		"two call themselves primary":        {files: []string{"healthy", "two-primaries"}, question: secondary, answer: eviction.Blocked, reasons: []string{"NoPrimary"}},
		"it is not scraped any more":         {files: []string{"healthy", "old"}, question: secondary, answer: eviction.Blocked, reasons: []string{"EvidenceOld"}, says: "93.781"},
		"Prometheus is silent":               {files: []string{"healthy", "silent"}, question: secondary, answer: eviction.Blocked, reasons: []string{eviction.NoEvidence}, says: "connection refused"},
		"a lost secondary is replaced":       {files: []string{"healthy", "down"}, question: lost, answer: eviction.Allowed},
		"it is not missed yet":               {files: []string{"healthy"}, question: lost, answer: eviction.Blocked, reasons: []string{"NotMissedYet"}},
		"it may have the last copy":          {files: []string{"healthy", "no-primary"}, question: lostPrimary, answer: eviction.Blocked, reasons: []string{"NoPrimary", "LastCopy", "OthersBehind"}},
		"it is the primary, as far as known": {files: []string{"healthy"}, question: lostPrimary, answer: eviction.Blocked, reasons: []string{"LastCopy", "NotMissedYet"}},
		"another one lacks writes":           {files: []string{"healthy", "down", "behind"}, question: lost, answer: eviction.Blocked, reasons: []string{"OthersBehind"}},
		"another one is being filled":        {files: []string{"healthy", "syncing"}, question: lost, answer: eviction.Blocked, reasons: []string{"OthersBehind"}},
		"two are lost":                       {files: []string{"healthy", "two-down"}, question: lost, answer: eviction.Blocked, reasons: []string{"OthersBehind"}},
		"whether it is down, none tells":     {files: []string{"healthy", "silent"}, question: lost, answer: eviction.Blocked, reasons: []string{eviction.NoEvidence}},
	})
}
