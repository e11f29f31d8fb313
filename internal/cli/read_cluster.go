package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
)

// clusterRead is one look at a cluster, live or from a dump.
type clusterRead struct {
	view    snapshot.View
	assumed []string // what a dump does not say, in sentences
	host    host     // empty where the cluster is a dump: the hosts of its drains are not known
}

// readCluster reads the cluster once: from a dump where one is named, else live. It says what
// killed drains left in a live one, and changes nothing.
func readCluster(ctx context.Context, flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams, commands show.Commands, dump string) (clusterRead, error) {
	if dump != "" {
		view, assumed, err := lookAtDump(streams.In, dump)
		return clusterRead{view: view, assumed: assumed, host: host{name: "dump", start: func(int) string { return "" }}}, err
	}
	seen, err := readAll(ctx, flags, streams.ErrOut)
	if err != nil {
		return seen, err
	}
	for _, line := range show.LeftoverLines(drain.Remains(seen.view, seen.host.dead(seen.view.Cluster))) {
		fmt.Fprintln(streams.ErrOut, commands.In(line))
	}
	return seen, nil
}

// readAll reads a live cluster, and says how far it is where that takes long.
func readAll(ctx context.Context, flags *genericclioptions.ConfigFlags, progress io.Writer) (clusterRead, error) {
	conn, err := connect(flags, progress)
	if err != nil {
		return clusterRead{}, err
	}
	look := observe.NewLook(conn.client, conn.clock)
	if err := look.All(ctx, conn.evictions, progressOf(progress)); err != nil {
		return clusterRead{}, problem(ctx, err)
	}
	return clusterRead{view: look.View(), host: thisHost()}, nil
}

// When reading the whole cluster is first reported, and how often then.
const (
	readingFirst = 2 * time.Second
	readingEvery = 5 * time.Second
)

// progressOf reports how many pods have been read, where that takes long.
func progressOf(out io.Writer) func(pods int) {
	next := time.Now().Add(readingFirst)
	return func(pods int) {
		if now := time.Now(); now.After(next) {
			next = now.Add(readingEvery)
			fmt.Fprintf(out, "reading the cluster: %s so far\n", show.Count(pods, "pod"))
		}
	}
}

func lookAtDump(in io.Reader, name string) (snapshot.View, []string, error) {
	if name != "-" {
		file, err := os.Open(name) //nolint:gosec // the file that the caller named
		if err != nil {
			return snapshot.View{}, nil, fmt.Errorf("reading the dump: %w", err)
		}
		defer file.Close()
		in = file
	} else {
		name = "standard input"
	}
	dump, err := observe.FromDump(in)
	if err != nil {
		return snapshot.View{}, nil, fmt.Errorf("%s: %w", name, err)
	}
	view := dump.View()
	if _, none := view.Cluster.Gap("pods"); none {
		return snapshot.View{}, nil, fmt.Errorf("%s: the dump has no pods: write it with %s", name, observe.DumpCommand)
	}
	return view, dump.Assumed, nil
}
