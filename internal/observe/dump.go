package observe

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"usher.sh/usher/internal/snapshot"
)

// Limits of a dump. A cluster of 5,000 nodes and 150,000 pods is about 0.7 GB.
const (
	maxDump = 4 << 30  // bytes of all
	maxItem = 16 << 20 // bytes of one object; etcd takes a tenth of it
)

// Dump is a cluster as it was when it was written down.
type Dump struct {
	Cluster *snapshot.Cluster
	Now     time.Time      // the newest time that the objects name
	Skipped map[string]int // objects of kinds that decisions do not use, by kind
	Missing []string       // resources that a decision needs and the dump has none of; each is a gap too
	Assumed []string       // sentences about resources that a decision needs, and of which the dump is taken to say that there are no objects
}

// View returns the moment of the dump.
func (d *Dump) View() snapshot.View { return snapshot.View{Now: d.Now, Cluster: d.Cluster} }

// DumpCommand is what writes a dump with all that a decision may need.
const DumpCommand = "kubectl get nodes,pods,pdb,deploy,rs,sts,ds,rc,jobs,hpa,pvc,volumeattachments -A -o yaml"

// FromDump reads what `kubectl get nodes,pods,pdb,… -A -o yaml` (or -o json) wrote: one
// or several lists or objects, up to 4 GiB in all and 16 MiB each. It fails with a
// sentence that names the line or the item where what it reads is no such dump.
func FromDump(r io.Reader) (*Dump, error) {
	meter := &meter{r: r}
	in := bufio.NewReaderSize(meter, 1<<20)
	split, err := splitter(in, meter)
	if err != nil {
		return nil, err
	}
	c := newCollector()
	if err := c.collect(split); err != nil {
		return nil, err
	}
	return c.dump()
}

// splitter distinguishes JSON from YAML by the first character.
func splitter(in *bufio.Reader, meter *meter) (func(emit func(item) bool) error, error) {
	for {
		head, err := in.Peek(1)
		switch {
		case errors.Is(err, io.EOF):
			return nil, errors.New("reading the dump: it is empty")
		case err != nil:
			return nil, fmt.Errorf("reading the dump: %w", err)
		case head[0] == '{':
			return func(emit func(item) bool) error { return splitJSON(in, meter, emit) }, nil
		case slices.Contains([]byte(" \t\r\n"), head[0]):
			if _, err := in.Discard(1); err != nil {
				return nil, fmt.Errorf("reading the dump: %w", err)
			}
		default:
			return func(emit func(item) bool) error { return splitYAML(in, meter, emit) }, nil
		}
	}
}

// meter reads on only while the item at hand and the whole stay within their limits.
type meter struct {
	r     io.Reader
	total int64
	item  int64
}

func (m *meter) Read(p []byte) (int, error) {
	if m.total > maxDump {
		return 0, fmt.Errorf("it is larger than %d GiB", maxDump>>30)
	}
	if m.item > maxItem {
		return 0, fmt.Errorf("an object is larger than %d MiB", maxItem>>20)
	}
	n, err := m.r.Read(p[:min(int64(len(p)), maxItem+1-m.item)])
	m.total += int64(n)
	m.item += int64(n)
	return n, err
}

// next says that an item has been read.
func (m *meter) next() { m.item = 0 }
