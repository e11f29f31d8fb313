package observe

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/util/yaml"

	"usher.sh/usher/internal/snapshot"
)

// Limits of a dump. A cluster of 5,000 nodes and 150,000 pods is about 0.7 GB.
const (
	maxDump = 4 << 30  // bytes of all
	maxItem = 16 << 20 // bytes of one object; etcd takes a tenth of it
	maxHead = 1 << 20  // bytes that may be blank before the first object
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
const DumpCommand = "kubectl get nodes,pods,pdb,deploy,rs,sts,ds,rc,jobs,hpa,pvc,pv,volumeattachments -A -o yaml"

// FromDump reads what `kubectl get nodes,pods,pdb,… -A -o yaml` (or -o json) wrote: one
// or several lists or objects, up to 4 GiB in all and 16 MiB each. It fails with a
// sentence that names the line or the item where what it reads is no such dump.
func FromDump(r io.Reader) (*Dump, error) {
	meter := &meter{r: r}
	in := bufio.NewReaderSize(meter, maxHead)
	head, err := in.Peek(maxHead)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("reading the dump: %w", err)
	case err != nil && len(bytes.TrimSpace(head)) == 0:
		return nil, errors.New("reading the dump: it is empty")
	}
	next := newYAMLReader(in, meter).next
	if yaml.IsJSONBuffer(head) {
		next = newJSONReader(in, meter).next
	}
	c := newCollector()
	if err := c.collect(next); err != nil {
		return nil, err
	}
	return c.dump()
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
