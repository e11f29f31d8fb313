package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/maintenance"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/text"
)

// maintained says which NodeMaintenances have nodes, by node. Only nodes on which a maintenance wrote a record are asked about, and nothing is read
// where there are none. The record alone keeps no node: its maintenance may be gone, with its manager.
func maintained(ctx context.Context, flags *genericclioptions.ConfigFlags, nodes []*snapshot.Node) (map[string]string, error) {
	nodes = slices.DeleteFunc(nodes, func(n *snapshot.Node) bool { return !maintenance.Has(n) })
	if len(nodes) == 0 {
		return nil, nil
	}
	all, err := maintenances(ctx, flags)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, observe.Explained("reading which NodeMaintenance has node "+nodes[0].Name, err)
	}
	found := map[string]string{}
	for _, n := range nodes {
		if names := maintainersOf(all, n.Name, n.UID); len(names) > 0 {
			found[n.Name] = text.List(names, 5)
		}
	}
	return found, nil
}

// maintenances lists them.
func maintenances(ctx context.Context, flags *genericclioptions.ConfigFlags) ([]*v1alpha1.NodeMaintenance, error) {
	config, err := restConfig(flags)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	return observe.Maintenances{Client: objects}.List(ctx)
}

// maintainersOf names the maintenances that have a node in work.
func maintainersOf(all []*v1alpha1.NodeMaintenance, node string, uid types.UID) []string {
	var names []string
	for _, m := range all {
		if slices.ContainsFunc(m.Status.Nodes, func(e v1alpha1.MaintainedNode) bool { return e.Name == node && e.UID == uid }) {
			names = append(names, m.Name)
		}
	}
	return names
}

// maintainedWords say that maintenances have a node, and what gives it back.
func maintainedWords(node, names string) string {
	return fmt.Sprintf("NodeMaintenance %s has node %s; usher maintain --delete %s gives it back", names, node, strings.ReplaceAll(names, ",", ""))
}
