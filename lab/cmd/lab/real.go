package main

import (
	"context"

	"k8s.io/client-go/kubernetes"

	"usher.sh/usher/lab/binaries"
	"usher.sh/usher/lab/cluster"
	"usher.sh/usher/lab/nodes"
	"usher.sh/usher/lab/realnode"
	"usher.sh/usher/lab/realnode/join"
)

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
