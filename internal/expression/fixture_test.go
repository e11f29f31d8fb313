package expression

import "time"

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// toySchema is that of a database whose members hold shards.
var toySchema = Schema{
	System: []Field{
		{Name: "leader", Type: String}, {Name: "healthy", Type: Bool}, {Name: "quorum", Type: Int},
	},
	Member: []Field{
		{Name: "drained", Type: Bool},
		{Name: "shards", Type: Strings},
		{Name: "lag", Type: Int},
		{Name: "load", Type: Double},
		{Name: "seen", Type: Time},
		{Name: "extra", Type: Dynamic},
	},
}

// numbers is an answer with a list that is longer than what estimates assume.
func numbers() []any {
	list := make([]any, 5_000)
	for i := range list {
		list[i] = float64(i)
	}
	return list
}
