package nodepressure

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Numbers are those of the kubelet's own cases.
func TestMet(t *testing.T) {
	oneGi := Threshold{Signal: MemoryAvailable, Below: Value{Quantity: resource.MustParse("1Gi")}, MinReclaim: Value{Quantity: resource.MustParse("500Mi")}}
	fifth := Threshold{Signal: MemoryAvailable, Below: Value{Fraction: 0.2}, MinReclaim: Value{Fraction: 0.05}}
	third := Threshold{Signal: NodeFsAvailable, Below: Value{Fraction: 0.3}}
	for name, test := range map[string]struct {
		threshold           Threshold
		available, capacity int64
		met, reclaim        bool
	}{
		"46 below":                         {oneGi, 500 * mi, 0, true, true},
		"47, 49 above":                     {oneGi, 2 * gi, 0, false, false},
		"48 within the reclaim":            {oneGi, bytes("1.05Gi"), 0, false, true},
		"just below":                       {oneGi, gi - 1, 0, true, true},
		"just at it":                       {oneGi, gi, 0, false, true},
		"at threshold and reclaim":         {oneGi, gi + 500*mi, 0, false, false},
		"50 memory below a fifth":          {fifth, 100 * mi, 1000 * mi, true, true},
		"50 disk below three tenths":       {third, 100 * gi, 1000 * gi, true, true},
		"51 memory above":                  {fifth, 300 * mi, 1000 * mi, false, false},
		"51 disk above":                    {third, 400 * gi, 1000 * gi, false, false},
		"54 within the reclaim in percent": {fifth, 225 * mi, 1000 * mi, false, true},
		"55 above both":                    {fifth, 300 * mi, 1000 * mi, false, false},
		"no capacity":                      {fifth, 0, 0, false, false},
		"a part of a byte, nothing left":   {hard(MemoryAvailable, "1m"), 0, 0, true, true},
		"a part of a byte, a byte left":    {hard(MemoryAvailable, "1m"), 1, 0, false, false},
		"below nothing":                    {oneGi, -5, 0, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := Reading{Available: test.available, Capacity: test.capacity}
			if got := test.threshold.Met(r); got != test.met {
				t.Errorf("Met: %v", got)
			}
			if got := test.threshold.MetWithReclaim(r); got != test.reclaim {
				t.Errorf("MetWithReclaim: %v", got)
			}
		})
	}
}

// A tenth is a little more than a tenth as the kubelet computes.
func TestOfTruncates(t *testing.T) {
	if got := (Value{Fraction: 0.1}).Of(1_000_000_000); got != 100_000_001 {
		t.Errorf("got %d", got)
	}
}

// Numbers are those of the kubelet's own cases; derived thresholds without source do not exist here.
func TestForLayout(t *testing.T) {
	given := []Threshold{
		hard(NodeFsAvailable, "1Gi"), hard(NodeFsInodesFree, "10"), hard(ImageFsAvailable, "2Gi"), soft(ImageFsAvailable, "3Gi", 60e9),
		hard(ContainerFsAvailable, "7Gi"), // 33, 35, 37: set by hand, and not to be
	}
	base := []string{"nodefs.available<1Gi", "nodefs.inodesFree<10", "imagefs.available<2Gi", "imagefs.available<3Gi for 1m0s"}
	for layout, want := range map[Layout][]string{
		"":              append(base[:4:4], "containerfs.available<1Gi", "containerfs.inodesFree<10"),
		Single:          append(base[:4:4], "containerfs.available<1Gi", "containerfs.inodesFree<10"),
		DedicatedImages: append(base[:4:4], "containerfs.available<2Gi", "containerfs.available<3Gi for 1m0s"),
		SplitImages:     append(base[:4:4], "containerfs.available<1Gi", "containerfs.inodesFree<10"),
	} {
		if diff := cmp.Diff(want, text(ForLayout(given, layout))); diff != "" {
			t.Errorf("%q (-want +got)\n%s", layout, diff)
		}
	}
}

func TestSignals(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Signals() {
		if s.Resource() == "" || s.Condition() == "" || seen[string(s)] {
			t.Errorf("%q: resource %q, condition %q, seen %v", s, s.Resource(), s.Condition(), seen[string(s)])
		}
		seen[string(s)] = true
	}
	if s := Signal("mem.available"); s.Resource() != "" || s.Condition() != "" {
		t.Errorf("40 unknown signal: %q %q", s.Resource(), s.Condition())
	}
}

func TestAmount(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 1023: "1023", 1024: "1Ki", 1536: "1.5Ki", mi - 1: "1Mi", 200 * mi: "200Mi", gi + gi/2: "1.5Gi", -5 * mi: "-5Mi", 1<<63 - 1: "8Ei"} {
		if got := MemoryAvailable.Amount(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	if got := PIDAvailable.Amount(1024); got != "1024" {
		t.Errorf("pids: %s", got)
	}
}
