package nodepressure

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type m = map[string]string

// Numbers are those of the kubelet's own cases.
func TestThresholds(t *testing.T) {
	none := []string{}
	for name, test := range map[string]struct {
		give Config
		want []string
	}{
		"1 nothing": {Config{EvictionHard: m{}}, []string{}},
		"2 memory": {
			Config{EvictionHard: m{"memory.available": "150Mi"}, EvictionSoft: m{"memory.available": "300Mi"}, EvictionSoftGracePeriod: m{"memory.available": "30s"}, EvictionMinimumReclaim: m{"memory.available": "0"}},
			[]string{"memory.available<150Mi", "memory.available<300Mi for 30s", "allocatableMemory.available<150Mi"},
		},
		"3 memory in percent": {
			Config{EnforceNodeAllocatable: none, EvictionHard: m{"memory.available": "10%"}, EvictionSoft: m{"memory.available": "30%"}, EvictionSoftGracePeriod: m{"memory.available": "30s"}, EvictionMinimumReclaim: m{"memory.available": "5%"}},
			[]string{"memory.available<10% +5%", "memory.available<30% for 30s +5%"},
		},
		"4 disk": {
			Config{EvictionHard: m{"imagefs.available": "150Mi", "nodefs.available": "100Mi"}, EvictionSoft: m{"imagefs.available": "300Mi", "nodefs.available": "200Mi"}, EvictionSoftGracePeriod: m{"imagefs.available": "30s", "nodefs.available": "30s"}, EvictionMinimumReclaim: m{"imagefs.available": "2Gi", "nodefs.available": "1Gi"}},
			[]string{"nodefs.available<100Mi +1Gi", "nodefs.available<200Mi for 30s +1Gi", "imagefs.available<150Mi +2Gi", "imagefs.available<300Mi for 30s +2Gi"},
		},
		"5 disk in percent": {
			Config{EvictionHard: m{"imagefs.available": "15%", "nodefs.available": "10.5%"}, EvictionMinimumReclaim: m{"imagefs.available": "10%", "nodefs.available": "5%"}},
			[]string{"nodefs.available<10.5% +5%", "imagefs.available<15% +10%"},
		},
		"6 inodes": {
			Config{EvictionHard: m{"imagefs.inodesFree": "150Mi", "nodefs.inodesFree": "100Mi"}, EvictionMinimumReclaim: m{"imagefs.inodesFree": "2Gi", "nodefs.inodesFree": "1Gi"}},
			[]string{"nodefs.inodesFree<100Mi +1Gi", "imagefs.inodesFree<150Mi +2Gi"},
		},
		"7 off with 0%":               {Config{EvictionHard: m{"memory.available": "0%"}, EvictionSoft: m{"memory.available": "0%"}}, []string{}},
		"8 off with 100%":             {Config{EvictionHard: m{"memory.available": "100%"}, EvictionSoft: m{"memory.available": "100%"}}, []string{}},
		"26 pods enforced, no memory": {Config{EvictionHard: m{"nodefs.available": "1Gi"}}, []string{"nodefs.available<1Gi"}},
		"27 pods enforced, soft memory": {
			Config{EvictionHard: m{}, EvictionSoft: m{"memory.available": "1Gi"}, EvictionSoftGracePeriod: m{"memory.available": "2m"}},
			[]string{"memory.available<1Gi for 2m0s"},
		},
		"28 pods enforced, hard memory": {Config{EvictionHard: m{"memory.available": "1Gi"}}, []string{"memory.available<1Gi", "allocatableMemory.available<1Gi"}},
		"defaults": {
			Config{},
			[]string{"memory.available<100Mi", "allocatableMemory.available<100Mi", "nodefs.available<10%", "nodefs.inodesFree<5%", "imagefs.available<15%", "imagefs.inodesFree<5%"},
		},
		"own without defaults": {Config{EvictionHard: m{"pid.available": "100"}}, []string{"pid.available<100"}},
		"own merged with defaults": {
			Config{EvictionHard: m{"memory.available": "1Gi", "imagefs.available": "0%", "pid.available": "100"}, MergeDefaultEvictionSettings: new(true), EnforceNodeAllocatable: none},
			[]string{"memory.available<1Gi", "nodefs.available<10%", "nodefs.inodesFree<5%", "imagefs.inodesFree<5%", "pid.available<100"},
		},
		"allocatable memory by hand":          {Config{EvictionHard: m{"allocatableMemory.available": "5%"}}, []string{"allocatableMemory.available<5%"}},
		"grace and reclaim without threshold": {Config{EvictionHard: m{}, EvictionSoftGracePeriod: m{"pid.available": "1s"}, EvictionMinimumReclaim: m{"pid.available": "1"}}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := test.give.Thresholds()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, text(got)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestThresholdsRefused(t *testing.T) {
	const memory = "memory.available"
	hard := func(s string) Config { return Config{EvictionHard: m{memory: s}} }
	soft := func(value, grace string) Config {
		return Config{EvictionSoft: m{memory: value}, EvictionSoftGracePeriod: m{memory: grace}}
	}
	reclaim := func(s string) Config { return Config{EvictionMinimumReclaim: m{memory: s}} }
	for name, test := range map[string]struct {
		give Config
		want []string // all in the one error
	}{
		"9 unknown signal":           {Config{EvictionHard: m{"mem.available": "150Mi"}}, []string{"evictionHard", `"mem.available"`, `"memory.available"`}},
		"10 negative":                {hard("-150Mi"), []string{"evictionHard[memory.available]", `"-150Mi"`, "above 0"}},
		"11 negative percentage":     {hard("-15%"), []string{"evictionHard[memory.available]", "percentage such as"}},
		"12 too much":                {hard("150%"), []string{"evictionHard[memory.available]", "not be above 100%"}},
		"13 soft negative":           {soft("-150Mi", "1m"), []string{"evictionSoft[memory.available]", "above 0"}},
		"14 one known, one not":      {Config{EvictionHard: m{memory: "150Mi", "invalid.foo": "150Mi"}}, []string{`"invalid.foo"`}},
		"15 no grace":                {Config{EvictionSoft: m{memory: "150Mi"}}, []string{"evictionSoftGracePeriod[memory.available]", "Required", "how long"}},
		"16 negative grace":          {soft("150Mi", "-30s"), []string{"evictionSoftGracePeriod[memory.available]", "longer than 0"}},
		"17 negative reclaim":        {reclaim("-300Mi"), []string{"evictionMinimumReclaim[memory.available]", "negative"}},
		"18 reclaim, unknown signal": {Config{EvictionMinimumReclaim: m{"foo": "1"}}, []string{"evictionMinimumReclaim", `"foo"`}},
		"19 reclaim, empty":          {reclaim(""), []string{"evictionMinimumReclaim[memory.available]", "quantity such as"}},
		"20 reclaim, negative":       {reclaim("-15%"), []string{"evictionMinimumReclaim[memory.available]", "percentage such as"}},
		"21 reclaim, 10..5%":         {reclaim("10..5%"), []string{"evictionMinimumReclaim[memory.available]", "percentage such as"}},
		"22 empty":                   {hard(""), []string{"evictionHard[memory.available]", "quantity such as"}},
		"23 10..5%":                  {hard("10..5%"), []string{"evictionHard[memory.available]", "percentage such as"}},
		"24 grace, unknown signal":   {Config{EvictionSoftGracePeriod: m{"mem.available": "30s"}}, []string{"evictionSoftGracePeriod", `"mem.available"`}},
		"25 30mins":                  {soft("150Mi", "30mins"), []string{"evictionSoftGracePeriod[memory.available]", "duration such as"}},
		"zero":                       {hard("0"), []string{"write 0%"}},
		"reclaim 0%":                 {reclaim("0%"), []string{"leave the signal out"}},
		"negative transition": {
			Config{EvictionPressureTransitionPeriod: Default().EvictionPressureTransitionPeriod, EvictionHard: m{memory: "x"}},
			[]string{"evictionHard[memory.available]"},
		},
		// What the kubelet takes and Usher does not.
		"differs: NaN":                 {hard("NaN%"), []string{"percentage such as"}},
		"differs: two percent signs":   {hard("10%%"), []string{"percentage such as"}},
		"differs: exponent":            {hard("1e1%"), []string{"percentage such as"}},
		"differs: hexadecimal":         {hard("0x1p3%"), []string{"percentage such as"}},
		"differs: minus nothing":       {hard("-0%"), []string{"percentage such as"}},
		"differs: soft without grace":  {soft("150Mi", "0s"), []string{"longer than 0", "evictionHard"}},
		"differs: endless":             {hard("1e10000000"), []string{"fits a machine"}},
		"differs: endlessly small":     {hard("1e-100000"), []string{"fits a machine"}},
		"differs: beyond 63 bits":      {hard("1e19"), []string{"fits a machine"}},
		"differs: reclaim beyond 100%": {reclaim("500%"), []string{"not be above 100%"}},
	} {
		t.Run(name, func(t *testing.T) {
			errs := test.give.Validate()
			if len(errs) != 1 {
				t.Fatalf("%d errors, want 1: %v", len(errs), errs)
			}
			for _, want := range test.want {
				if got := errs[0].Error(); !strings.Contains(got, want) {
					t.Errorf("%q does not contain %q", got, want)
				}
			}
			if got, err := test.give.Thresholds(); err == nil {
				t.Errorf("thresholds in spite of it: %v", text(got))
			}
		})
	}
}

func TestTransitionMustNotBeNegative(t *testing.T) {
	c := Default()
	c.EvictionPressureTransitionPeriod.Duration = -1
	if errs := c.Validate(); len(errs) != 1 || errs[0].Field != "evictionPressureTransitionPeriod" {
		t.Errorf("got %v", errs)
	}
}

// What differs from the kubelet in what is taken.
func TestPercentagesThatAreNone(t *testing.T) {
	for _, s := range []string{"0%", "0.0%", "00%", "100%", "100.0%", "0100.00%"} {
		got, err := Config{EvictionHard: m{"memory.available": s}}.Thresholds()
		if err != nil || len(got) != 0 {
			t.Errorf("%s: %v, %v; want no threshold", s, text(got), err)
		}
	}
}

// What is rounded to 0% or 100% was not written as such: it is a threshold, never met or as good as always.
func TestPercentagesThatAreRounded(t *testing.T) {
	nearly := "0." + strings.Repeat("0", 60) + "1%"
	for s, met := range map[string]bool{"99.99999999%": true, "99.999999999999999999%": true, "100.00000001%": true, nearly: false, "0." + strings.Repeat("0", 43) + "1%": false} {
		c := Config{EnforceNodeAllocatable: []string{}, EvictionHard: m{"memory.available": s}, EvictionSoft: m{"nodefs.available": s}, EvictionSoftGracePeriod: m{"nodefs.available": "30s"}}
		got, err := c.Thresholds()
		if err != nil || len(got) != 2 {
			t.Errorf("%s: %v, %v; want a hard and a soft threshold", s, text(got), err)
			continue
		}
		if at := got[0].Met(Reading{Available: 99, Capacity: 100}); at != met || got[0].Met(Reading{Available: 100, Capacity: 100}) {
			t.Errorf("%s is met with 99 of 100 available: %v, want %v; and never with all of it", s, at, met)
		}
	}
	// Nothing can be reclaimed of a reclaim that is rounded to nothing, so it is refused like 0%, by the kubelet as well.
	c := Config{EvictionHard: m{"memory.available": "1Gi"}, EvictionMinimumReclaim: m{"memory.available": nearly}}
	if _, err := c.Thresholds(); err == nil {
		t.Error("a minimum reclaim that is rounded to 0% was taken")
	}
}

// An empty map is not an absent one: it turns the defaults off.
func TestConfigSurvivesJSON(t *testing.T) {
	for _, c := range []Config{{}, {EvictionHard: m{}, EnforceNodeAllocatable: []string{}}, Default()} {
		raw, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var back Config
		if err := json.Unmarshal(raw, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c, back); diff != "" {
			t.Errorf("%s (-want +got)\n%s", raw, diff)
		}
	}
}

func FuzzThresholds(f *testing.F) {
	for _, seed := range []string{"100Mi", "10%", "NaN%", "10%%", "0x1p3%", "-1", "1e400%", "1m", "9e99", "1e10000000", "9223372036854775808", "%", "", "0", "١%", "99.99999999%"} {
		f.Add(seed, seed, "30s", seed)
	}
	f.Fuzz(func(t *testing.T, hard, soft, grace, reclaim string) {
		c := Config{
			EvictionHard: m{"memory.available": hard}, EvictionSoft: m{"memory.available": soft},
			EvictionSoftGracePeriod: m{"memory.available": grace}, EvictionMinimumReclaim: m{"memory.available": reclaim},
		}
		thresholds, err := c.Thresholds()
		if (err == nil) != (len(c.Validate()) == 0) {
			t.Fatalf("Thresholds says %v, Validate %v", err, c.Validate())
		}
		for _, th := range thresholds {
			if f := th.Below.Fraction; !(f >= 0 && f <= 1) || th.Below.IsZero() {
				t.Errorf("%s: fraction %v", th.Signal, f)
			}
			for _, capacity := range []int64{0, 1, 1 << 40} {
				if got := th.Below.Of(capacity); got < 0 {
					t.Errorf("%s of %d is %d", th.Below, capacity, got)
				}
				r := Reading{Available: capacity, Capacity: capacity}
				if th.Met(r) && !th.MetWithReclaim(r) {
					t.Errorf("%v is met and not met with its reclaim", th)
				}
			}
		}
	})
}
