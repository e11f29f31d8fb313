package cgroup2

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// patience is many times what a node takes for anything here.
const patience = 5 * time.Minute

// until asks again until the answer is yes.
func until(t *testing.T, what string, yes func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ticks := time.NewTicker(200 * time.Millisecond)
	defer ticks.Stop()
	began := time.Now()
	defer func() { t.Logf("waited %s for %s", time.Since(began).Round(time.Millisecond), what) }()
	for !yes() {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v", what, ctx.Err())
		}
	}
}

// ask reads what the kubelet says, which may not listen yet.
func ask(t *testing.T, path string, into any) error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:10255"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the kubelet says %s", answer.Status)
	}
	return json.NewDecoder(answer.Body).Decode(into)
}

// awaitContainer waits until the kubelet says of the pod's container what is wanted.
func awaitContainer(t *testing.T, what string, wanted func(corev1.ContainerStatus) bool) (pod *corev1.Pod, id string) {
	t.Helper()
	until(t, what, func() bool {
		var all corev1.PodList
		if err := ask(t, "/pods", &all); err != nil || len(all.Items) != 1 || len(all.Items[0].Status.ContainerStatuses) != 1 {
			return false
		}
		pod = &all.Items[0]
		id = pod.Status.ContainerStatuses[0].ContainerID
		return wanted(pod.Status.ContainerStatuses[0])
	})
	return pod, id
}

// awaitStats waits until the kubelet has measured the pod since then.
func awaitStats(t *testing.T, since time.Time) (working uint64) {
	t.Helper()
	until(t, "the kubelet to measure the pod", func() bool {
		var summary stats.Summary
		if err := ask(t, "/stats/summary?only_cpu_and_memory=true", &summary); err != nil || len(summary.Pods) != 1 {
			return false
		}
		memory := summary.Pods[0].Memory
		if memory == nil || memory.WorkingSetBytes == nil || !memory.Time.After(since) {
			return false
		}
		working = *memory.WorkingSetBytes
		return working > 0
	})
	return working
}

// tookMemory reports whether the pod has taken its memory: it answers to that when it has, and to other things before.
func tookMemory(t *testing.T) bool {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:8080/memory?mib="+takes, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}
