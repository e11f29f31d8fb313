package eviction

import (
	"time"

	"usher.sh/usher/internal/expression"
)

// Evidence is what a system said about itself and its members.
type Evidence struct {
	// Observed is when the observation began: nothing in it is older.
	Observed time.Time
	// Epoch is the number of the policy's status that the observer knew before it began. Evidence of an earlier epoch
	// may not know of a member that was let go since.
	Epoch int64
	// System are facts about the system as a whole.
	System expression.Facts
	// Members are facts about each member, by id.
	Members map[string]expression.Facts
	// Shared are the ids that several pods give, with the names of those pods: whose facts they are is not known.
	Shared map[string][]string
	// Summary is a line for people.
	Summary string
	// Error is why the system could not be asked; then nothing else is set but the time.
	Error string
	// TooLarge: Error says that the system's answers need more memory than they may have.
	TooLarge bool
}
