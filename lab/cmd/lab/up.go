package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"usher.sh/usher/lab/binaries"
	"usher.sh/usher/lab/cluster"
	"usher.sh/usher/lab/nodes"
	"usher.sh/usher/lab/realnode"
	"usher.sh/usher/lab/realnode/join"
)

type upOptions struct {
	name        string
	cache       string
	nodes       int
	realNodes   int
	zones       int
	evictionAPI bool
	seed        uint64
	profile     string
}

func upCommand() *cobra.Command {
	var o upOptions
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a lab; it runs until `lab down`",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			begin := time.Now()
			c, err := o.run(cmd.Context())
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "lab %q with %d simulated and %d real nodes is up after %.1fs. Use it with:\n  export KUBECONFIG=%s\n", o.name, o.nodes, o.realNodes, time.Since(begin).Seconds(), c.Kubeconfig())
			return nil
		},
	}
	nameFlag(cmd, &o.name)
	cacheFlag(cmd, &o.cache)
	cmd.Flags().IntVar(&o.nodes, "nodes", 6, "number of simulated nodes")
	cmd.Flags().IntVar(&o.realNodes, "real-nodes", 0, "number of nodes that really run pods (Linux, root; build with lab build --real)")
	cmd.Flags().IntVar(&o.zones, "zones", 3, "number of zones the nodes are dealt out over, at most 26")
	cmd.Flags().BoolVar(&o.evictionAPI, "eviction-request-api", binaries.Chosen().EvictionRequestAPI, "turn the feature gate EvictionRequestAPI on")
	cmd.Flags().Uint64Var(&o.seed, "seed", 1, "seed of the times that simulated pods take")
	cmd.Flags().StringVar(&o.profile, "profile", string(nodes.General), "how long simulated pods take: general (seconds) or fast (tens of milliseconds)")
	return cmd
}

func (o upOptions) validate() error {
	if o.nodes < 0 {
		return fmt.Errorf("--nodes is %d, want 0 or more", o.nodes)
	}
	if o.realNodes < 0 {
		return fmt.Errorf("--real-nodes is %d, want 0 or more", o.realNodes)
	}
	if o.zones < 0 || o.zones > 26 {
		return fmt.Errorf("--zones is %d, want 0 to 26", o.zones)
	}
	_, err := nodes.Stages(nodes.Profile(o.profile), o.seed)
	return err
}

func (o upOptions) run(ctx context.Context) (*cluster.Cluster, error) {
	cache, err := openCache(o.cache)
	if err != nil {
		return nil, err
	}
	if err := o.checkReal(cache); err != nil {
		return nil, err
	}
	dir, err := cluster.StateDir(o.name)
	if err != nil {
		return nil, err
	}
	unlock, err := cluster.Lock(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := clearStale(dir); err != nil {
		return nil, err
	}
	c, err := cluster.Start(ctx, cluster.Config{Name: o.name, Dir: dir, Cache: cache, EvictionRequestAPI: o.evictionAPI})
	if err != nil {
		return nil, err
	}
	if err := o.addNodes(ctx, c); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// clearStale refuses a name whose lab runs, and removes what is left of one whose processes are all gone.
func clearStale(dir string) error {
	status, err := cluster.Inspect(dir)
	if err != nil {
		return err
	}
	if status.Running > 0 {
		return fmt.Errorf("lab %q is already up (KUBECONFIG=%s); end it with `lab down --name %s` or give this one another --name",
			status.Name, status.Kubeconfig, status.Name)
	}
	return cluster.Down(dir, 0)
}

func (o upOptions) addNodes(ctx context.Context, c *cluster.Cluster) error {
	simulator, err := nodes.Start(c, nodes.Profile(o.profile), o.seed)
	if err != nil {
		return err
	}
	client, err := c.Client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if err := simulator.Create(ctx, client, nodes.Objects("node", o.nodes, nodes.Zones(o.zones)...)); err != nil {
		return err
	}
	return o.addReal(ctx, c, client)
}

// checkReal says what is missing for real nodes before anything is started.
func (o upOptions) checkReal(cache binaries.Cache) error {
	if o.realNodes == 0 {
		return nil
	}
	return realnode.Preflight(cache)
}

// addReal keeps the real nodes for pods that ask for them, where there are simulated ones for all others: those play
// any image, while a real node has only the lab's own.
func (o upOptions) addReal(ctx context.Context, c *cluster.Cluster, client kubernetes.Interface) error {
	if o.realNodes == 0 {
		return nil
	}
	_, err := join.Nodes(ctx, c, client, join.Options{
		Prefix: "real", Count: o.realNodes, Zones: nodes.Zones(o.zones), Tainted: o.nodes > 0,
	})
	return err
}
