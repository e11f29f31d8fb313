package cli

import (
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/drain/runner"
	"usher.sh/usher/internal/text"
)

// connectionFlags lead to a cluster, and kubectl has the same. Secrets are not among
// them: they are never printed.
var connectionFlags = []string{
	"kubeconfig", "context", "cluster", "user", "server", "proxy-url",
	"tls-server-name", "insecure-skip-tls-verify", "certificate-authority", "client-certificate", "client-key",
	"as", "as-uid", "as-group", "as-user-extra",
}

// commandsOf returns how the caller of a command must type those that advice names.
func commandsOf(cmd *cobra.Command) show.Commands {
	c := show.Commands{Program: cmd.Root().DisplayName()}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if slices.Contains(connectionFlags, f.Name) {
			c.Flags = append(c.Flags, flagWords(f)...)
		}
	})
	return c
}

// flagWords is how a flag was given, as a shell takes it.
func flagWords(f *pflag.Flag) []string {
	list, many := f.Value.(pflag.SliceValue)
	switch {
	case many:
		var words []string
		for _, value := range list.GetSlice() {
			words = append(words, "--"+f.Name+"="+text.ShellWord(value))
		}
		return words
	case f.Value.Type() == "bool" && f.Value.String() == "true":
		return []string{"--" + f.Name}
	}
	return []string{"--" + f.Name + "=" + text.ShellWord(f.Value.String())}
}

// advised passes a drain on to a reporter, with commands as the caller must type them.
type advised struct {
	runner.Reporter

	commands show.Commands
}

// Event passes on what happened.
func (a advised) Event(e drain.Event) {
	if e.Blocker != nil {
		b := *e.Blocker
		b.Remedy = a.commands.In(b.Remedy)
		e.Blocker = &b
	}
	if e.Kind == drain.EventNote {
		e.Message = a.commands.In(e.Message)
	}
	a.Reporter.Event(e)
}

// Frame passes on the state; the decision itself stays as it is, the drain goes by it.
func (a advised) Frame(now time.Time, d drain.Decision) {
	d.Pods, d.Nodes = slices.Clone(d.Pods), slices.Clone(d.Nodes)
	for i := range d.Pods {
		d.Pods[i].Blockers = a.commands.Blockers(d.Pods[i].Blockers)
	}
	for i := range d.Nodes {
		d.Nodes[i].Blockers = a.commands.Blockers(d.Nodes[i].Blockers)
	}
	a.Reporter.Frame(now, d)
}
