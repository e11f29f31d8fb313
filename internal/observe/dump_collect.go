package observe

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"usher.sh/usher/internal/snapshot"
)

// collector puts together what a dump holds.
type collector struct {
	dumped *Dump
	family siblings
	has    map[resource]bool
	needs  map[resource]bool
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

func (c *collector) collect(split func(emit func(item) bool) error) error {
	return decodeAll(split, c.take)
}

func (c *collector) take(f found) {
	if f.skipped != "" {
		c.dumped.Skipped[f.skipped]++
		return
	}
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

// dump notes what is missing. A merged list does not tell a kind that was not asked
// for from one of which there are no objects, so both are unknown.
func (c *collector) dump() (*Dump, error) {
	if c.used == 0 {
		return nil, c.nothing()
	}
	for r := range c.needs {
		if !c.has[r] {
			c.dumped.Missing = append(c.dumped.Missing, r.String())
			c.dumped.Cluster.SetGap(snapshot.Gap{Resource: r.name, Reason: "the dump has none", Final: true})
		}
	}
	slices.Sort(c.dumped.Missing)
	return c.dumped, nil
}

func (c *collector) nothing() error {
	if len(c.dumped.Skipped) == 0 {
		return errors.New("reading the dump: it holds no objects")
	}
	kinds := slices.Sorted(maps.Keys(c.dumped.Skipped))
	return fmt.Errorf("reading the dump: none of its objects is of use for a plan, they are of kinds %v: take it with kubectl get nodes,pods,pdb,deploy,rs,sts,ds,hpa,pvc,volumeattachments -A -o yaml", kinds)
}
