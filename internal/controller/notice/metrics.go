package notice

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/notice"
)

var (
	labels   = []string{"kind", "source", "node"}
	standing = prometheus.NewDesc("usher_node_notice", "How many notices of a node stand that have led to NodeMaintenances.", labels, nil)
	left     = prometheus.NewDesc("usher_node_notice_seconds_left", "How long is left until the node goes, as the first of them says.", labels, nil)
)

// scrapePatience is how long the cache may take to answer a scrape.
const scrapePatience = 5 * time.Second

// Collector says which notices stand, by the maintenances in a cache. It keeps nothing of those that are gone.
type Collector struct {
	Client client.Reader
	Now    func() time.Time
}

// Describe implements prometheus.Collector.
func (*Collector) Describe(to chan<- *prometheus.Desc) { to <- standing; to <- left }

// Collect implements prometheus.Collector.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapePatience)
	defer cancel()
	var all v1alpha1.NodeMaintenanceList
	if err := c.Client.List(ctx, &all); err != nil {
		to <- prometheus.NewInvalidMetric(standing, err)
		return
	}
	maintenances := make([]*v1alpha1.NodeMaintenance, 0, len(all.Items))
	for i := range all.Items {
		maintenances = append(maintenances, &all.Items[i])
	}
	counts := map[[3]string]float64{}
	now := c.Now()
	for _, s := range notice.StandingOf(maintenances) { // those that go first come first
		of := [3]string{string(s.Kind), string(s.Source), s.Node}
		if until, known := s.Left(now); known && counts[of] == 0 {
			to <- prometheus.MustNewConstMetric(left, prometheus.GaugeValue, until.Seconds(), of[:]...)
		}
		counts[of]++
	}
	for of, count := range counts {
		to <- prometheus.MustNewConstMetric(standing, prometheus.GaugeValue, count, of[:]...)
	}
}
