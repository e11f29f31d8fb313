// Package realetcd asks whether plain drains of real nodes, one after the other, leave a real etcd cluster on them whole
// and serving, with Usher and without.
package realetcd

import (
	"flag"
	"testing"
	"time"

	"usher.sh/usher/lab/testlab"
)

var (
	rounds  = flag.Int("rounds", 3, "how many times every node is drained")
	seed    = flag.Uint64("seed", 1, "seed of the moments at which managers are killed and the apiserver is restarted")
	budget  = flag.Bool("budget", false, "also compare with a PodDisruptionBudget over the members")
	figured = flag.Bool("figures", false, "lose a node, and check the figures of what is done about it")
	// A drain ends processes, never the machine: what is not on the disk yet is not lost. But a disk that others keep busy
	// stops all members at once, whose data are all on it.
	fsync = flag.Bool("fsync", false, "members wait for the disk, as etcd does by default")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *figured { // how long Kubernetes waits is no part of the figures; otherwise machines are busy, and nodes silent for a while
		testlab.Main(m, testlab.WithNodeGrace(40*time.Second))
	}
	testlab.Main(m)
}
