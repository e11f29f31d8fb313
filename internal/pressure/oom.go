package pressure

import corev1 "k8s.io/api/core/v1"

// OOM is a container as the kernel's OOM killer sees it.
type OOM struct {
	Pod       Pod    `json:"pod"`
	Container string `json:"container"`
	// Adj is oom_score_adj, from -1000 to 1000.
	Adj int `json:"adj"`
	// Usage is resident memory and swap, in bytes; -1: unknown, counted as nothing.
	Usage int64 `json:"usage"`
	// Score is what /proc/PID/oom_score would show: thousandths of the machine's memory and swap in use, plus Adj, not below 0.
	Score int `json:"score"`
}

// OOMScores returns the containers of all pods in the order in which the kernel would take them, first goes first.
func OOMScores(node Node, pods []Pod) []OOM { return nil }

// OOMScoreAdj returns what the kubelet of 1.37 sets for a container on a machine with that much memory, in bytes.
func OOMScoreAdj(p *corev1.Pod, c *corev1.Container, memory int64) int { return 0 }

// OOMScoreAdj311 returns what OpenShift 3.11 set.
func OOMScoreAdj311(p *corev1.Pod, c *corev1.Container, memory int64) int { return 0 }
