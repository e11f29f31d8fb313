package snapshot

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// TestIndexesStaySorted compares every index with one that is made anew, and checks
// that a slice that was handed out is never changed.
func TestIndexesStaySorted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := NewCluster()
		type handed struct{ slice, copied []*Pod }
		var out []handed
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			n := rapid.IntRange(0, 8).Draw(t, "pod")
			p := &Pod{Namespace: "shop", Name: fmt.Sprint("p", n), UID: types.UID(fmt.Sprint(n, "-", rapid.IntRange(0, 1).Draw(t, "uid")))}
			p.Node = rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "node")
			p.Owner.UID = types.UID(rapid.SampledFrom([]string{"", "o"}).Draw(t, "owner"))
			if rapid.IntRange(0, 3).Draw(t, "delete") == 0 {
				c.DeletePod(p.UID)
			} else {
				c.SetPod(p)
			}
			for _, got := range [][]*Pod{c.PodsOn("a"), c.PodsOf(OwnerKey{Namespace: "shop", UID: "o"}), c.PodsIn("shop")} {
				out = append(out, handed{got, slices.Clone(got)})
			}
			same(t, c)
		}
		for _, h := range out {
			if !slices.Equal(h.slice, h.copied) {
				t.Fatal("a slice that was handed out has changed")
			}
		}
	})
}

func same(t *rapid.T, c *Cluster) {
	t.Helper()
	var on, of, in []*Pod
	c.EachPod(func(p *Pod) {
		in = append(in, p)
		if p.Node == "a" {
			on = append(on, p)
		}
		if p.Owner.UID == "o" {
			of = append(of, p)
		}
	})
	for _, pair := range [][2][]*Pod{{on, c.PodsOn("a")}, {of, c.PodsOf(OwnerKey{Namespace: "shop", UID: "o"})}, {in, c.PodsIn("shop")}} {
		slices.SortFunc(pair[0], ComparePods)
		if !slices.Equal(pair[0], pair[1]) {
			t.Fatalf("index holds %v, want %v", pair[1], pair[0])
		}
	}
}
