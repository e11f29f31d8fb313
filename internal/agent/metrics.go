package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/agent/wake"
	"usher.sh/usher/internal/nodepressure"
)

// metrics are what the agent exposes to Prometheus; docs/metrics.md describes each.
type metrics struct {
	registry  *prometheus.Registry
	condition *prometheus.GaugeVec
	reached   prometheus.Gauge
	looks     *prometheus.CounterVec
	actions   *prometheus.CounterVec
	answers   *prometheus.CounterVec
	decision  prometheus.Histogram
	killed    prometheus.Counter
	readings  readings
}

func newMetrics() *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "usher_agent_" + name, Help: help}, labels)
	}
	m := &metrics{
		registry:  prometheus.NewRegistry(),
		condition: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "usher_agent_pressure", Help: "1 while the node has the condition."}, []string{"condition"}),
		reached:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "usher_agent_apiserver_reachable", Help: "1 while the apiserver answers."}),
		looks:     counter("looks_total", "Looks at the machine, by what made the agent look.", "reason"),
		actions:   counter("actions_total", "What was decided.", "kind", "reason"),
		answers:   counter("answers_total", "What became of it.", "kind", "answer"),
		decision: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "usher_agent_decision_seconds", Help: "From the reading that was too low to the order to act.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 12),
		}),
		killed: prometheus.NewCounter(prometheus.CounterOpts{Name: "usher_agent_killed_processes_total", Help: "Processes killed on the node."}),
	}
	m.registry.MustRegister(&m.readings, m.condition, m.reached, m.looks, m.actions, m.answers, m.decision, m.killed,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.reached.Set(1)
	return m
}

// readings are the latest; metrics are made of them only when they are collected.
type readings struct {
	latest atomic.Pointer[latest]
}

type latest struct {
	at         time.Time
	readings   map[nodepressure.Signal]nodepressure.Reading // not changed any more
	thresholds []nodepressure.Threshold
}

var (
	availableDesc = prometheus.NewDesc("usher_agent_available", "What is left, in bytes, inodes or threads.", []string{"signal"}, nil)
	capacityDesc  = prometheus.NewDesc("usher_agent_capacity", "What there is, in bytes, inodes or threads.", []string{"signal"}, nil)
	thresholdDesc = prometheus.NewDesc("usher_agent_threshold", "Below what the agent acts, in bytes, inodes or threads.", []string{"signal", "kind"}, nil)
)

// Describe is for Prometheus.
func (r *readings) Describe(into chan<- *prometheus.Desc) {
	into <- availableDesc
	into <- capacityDesc
	into <- thresholdDesc
}

// Collect is for Prometheus.
func (r *readings) Collect(into chan<- prometheus.Metric) {
	now := r.latest.Load()
	if now == nil {
		return
	}
	gauge := func(desc *prometheus.Desc, value int64, labels ...string) {
		into <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), labels...)
	}
	for signal, reading := range now.readings {
		gauge(availableDesc, reading.Available, string(signal))
		gauge(capacityDesc, reading.Capacity, string(signal))
	}
	for _, t := range now.thresholds {
		if reading, ok := now.readings[t.Signal]; ok {
			gauge(thresholdDesc, t.Below.Of(reading.Capacity), string(t.Signal), t.Kind())
		}
	}
}

func (m *metrics) look(now time.Time, why string, s *sight, thresholds []nodepressure.Threshold) {
	m.looks.WithLabelValues(why).Inc()
	m.readings.latest.Store(&latest{now, s.node.Readings, thresholds})
}

// blindAfter is how long the agent may not have looked before it is taken to hang.
const blindAfter = 3 * wake.Longest

// health answers whether the agent looks at its node.
func (m *metrics) health(w http.ResponseWriter, _ *http.Request) {
	last := m.readings.latest.Load()
	if last == nil || time.Since(last.at) > blindAfter {
		http.Error(w, fmt.Sprintf("no look at the machine for %s", blindAfter), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (m *metrics) conditions(all []corev1.NodeConditionType) {
	m.condition.Reset()
	for _, one := range all {
		m.condition.WithLabelValues(string(one)).Set(1)
	}
}

func (m *metrics) reachable(yes bool) {
	if yes {
		m.reached.Set(1)
	} else {
		m.reached.Set(0)
	}
}

func (m *metrics) decided(a *nodepressure.Action, took time.Duration) {
	m.actions.WithLabelValues(string(a.Kind), string(a.Reason)).Inc()
	m.decision.Observe(took.Seconds())
}

func (m *metrics) ended(o *outcome) {
	m.answers.WithLabelValues(string(o.action.Kind), string(o.answer.Code)).Inc()
	m.killed.Add(float64(o.killed))
}

// nowhere is the address at which nothing is served.
const nowhere = "0"

// serve answers at address until ctx ends; what it ended with, if anything, is sent when it has.
func (m *metrics) serve(ctx context.Context, address string) (<-chan error, error) {
	ended := make(chan error, 1)
	if address == nowhere {
		ended <- nil
		return ended, nil
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serving metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/healthz", m.health)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		server.Close()
	}()
	go func() {
		err := server.Serve(listener)
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
		ended <- err
	}()
	return ended, nil
}
