// Package sim answers: what would the cluster do? It is a deterministic cluster of
// facts behind the same actions and answers as a real one: an eviction handler, the
// controllers of pods, a scheduler, the disruption controller, kubelets that take
// their time, and faults on demand. It stands behind forecasts and property tests.
//
// It is pure: time passes only in Advance, and chance comes from the seed in Config.
// Not simulated: preemption, soft scheduling preferences, topology spread
// constraints, volume topology, quotas, and pods that end by themselves.
package sim
