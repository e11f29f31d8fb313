// Command lab builds, starts, lists and ends labs: real Kubernetes control planes with simulated nodes, on loopback.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := root().ExecuteContext(ctx)
	interrupted := ctx.Err() != nil
	stop()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "lab:", err)
	if interrupted {
		os.Exit(130)
	}
	os.Exit(1)
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "lab",
		Short:         "A real Kubernetes control plane with simulated nodes, on loopback",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.AddCommand(buildCommand(), upCommand(), downCommand(), listCommand())
	return cmd
}
