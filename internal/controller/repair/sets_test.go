package repair

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Sets are kept for a while, unless they are large, one by one or all together.
func TestSetsAreKept(t *testing.T) {
	noon := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	of := func(bytes ...int) *keptSets {
		k := &keptSets{at: noon}
		for _, n := range bytes {
			k.add([]appsv1.StatefulSet{{Spec: appsv1.StatefulSetSpec{ServiceName: strings.Repeat("x", n)}}})
		}
		return k
	}
	db, web := client.ObjectKey{Namespace: "shop", Name: "db"}, client.ObjectKey{Namespace: "shop", Name: "web"}
	for name, c := range map[string]struct {
		kept  []*keptSets
		after time.Duration
		want  int
		known bool
	}{
		"none were read":             {},
		"there were none":            {kept: []*keptSets{of()}, known: true},
		"two":                        {kept: []*keptSets{of(10, 10)}, want: 2, known: true},
		"the latest":                 {kept: []*keptSets{of(10, 10), of(10)}, want: 1, known: true},
		"a minute ago":               {kept: []*keptSets{of(10)}, after: unwatched, want: 1},
		"large ones":                 {kept: []*keptSets{of(mostKeptOfOne, 10)}},
		"large ones, after small":    {kept: []*keptSets{of(10), of(mostKeptOfOne/2, mostKeptOfOne/2)}},
		"a small one, after a large": {kept: []*keptSets{of(mostKeptOfOne), of(10)}, want: 1, known: true},
	} {
		t.Run(name, func(t *testing.T) {
			var s setStore
			s.keep(web, of(10, 10, 10))
			for _, k := range c.kept {
				s.keep(db, k)
			}
			got, known := s.get(db, noon.Add(c.after))
			if known != c.known || len(got) != c.want {
				t.Errorf("%d sets, %t; want %d, %t", len(got), known, c.want, c.known)
			}
			s.forget(db)
			s.forget(web)
			if len(s.all) != 0 || s.bytes != 0 {
				t.Errorf("%d bytes are counted of what was forgotten", s.bytes)
			}
		})
	}
	t.Run("of many policies", func(t *testing.T) {
		var s setStore
		for i := range 4 * mostKept / mostKeptOfOne {
			s.keep(client.ObjectKey{Name: strings.Repeat("x", i)}, of(mostKeptOfOne/2))
		}
		if s.bytes > mostKept || len(s.all) == 0 {
			t.Errorf("%d bytes of %d policies are kept", s.bytes, len(s.all))
		}
	})
}
