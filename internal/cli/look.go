package cli

import (
	"context"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/snapshot"
)

// sight is one look at a cluster.
type sight struct {
	view snapshot.View
	host host
}

// look reads the cluster once, after undoing what killed drains left.
func look(ctx context.Context, flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) (sight, error) {
	s, err := open(ctx, flags, nil)
	if err != nil {
		return sight{}, err
	}
	defer s.close()
	if _, err := s.revert(ctx, show.NewPlain(streams.ErrOut)); err != nil {
		return sight{}, err
	}
	seen := sight{host: s.host}
	s.source.Read(func(v snapshot.View) { seen.view = snapshot.View{Now: v.Now, Cluster: v.Cluster.Clone()} })
	return seen, nil
}
