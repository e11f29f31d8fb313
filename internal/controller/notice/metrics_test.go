package notice

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// What stands is counted by node, with the time until the first of it, and what is withdrawn is not counted any more.
func TestMetrics(t *testing.T) {
	g := newRig(t, configMap(rules))
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(&Collector{Client: g, Now: func() time.Time { return g.now }}); err != nil {
		t.Fatal(err)
	}
	series := func() (found []string) {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			for _, m := range family.GetMetric() {
				line := family.GetName()
				for _, label := range m.GetLabel() {
					line += " " + label.GetName() + "=" + label.GetValue()
				}
				found = append(found, fmt.Sprintf("%s: %g", line, m.GetGauge().GetValue()))
			}
		}
		return found
	}
	first, second := alert("Spot", "n1", "firing"), alert("Spot", "n1", "firing", `,"again":"b"`)
	if status, said := g.send(shared, webhook(first, second, alert("Disk", "n2", "firing"))); status != 200 {
		t.Fatal(said)
	}
	g.now = noon.Add(30 * time.Second)
	if diff := cmp.Diff([]string{
		"usher_node_notice kind=SpotInterruption node=n1 source=alertmanager: 2",
		"usher_node_notice_seconds_left kind=SpotInterruption node=n1 source=alertmanager: 90",
	}, series()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	g.send(shared, webhook(alert("Spot", "n1", "resolved"), alert("Spot", "n1", "resolved", `,"again":"b"`)))
	if left := series(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
