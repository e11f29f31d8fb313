package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"usher.sh/usher/lab/cluster"
)

func nameFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "name", "lab", "name of the lab")
}

func downCommand() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "down",
		Short: "End a lab: exactly the processes that `lab up` started, and its state folder",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := cluster.StateDir(name)
			if err != nil {
				return err
			}
			unlock, err := cluster.Lock(dir)
			if err != nil {
				return err
			}
			defer unlock()
			status, err := cluster.Inspect(dir)
			if err != nil {
				return err
			}
			if err := cluster.Down(dir, cluster.StopGrace); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "lab %q is down (%d processes ended)\n", name, status.Running)
			return nil
		},
	}
	nameFlag(cmd, &name)
	return cmd
}
