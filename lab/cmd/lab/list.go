package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"usher.sh/usher/lab/cluster"
)

func listCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"status"},
		Short:   "Show the labs of this user, and whether they run",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			labs, err := cluster.Labs()
			if err != nil {
				return err
			}
			if len(labs) == 0 {
				fmt.Fprintln(cmd.OutOrStdout(), "no lab is up; start one with `lab up`")
				return nil
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tPROCESSES\tSINCE\tKUBECONFIG")
			for _, l := range labs {
				fmt.Fprintf(w, "%s\t%d/%d running\t%s\t%s\n", l.Name, l.Running, l.Processes, l.Since.Format("15:04:05"), l.Kubeconfig)
			}
			return w.Flush()
		},
	}
}
