package eviction

import "time"

// Facts are named facts of one thing, as a JSON object: values are bool, int64, float64, string, time.Time, Facts,
// map[string]any, []string, []any or nil. A fact that is not known is absent, and a rule that asks for it does not pass.
type Facts map[string]any

// Evidence is what a system said about itself and its members.
type Evidence struct {
	// Observed is when the observation began: nothing in it is older.
	Observed time.Time
	// Epoch is the number of the policy's status that the observer knew before it began. Evidence of an earlier epoch
	// may not know of a member that was let go since.
	Epoch int64
	// System are facts about the system as a whole.
	System Facts
	// Members are facts about each member, by id.
	Members map[string]Facts
	// Shared are the ids that several pods give, with the names of those pods: whose facts they are is not known.
	Shared map[string][]string
	// Summary is a line for people.
	Summary string
	// Error is why the system could not be asked; then nothing else is set but the time.
	Error string
	// TooLarge: Error says that the system's answers need more memory than they may have.
	TooLarge bool
}

// Type is the type of a fact.
type Type string

// The types.
const (
	Bool    Type = "bool"
	Int     Type = "int"
	Double  Type = "double"
	String  Type = "string"
	Time    Type = "timestamp"
	Strings Type = "list(string)"
	Dynamic Type = "dyn" // anything that JSON can say
)

// Field declares a fact, so that rules are checked before they are asked.
type Field struct {
	Name string
	Type Type
	Doc  string
}

// Schema declares what rules about a system may look at: system.NAME and member.NAME. member.id is always there.
type Schema struct {
	System []Field
	Member []Field
	// Open schemas let rules ask for facts that are not declared; such facts are dynamic.
	Open bool
}
