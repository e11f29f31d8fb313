package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/term"
)

// step is one command, and how it must end.
type step struct {
	say     string
	command string
	exit    int
}

const drained = "node-a1"

func steps(payments string) []step {
	flags := drained + " --ignore-daemonsets --force"
	return []step{
		{"Without flags nothing is changed, and every objection is listed:", "usher drain " + drained, 2},
		{"May the pod of payments be evicted?", "usher why " + payments + " -n shop", 2},
		{"What would a drain do?", "usher plan " + flags, 0},
		{"Drain it, and wait until everything runs elsewhere:", "usher drain " + flags + " --wait=replaced", 0},
		{"Where the shop runs now:", "kubectl get pods -n shop --sort-by=.spec.nodeName -o custom-columns=NODE:.spec.nodeName,POD:.metadata.name,PHASE:.status.phase", 0},
		{"The maintenance is over:", "usher uncordon " + drained, 0},
	}
}

// bold makes a text bold where that can be seen.
func bold(text string) string {
	if !term.IsTerminal(int(os.Stdout.Fd())) || os.Getenv("NO_COLOR") != "" {
		return text
	}
	return "\x1b[1m" + text + "\x1b[0m"
}

// run shows the command as one would type it, and runs it on the demo's terminal.
func (s stage) run(ctx context.Context, st step) error {
	fmt.Printf("\n%s\n%s\n", st.say, bold("$ "+st.command))
	words := strings.Fields(st.command)
	cmd := exec.CommandContext(ctx, s.programs[words[0]], words[1:]...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.lab.Kubeconfig())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// A Ctrl-C reaches the command from the terminal. A second one, from here, would make it leave at once.
	cmd.Cancel = func() error { return nil }
	cmd.WaitDelay = 30 * time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("running %s: %w", words[0], err)
	}
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	if got := cmd.ProcessState.ExitCode(); got != st.exit {
		return fmt.Errorf("%q ended with exit code %d, want %d", st.command, got, st.exit)
	}
	return nil
}
