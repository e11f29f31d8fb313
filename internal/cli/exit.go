package cli

import (
	"errors"
	"fmt"
	"io"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/text"
)

// The exit codes, as docs/usage.md promises them.
const (
	exitDone        = 0
	exitUsage       = 1 // wrong usage, or no access to what is needed
	exitBlocked     = 2
	exitLate        = 3 // deadline or timeout
	exitInterrupted = 130
)

// exit ends a command whose output was already printed with a code.
type exit struct{ code int }

func (e exit) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// exitWith returns the error that makes the command end with a code.
func exitWith(code int) error {
	if code == exitDone {
		return nil
	}
	return exit{code}
}

// outcomeCode is the exit code of a drain that ended so.
func outcomeCode(o drain.Outcome) int {
	switch o {
	case drain.Drained:
		return exitDone
	case drain.DeadlinePassed, drain.TimedOut:
		return exitLate
	case drain.Interrupted:
		return exitInterrupted
	case drain.NoAccess:
		return exitUsage
	case drain.Blocked, drain.Running, drain.Left:
	}
	return exitBlocked
}

// settle prints what went wrong and returns the exit code of the process.
func settle(err error, errOut io.Writer) int {
	var done exit
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &done):
		return done.code
	}
	fmt.Fprintf(errOut, "error: %s\n", text.Lines(err.Error()))
	return exitUsage
}
