package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
)

const rootLong = `Usher moves pods off nodes without losing data, and says what keeps those that
cannot go.

Exit codes of all commands:
  0    done: drained, would be drained, may go
  1    wrong usage, or no access to what is needed
  2    blocked; what blocks is the last thing printed
  3    the deadline or the timeout passed
  130  interrupted`

// Main runs a process's command line, with the program's name first, and returns its exit code. It is called once, before
// anything else runs: it sets the logger that all of the process's client libraries share.
func Main(args []string, streams genericiooptions.IOStreams) int {
	// Client libraries log to stderr on their own: in the middle of a live table, and
	// in other words than Usher's. What matters of it arrives as errors and blockers.
	klog.SetLogger(logr.Discard())
	return run(args, streams)
}

func run(args []string, streams genericiooptions.IOStreams) int {
	root := newCommand(programName(args), streams)
	root.SetArgs(args[1:])
	return settle(root.Execute(), streams.ErrOut)
}

// programName is how the program was called: kubectl finds plugins by a file name.
func programName(args []string) string {
	base := strings.TrimSuffix(filepath.Base(args[0]), ".exe")
	if base == "kubectl-usher" {
		return "kubectl usher"
	}
	return "usher"
}

// newCommand returns the command tree. The name is shown in usage texts.
func newCommand(name string, streams genericiooptions.IOStreams) *cobra.Command {
	root := &cobra.Command{
		Use:           "usher",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: name},
		Short:         "Move pods off nodes without losing data",
		Long:          rootLong,
		Version:       Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w (%s --help lists the flags)", err, cmd.CommandPath())
	})
	root.Flags().Bool("version", false, "Say which version this is.") // cobra's own would take -v, which is kubectl's for something else
	root.SetVersionTemplate("usher {{.Version}}\n")
	config := genericclioptions.NewConfigFlags(true)
	config.CacheDir = nil // there is no discovery to cache
	config.AddFlags(root.PersistentFlags())
	root.AddCommand(
		newDrainCommand(name, config, streams),
		newPlanCommand(name, config, streams),
		newWhyCommand(name, config, streams),
		newMaintainCommand(config, streams),
		newReplaceCommand(config, streams),
		newEvictCommand(config, streams),
		newEvictionsCommand(config, streams),
		newNoticesCommand(config, streams),
		newFenceCommand(config, streams),
		newPressureCommand(config, streams),
		newRolesCommand(streams),
		newRecipesCommand(streams),
		newUncordonCommand(config, streams),
		newInstallCommand(config, streams),
		newUninstallCommand(config, streams),
		newManagerCommand(config, streams),
		newAgentCommand(config, streams),
		newVersionCommand(config, streams),
	)
	return root
}

// noNames is cobra.NoArgs in words that name a remedy.
func noNames(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("%s takes no names, and was given %q (%[1]s --help lists the flags)", cmd.CommandPath(), args[0])
}
