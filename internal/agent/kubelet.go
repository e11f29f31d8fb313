package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"usher.sh/usher/internal/agent/machine"
	"usher.sh/usher/internal/nodepressure"
	"usher.sh/usher/internal/observe"
)

// kubeletThresholds finds out at what the kubelet acts, and says where that is from.
func kubeletThresholds(ctx context.Context, client kubernetes.Interface, m *machine.Machine, node string) (thresholds []nodepressure.Threshold, from string) {
	config, from := kubeletConfig(ctx, client, m.KubeletConfigFile(), node)
	thresholds, err := config.Thresholds()
	if err != nil {
		thresholds, _ = nodepressure.Default().Thresholds() // the defaults are right
		return thresholds, fmt.Sprintf("taken to be the defaults: %s are not understood: %v", from, err)
	}
	return thresholds, from
}

// kubeletConfig looks into the usual file first: asking the kubelet through the apiserver takes the right to proxy to nodes,
// which permits far more than to read its configuration.
func kubeletConfig(ctx context.Context, client kubernetes.Interface, file, node string) (nodepressure.Config, string) {
	config, err := readKubeletConfig(file)
	if err == nil {
		return config, "those of " + file
	}
	config, askErr := observe.ReadThresholds(ctx, client, node)
	if askErr == nil {
		return config, "those that it names itself"
	}
	if !errors.Is(err, fs.ErrNotExist) {
		askErr = errors.Join(err, askErr)
	}
	return nodepressure.Default(), fmt.Sprintf("taken to be the defaults: there is no %s, and the kubelet could not be asked (%v)", file, askErr)
}

func readKubeletConfig(file string) (nodepressure.Config, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nodepressure.Config{}, err
	}
	var config nodepressure.Config
	if err := yaml.Unmarshal(data, &config); err != nil {
		return nodepressure.Config{}, fmt.Errorf("reading %s: %w", file, err)
	}
	return config, nil
}

// fights says for which signals the kubelet, which honors no budget and no policy, acts before the agent or as soon.
func fights(node nodepressure.Node, ours, theirs []nodepressure.Threshold) []string {
	var all []string
	for _, t := range theirs {
		reading, ok := node.Readings[t.Signal]
		own := first(ours, t.Signal)
		if !ok || own == nil || t.Below.Of(reading.Capacity) < own.Below.Of(reading.Capacity) {
			continue
		}
		all = append(all, fmt.Sprintf("the kubelet evicts at %s<%s (%s), the agent at %s<%s (%s); raise the agent's threshold above the kubelet's, or lower the kubelet's.",
			t.Signal, t.Below, t.Kind(), own.Signal, own.Below, own.Kind()))
	}
	return all
}

// first returns the threshold of a signal that the agent keeps to whatever budgets say: the hard one, or its only one.
func first(thresholds []nodepressure.Threshold, signal nodepressure.Signal) *nodepressure.Threshold {
	var found *nodepressure.Threshold
	for i := range thresholds {
		if t := &thresholds[i]; t.Signal == signal && (found == nil || t.Hard()) {
			found = t
		}
	}
	return found
}
