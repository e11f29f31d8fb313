package policycache

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"usher.sh/usher/internal/eviction"
)

var (
	observations = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "usher_evidence_observations_total",
		Help: "Observations of a policy's system, by their result: answered or failed.",
	}, []string{"namespace", "policy", "result"})
	observationSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "usher_evidence_observation_seconds",
		Help:    "How long an observation of a policy's system took.",
		Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}, []string{"namespace", "policy"})
	observedAt = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "usher_evidence_observed_timestamp_seconds",
		Help: "When the newest observation that was answered began, in seconds since 1970.",
	}, []string{"namespace", "policy"})
)

// Collectors are the package's metrics.
func Collectors() []prometheus.Collector {
	return []prometheus.Collector{observations, observationSeconds, observedAt}
}

func count(source *Source, evidence *eviction.Evidence, now time.Time) {
	labels := prometheus.Labels{"namespace": source.Namespace, "policy": source.Name}
	observationSeconds.With(labels).Observe(now.Sub(evidence.Observed).Seconds())
	result := "failed"
	if evidence.Error == "" {
		result = "answered"
		observedAt.With(labels).Set(float64(evidence.Observed.UnixMilli()) / 1000)
	}
	observations.WithLabelValues(source.Namespace, source.Name, result).Inc()
}

func forgetMetrics(source *Source) {
	labels := prometheus.Labels{"namespace": source.Namespace, "policy": source.Name}
	observations.DeletePartialMatch(labels)
	observationSeconds.DeletePartialMatch(labels)
	observedAt.DeletePartialMatch(labels)
}
