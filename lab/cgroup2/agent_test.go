package cgroup2

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"usher.sh/usher/internal/agent"
	"usher.sh/usher/lab/kernel"
)

// together runs the agent on a node whose pods may use 200 MiB together, of which it wants 60 to be left, until during
// returns. It returns what the agent saw at start.
func (n *node) together(t *testing.T, k *kubelet, during func()) string {
	t.Helper()
	put(t, filepath.Join(n.folder, "memory.max"), strconv.Itoa(200*mib))
	config := agent.DefaultConfig()
	config.EvictionHard = map[string]string{"memory.available": "60Mi"}
	config.EvictionSoft, config.EvictionSoftGracePeriod = map[string]string{}, map[string]string{}
	config.KubeletDirectory = t.TempDir()
	var said bytes.Buffer
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		err := agent.Run(ctx, agent.Options{
			Node: "here", Config: config, CgroupRoot: n.root, MetricsAddress: "0",
			Client: k.apiserver.client(t), Cluster: k, Out: &said,
			Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		})
		if err != nil {
			t.Error(err)
		}
	})
	func() {
		defer running.Wait()
		defer stop()
		<-k.shown
		during()
	}()
	return said.String()
}

// TestAgentRelieves: the whole agent, on a node where one pod takes too much.
func TestAgentRelieves(t *testing.T) {
	t.Parallel()
	if !kernel.Inside(t) {
		return
	}
	inBoth(t, func(t *testing.T, n node) {
		small, big := n.tenant(t, 1, "small", "10"), n.tenant(t, 2, "big", "40")
		k := newKubelet(t, small, big)
		said := n.together(t, k, func() {
			big.worker.try(t, "take 90")
			if name := <-k.removed; name != "big" {
				t.Errorf("%s was removed", name)
			}
			small.worker.do(t, "take 1")
		})
		for _, want := range []string{
			"cgroup v2, pods in " + n.folder,
			"It is not woken by stalls of the machine (PSI): open /proc/pressure/memory: no such file or directory.",
			"It is woken by events of pods' memory (cgroup v2).",
			"It is not woken by levels of memory in use: cgroup v2 has none.",
			"Without the apiserver it can kill pods on the node.",
		} {
			if !strings.Contains(said, want) {
				t.Errorf("it did not say %q, but\n%s", want, said)
			}
		}
	})
}

// TestAgentRelievesAlone: the apiserver cannot be asked, and the node is short.
func TestAgentRelievesAlone(t *testing.T) {
	t.Parallel()
	if !kernel.Inside(t) {
		return
	}
	inBoth(t, func(t *testing.T, n node) {
		small, big := n.tenant(t, 1, "small", "10"), n.tenant(t, 2, "big", "40")
		k := newKubelet(t, small, big)
		n.together(t, k, func() {
			k.cutOff()
			big.worker.try(t, "take 90")
			_ = big.worker.Wait()
			small.worker.do(t, "take 1")
		})
	})
}
