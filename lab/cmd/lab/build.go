package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"usher.sh/usher/lab/binaries"
)

func buildCommand() *cobra.Command {
	var cacheDir string
	var real bool
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build the lab's programs into the cache, where they are not there yet",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cache, err := openCache(cacheDir)
			if err != nil {
				return err
			}
			list := binaries.ControlPlane()
			if real {
				list = append(list, binaries.Real()...)
			}
			out := newProgress(cmd.OutOrStdout())
			defer out.close()
			if err := cache.Build(cmd.Context(), list, out); err != nil {
				return err
			}
			out.close()
			fmt.Fprintln(cmd.OutOrStdout(), "all programs are in", cache.Dir)
			return nil
		},
	}
	cacheFlag(cmd, &cacheDir)
	cmd.Flags().BoolVar(&real, "real", false, "also build what real nodes need")
	return cmd
}

func cacheFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "cache", "", "folder of built programs (default $"+binaries.CacheEnv+", else usher-lab in the user's cache folder)")
}

func openCache(dir string) (binaries.Cache, error) {
	if dir == "" {
		return binaries.DefaultCache()
	}
	return binaries.Cache{Dir: dir}, nil
}
