package kubelet

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	evictionapi "k8s.io/kubernetes/pkg/kubelet/eviction/api"

	"usher.sh/usher/internal/nodepressure"
)

// line is a threshold in the words of both.
func line(signal string, kind string, below, reclaim string) string {
	return strings.Join([]string{signal, kind, below, reclaim}, " ")
}

func amount(quantity fmt.Stringer, fraction float32) string {
	if fraction != 0 {
		return share(fraction)
	}
	return quantity.String()
}

// share writes a share of the capacity; what is below all that a machine has is 0.
func share(fraction float32) string {
	if fraction < 1e-40 {
		fraction = 0
	}
	return fmt.Sprintf("%.9g of all", fraction)
}

func theirLine(t evictionapi.Threshold) string {
	reclaim := "0"
	if t.MinReclaim != nil {
		reclaim = theirValue(*t.MinReclaim)
	}
	return line(string(t.Signal), t.GracePeriod.String(), theirValue(t.Value), reclaim)
}

func theirValue(v evictionapi.ThresholdValue) string {
	if v.Quantity == nil {
		return share(v.Percentage)
	}
	return amount(v.Quantity, 0)
}

func ourLine(t nodepressure.Threshold) string {
	return line(string(t.Signal), t.Grace.String(), amount(&t.Below.Quantity, t.Below.Fraction), amount(&t.MinReclaim.Quantity, t.MinReclaim.Fraction))
}

// theirs parses as the kubelet does.
func theirs(c nodepressure.Config) ([]evictionapi.Threshold, error) {
	return eviction.ParseThresholdConfig(c.EnforceNodeAllocatable, c.EvictionHard, c.EvictionSoft, c.EvictionSoftGracePeriod, c.EvictionMinimumReclaim)
}

// bothRead compares what the two make of a configuration; it returns the thresholds of both.
func bothRead(t *testing.T, c nodepressure.Config) ([]evictionapi.Threshold, []nodepressure.Threshold) {
	t.Helper()
	their, theirErr := theirs(c)
	our, ourErr := c.Thresholds()
	if (theirErr == nil) != (ourErr == nil) {
		t.Errorf("%+v: the kubelet says %v, Usher %v", c, theirErr, ourErr)
		return nil, nil
	}
	if theirErr != nil {
		return nil, nil
	}
	if diff := cmp.Diff(sorted(their, theirLine), sorted(our, ourLine)); diff != "" {
		t.Errorf("%+v: the kubelet's thresholds less, Usher's more:\n%s", c, diff)
	}
	return their, our
}

func sorted[T any](list []T, text func(T) string) []string {
	out := []string{}
	for _, e := range list {
		out = append(out, text(e))
	}
	slices.Sort(out)
	return out
}

var signals = []string{
	"memory.available", "allocatableMemory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree",
	"containerfs.available", "containerfs.inodesFree", "pid.available",
}

// settings draws one of the maps; bad is how many of a hundred values may be nonsense.
func (g gen) settings(value func() string, bad int) map[string]string {
	out := map[string]string{}
	for _, signal := range signals {
		if g.chance(25) {
			out[signal] = value()
		}
	}
	if g.chance(bad) {
		out[oneOf(g, "memory.free", "", "Memory.available", "nodefs")] = value()
	}
	return out
}

// value draws a value that both read in the same way; differences_test.go has the others.
func (g gen) value(bad int) func() string {
	return func() string {
		if g.chance(bad) {
			return oneOf(g, "", "x", "-1", "-5%", "101%", "150%", "%", "10..5%", "1.5.2", "5 %", "Mi", "--1", "12%345", "1Qi", "0x10", " ")
		}
		return oneOf(g,
			fmt.Sprint(1+g.IntN(40)), fmt.Sprintf("%dMi", 1+g.IntN(40)), fmt.Sprintf("%dm", 1+g.IntN(2000)), fmt.Sprintf("%d.5Ki", g.IntN(9)),
			fmt.Sprintf("%d%%", 1+g.IntN(99)), fmt.Sprintf("%d.%d%%", 1+g.IntN(98), g.IntN(100)), "1e3", "0%", "100%",
			"99.99999999%", "99.9999%", "100.00000001%", "0."+strings.Repeat("0", 30+g.IntN(40))+"1%",
		)
	}
}

func (g gen) config(bad int) nodepressure.Config {
	c := nodepressure.Config{
		EvictionHard: g.settings(g.value(bad), bad), EvictionSoft: g.settings(g.value(bad), bad), EvictionSoftGracePeriod: map[string]string{},
		EnforceNodeAllocatable: oneOf(g, []string{"pods"}, []string{"pods", "system-reserved"}, []string{"none"}),
	}
	for signal := range c.EvictionSoft {
		if !g.chance(bad) {
			c.EvictionSoftGracePeriod[signal] = oneOf(g, "1s", "30s", "1m30s", "0.5s")
		}
		if g.chance(bad) {
			c.EvictionSoftGracePeriod[signal] = oneOf(g, "", "30", "-1s", "30mins")
		}
	}
	c.EvictionMinimumReclaim = g.settings(func() string {
		if g.chance(bad) {
			return oneOf(g, "", "-1", "0%", "-10%", "10..5%", "x")
		}
		return oneOf(g, "0", "1", "10Mi", "5%", "100%", "2.5%", "1500m")
	}, bad)
	return c
}

func TestThresholds(t *testing.T) {
	t.Parallel()
	good := 0
	each(t, *inputs, func(t *testing.T, g gen) {
		if their, _ := bothRead(t, g.config(oneOf(g, 0, 0, 1, 5))); len(their) > 0 {
			good++
		}
	})
	t.Logf("%d were accepted by both and set thresholds", good)
}
