package observe

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"usher.sh/usher/internal/snapshot"
)

// collector puts together what a dump holds.
type collector struct {
	dumped *Dump
	family siblings
	has    map[resource]bool
	needs  map[resource]bool
	merged bool // a list of several kinds was read
	used   int
}

func newCollector() *collector {
	c := &collector{
		dumped: &Dump{Cluster: snapshot.NewCluster(), Skipped: map[string]int{}},
		family: siblings{},
		has:    map[resource]bool{},
		needs:  map[resource]bool{},
	}
	for _, r := range always {
		c.needs[r] = true
	}
	return c
}

// batchSize is how many items are in memory at a time.
const batchSize = 2048

// collect decodes items on all processors and takes them in their order, until next fails:
// with io.EOF at the end.
func (c *collector) collect(next func() (item, error)) error {
	for {
		batch, end := readBatch(next)
		decoded, errs := make([][]found, len(batch)), make([]error, len(batch))
		var group errgroup.Group
		group.SetLimit(runtime.GOMAXPROCS(0))
		for i := range batch {
			group.Go(func() error {
				decoded[i], errs[i] = batch[i].decode()
				return nil
			})
		}
		_ = group.Wait()
		for i := range batch {
			if errs[i] != nil {
				return fmt.Errorf("reading the dump: %s: %w", batch[i].where, errs[i])
			}
			for _, f := range decoded[i] {
				c.take(f)
			}
		}
		switch {
		case errors.Is(end, io.EOF):
			return nil
		case end != nil:
			return fmt.Errorf("reading the dump: %w", end)
		}
	}
}

// readBatch returns items, and what ended the reading where they are the last.
func readBatch(next func() (item, error)) ([]item, error) {
	var batch []item
	for len(batch) < batchSize {
		i, err := next()
		if err != nil {
			return batch, err
		}
		batch = append(batch, i)
	}
	return batch, nil
}

func (c *collector) take(f found) {
	if f.skipped != "" {
		c.dumped.Skipped[f.skipped]++
		return
	}
	c.merged = c.merged || f.merged
	c.has[f.of] = true
	if f.newest.After(c.dumped.Now) {
		c.dumped.Now = f.newest
	}
	switch {
	case f.pod != nil:
		pod := c.family.share(f.pod)
		c.dumped.Cluster.SetPod(pod)
		eachNeed(pod, func(r resource) { c.needs[r] = true })
		c.used++
	case f.set != nil:
		f.set(c.dumped.Cluster)
		c.used++
	}
}

// mayBeNone are the resources of which many clusters have no objects. The others are
// needed only where a pod names one: it is there, and was not asked for.
var mayBeNone = []resource{budgets, autoscalers, attachments}

// dump notes what is missing. A merged list does not distinguish a kind that was not asked
// for from one of which there are no objects: what may well be none is taken to be so,
// and that is said.
func (c *collector) dump() (*Dump, error) {
	if c.used == 0 {
		return nil, c.nothing()
	}
	for r := range c.needs {
		switch {
		case c.has[r]:
		case c.merged && slices.Contains(mayBeNone, r):
			c.dumped.Assumed = append(c.dumped.Assumed, fmt.Sprintf("no %s is in the dump: taken to be none", r.kind()))
		default:
			c.dumped.Missing = append(c.dumped.Missing, r.String())
			c.dumped.Cluster.SetGap(snapshot.Gap{Resource: r.name, Reason: "the dump has none", Final: true})
		}
	}
	slices.Sort(c.dumped.Missing)
	slices.Sort(c.dumped.Assumed)
	return c.dumped, nil
}

func (c *collector) nothing() error {
	if len(c.dumped.Skipped) == 0 {
		return errors.New("reading the dump: it holds no objects")
	}
	kinds := slices.Sorted(maps.Keys(c.dumped.Skipped))
	return fmt.Errorf("reading the dump: none of its objects is of use for a plan, they are of kinds %v: take it with %s", kinds, DumpCommand)
}
