package nodepressure

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	mi = int64(1) << 20
	gi = int64(1) << 30
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// bytes reads "200Mi".
func bytes(s string) int64 {
	q := resource.MustParse(s)
	return q.Value()
}

// memoryPod is a pod that requests and uses memory.
func memoryPod(name string, class corev1.PodQOSClass, request, usage int64) Pod {
	return Pod{
		Namespace: "default", Name: name, UID: types.UID("uid-" + name), QoS: class, Grace: 30 * time.Second,
		Requests: Requests{Memory: request}, Usage: &Usage{At: noon, Memory: usage},
	}
}

func names(ranking []Ranked) []string {
	out := []string{}
	for i := range ranking {
		out = append(out, ranking[i].Pod.Name)
	}
	return out
}

func list(cpu, memory, disk string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, s := range map[corev1.ResourceName]string{"cpu": cpu, "memory": memory, "ephemeral-storage": disk} {
		if s != "" {
			out[name] = resource.MustParse(s)
		}
	}
	return out
}

func container(name string, requests, limits corev1.ResourceList) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}
}

func sidecarOf(name string, requests corev1.ResourceList) corev1.Container {
	c := container(name, requests, nil)
	c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	return c
}

func apiPod(containers ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod", UID: "uid"},
		Spec:       corev1.PodSpec{Containers: containers},
	}
}

func hard(s Signal, below string) Threshold {
	return Threshold{Signal: s, Below: Value{Quantity: resource.MustParse(below)}}
}

func soft(s Signal, below string, grace time.Duration) Threshold {
	t := hard(s, below)
	t.Grace = grace
	return t
}

// memoryNode is a node of 4 GiB with so much available.
func memoryNode(available int64, at time.Time) Node {
	return Node{
		Name: "node", Memory: 4 * gi,
		Readings: map[Signal]Reading{MemoryAvailable: {Available: available, Capacity: 4 * gi, At: at}},
	}
}

// text writes thresholds one a line.
func text(thresholds []Threshold) []string {
	out := []string{}
	for _, t := range thresholds {
		s := fmt.Sprintf("%s<%s", t.Signal, t.Below)
		if !t.Hard() {
			s += " for " + t.Grace.String()
		}
		if !t.MinReclaim.IsZero() {
			s += " +" + t.MinReclaim.String()
		}
		out = append(out, s)
	}
	return out
}
