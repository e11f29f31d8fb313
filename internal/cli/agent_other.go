//go:build !linux

package cli

import (
	"errors"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

func newAgentCommand(*genericclioptions.ConfigFlags, genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{
		Use:   "agent",
		Short: "Look after the node that it runs on when that runs short (on Linux only)",
		Args:  noNames,
		RunE: func(*cobra.Command, []string) error {
			return errors.New("usher agent reads Linux's own files and runs on Linux only; usher install --agent puts it on the nodes")
		},
	}
}
