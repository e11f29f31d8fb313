package serviceproxy

import (
	"net/netip"
	"os"
	"slices"
	"testing"
)

// free is a range that no lab can have.
var free = netip.MustParsePrefix("10.119.255.128/25")

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, nothing was tested: routes need root")
	}
}

// TestLeftoversAreSwept leaves behind what a killed program leaves: the route, and no process that claims the range.
func TestLeftoversAreSwept(t *testing.T) {
	needRoot(t)
	killed, err := take(free)
	if err != nil {
		t.Fatal(err)
	}
	if !routed(t, free) {
		t.Fatal("there is no route to a range that is served")
	}
	if err := sweep(); err != nil {
		t.Fatal(err)
	}
	if !routed(t, free) {
		t.Error("a range that is served was swept away")
	}
	if _, err := take(free); err == nil {
		t.Error("a range was taken twice")
	}
	if err := killed.name.Close(); err != nil {
		t.Fatal(err)
	}
	next, err := take(free)
	if err != nil {
		t.Fatalf("taking what was left behind: %v", err)
	}
	if err := next.release(); err != nil {
		t.Fatal(err)
	}
	if routed(t, free) {
		t.Error("the route is still there")
	}
}

func routed(t *testing.T, services netip.Prefix) bool {
	t.Helper()
	routes, err := ours()
	if err != nil {
		t.Fatal(err)
	}
	var all []netip.Prefix
	for _, route := range routes {
		if prefix, ok := prefixOf(route.Dst); ok {
			all = append(all, prefix)
		}
	}
	return slices.Contains(all, services)
}
