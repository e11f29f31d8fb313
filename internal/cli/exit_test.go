package cli

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
)

func TestExitCodes(t *testing.T) {
	for outcome, want := range map[drain.Outcome]int{
		drain.Drained: 0, drain.NoAccess: 1, drain.Blocked: 2, drain.Running: 2,
		drain.DeadlinePassed: 3, drain.TimedOut: 3, drain.Interrupted: 130,
	} {
		if got := outcomeCode(outcome); got != want {
			t.Errorf("outcome %q exits with %d, want %d", outcome, got, want)
		}
	}
}

func TestSettle(t *testing.T) {
	tests := []struct {
		err   error
		code  int
		words string
	}{
		{nil, 0, ""},
		{exitWith(0), 0, ""},
		{exitWith(3), 3, ""},
		{fmt.Errorf("wrapped: %w", exitWith(130)), 130, ""},
		{errors.New("no node was named"), 1, "error: no node was named\n"},
	}
	for _, tt := range tests {
		var words bytes.Buffer
		if code := settle(tt.err, &words); code != tt.code || words.String() != tt.words {
			t.Errorf("settle(%v) = %d, %q; want %d, %q", tt.err, code, words.String(), tt.code, tt.words)
		}
	}
}

func TestServerDryRunExitsWithTheWorst(t *testing.T) {
	tests := []struct {
		answers []answers.Code
		want    int
	}{
		{nil, 0},
		{[]answers.Code{answers.Accepted, answers.Gone}, 0},
		{[]answers.Code{answers.Accepted, answers.RefusedByBudget, answers.Accepted}, 2},
		{[]answers.Code{answers.Denied}, 2},
		{[]answers.Code{answers.Forbidden, answers.RefusedByBudget}, 1},
		{[]answers.Code{answers.RefusedByBudget, answers.Forbidden}, 1},
	}
	for _, tt := range tests {
		code := exitDone
		for _, a := range tt.answers {
			code = worse(code, a)
		}
		if code != tt.want {
			t.Errorf("%v exits with %d, want %d", tt.answers, code, tt.want)
		}
	}
}

func TestANameTooMany(t *testing.T) {
	streams, _, _, errOut := genericiooptions.NewTestIOStreams()
	for _, command := range []string{"install", "uninstall", "manager", "agent", "version"} {
		errOut.Reset()
		want := "error: usher " + command + " takes no names, and was given \"now\" (usher " + command + " --help lists the flags)\n"
		if code := run([]string{"usher", command, "now"}, streams); code != 1 || errOut.String() != want {
			t.Errorf("got exit code %d and %q, want 1 and %q", code, errOut.String(), want)
		}
	}
}
