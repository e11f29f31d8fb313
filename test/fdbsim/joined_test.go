package fdbsim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// A process that comes back at another address has what was on its disk, is no coordinator any more, and no other class than storage keeps data.
func TestJoin(t *testing.T) {
	const file = "db_1:0a@10.0.0.1:4500,10.0.0.2:4500,10.0.0.4:4500\n"
	c := Empty(2)
	join := func(i int, ip string) {
		class := []string{storageClass, "log"}[i/4]
		c.Join(Process{ID: fmt.Sprintf("p%d", i), Zone: fmt.Sprintf("z%d", i), Class: class, Address: ip + ":4500"}, file)
	}
	for i := 1; i <= 6; i++ {
		join(i, fmt.Sprintf("10.0.0.%d", i))
	}
	if c.Formed() || c.WouldLose("p1") != "" {
		t.Error("there is something before the database is made")
	}
	if out, err := c.Run(t.Context(), c.ClusterFile(), "configure new double ssd"); err != nil || strings.Contains(out.Err, "ERROR") {
		t.Fatal(out, err)
	}
	c.Advance(time.Minute)
	if !c.Serving() || c.stored(c.Find("p4")) > 0 || c.stored(c.Find("p1")) == 0 {
		t.Error("the database does not serve, or not by processes of class storage")
	}
	had := c.stored(c.Find("p1"))
	c.Kill("p1")
	join(1, "10.0.1.1")
	if now := c.stored(c.Find("p1")); now != had || c.answers("10.0.0.1:4500") || !c.Serving() {
		t.Errorf("it has %d shards, and had %d; coordinators: %v", now, had, c.Coordinators())
	}
	if c.LastCopy("p3") || !c.LastCopy("p2") || !c.LastCopy("p1", "p3") {
		t.Error("what is lost for good with the disks of processes is not known")
	}
	if why := c.WouldStop("p1"); why != "" {
		t.Errorf("all can be had without p1 for a while, and it says %q", why)
	}
	if c.WouldStop("p1", "p2", "p3") == "" || c.WouldStop("p2", "p4") != "no quorum of the coordinators is up" {
		t.Error("it does not know what cannot be had while processes are away")
	}
	c.Kill("p4")
	join(4, "10.0.1.4")
	if n := c.logTolerance(c.logs); !slices.Contains(c.logs, c.find("p4").key()) || n != 1 {
		t.Errorf("a log server that is back at another address: %d may fail; log servers: %v", n, c.logs)
	}
	c.Kill("p2")
	if c.Serving() {
		t.Error("it serves without a quorum of its coordinators")
	}
}
