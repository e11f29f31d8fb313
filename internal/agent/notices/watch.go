package notices

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"usher.sh/usher/internal/notice"
	"usher.sh/usher/internal/text"
)

// Sources are what a node can be asked by.
func Sources() []notice.Source {
	return []notice.Source{notice.EC2, notice.GCE, notice.Azure, notice.Logind}
}

// Options say which sources a node has.
type Options struct {
	Node    string
	Sources []notice.Source
	// Now is the time as the cluster has it; nil: as this machine has it.
	Now func() time.Time
	// Bus is the address of the system's D-Bus, for logind.
	Bus string
	// Transport carries requests to metadata services; nil: the machine's own network.
	Transport http.RoundTripper
	Log       *slog.Logger
}

// Watcher asks the sources of one node.
type Watcher struct {
	board *Board
	runs  []func(ctx context.Context)
}

// New returns a watcher of the sources, or an error that says what is wrong with them.
func New(o Options) (*Watcher, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	w := &Watcher{board: newBoard(o.Log)}
	for _, name := range o.Sources {
		base := source{node: o.Node, board: w.board, cluster: o.Now}
		var questions []question
		switch name {
		case notice.EC2:
			base.client = newMetadataClient(linkLocal, o.Transport)
			questions = newEC2(base).questions()
		case notice.GCE:
			base.client = newMetadataClient(linkLocal, o.Transport)
			questions = (&gce{base}).questions()
		case notice.Azure:
			base.client = newMetadataClient(linkLocal, o.Transport)
			questions = (&azure{source: base}).questions()
		case notice.Logind:
			l := &logind{node: o.Node, address: o.Bus, board: w.board, cluster: o.Now, patience: busPatience}
			w.add(logindName, notice.Logind, l.run)
		default:
			return nil, fmt.Errorf("%q is no source of notices on nodes: it can be %s", name, text.Join(Sources(), ", "))
		}
		for i := range questions {
			w.add(questions[i].name, name, func(ctx context.Context) { base.repeat(ctx, &questions[i]) })
		}
	}
	return w, nil
}

func (w *Watcher) add(name string, from notice.Source, run func(ctx context.Context)) {
	w.board.add(name, from)
	w.runs = append(w.runs, run)
}

// Board is where what the sources say stands.
func (w *Watcher) Board() *Board { return w.board }

// Run asks all sources until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, run := range w.runs {
		running.Go(func() { run(ctx) })
	}
	running.Wait()
}
