package agent

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"usher.sh/usher/internal/text"

	"sigs.k8s.io/yaml"

	"usher.sh/usher/internal/nodepressure"
)

// Config is what the file of --config holds: the eviction fields of KubeletConfiguration, under their own names, and
// little else.
type Config struct {
	nodepressure.Config `json:",inline"`

	// Order is the one in which pods go: qos (the default) or kubelet.
	Order nodepressure.Order `json:"order,omitempty"`
	// HostRoot is where the host's files are seen. Default "/".
	HostRoot string `json:"hostRoot,omitempty"`
	// KubeletDirectory is the kubelet's --root-dir on the host. Default /var/lib/kubelet.
	KubeletDirectory string `json:"kubeletDirectory,omitempty"`
}

// DefaultConfig is what an agent without a configuration has.
func DefaultConfig() Config { return Config{}.withDefaults() }

// imagesFirst is a little more than the time in which every kubelet once looks whether to remove images, which it does from
// 15 % of free disk on.
const imagesFirst = "6m"

// withDefaults completes a configuration with thresholds above a kubelet's defaults, so that the agent is the first to act. It
// sets none of imagefs: the kubelet's are where it removes unused images, and a pod that is evicted before is evicted in vain.
func (c Config) withDefaults() Config {
	if c.EvictionHard == nil {
		c.EvictionHard = map[string]string{
			string(nodepressure.MemoryAvailable):  "250Mi",
			string(nodepressure.NodeFsAvailable):  "12%",
			string(nodepressure.NodeFsInodesFree): "6%",
			string(nodepressure.PIDAvailable):     "5%",
		}
	}
	if c.EvictionSoft == nil {
		c.EvictionSoft = map[string]string{
			string(nodepressure.MemoryAvailable):            "500Mi",
			string(nodepressure.AllocatableMemoryAvailable): "500Mi",
			string(nodepressure.NodeFsAvailable):            "14%",
			string(nodepressure.PIDAvailable):               "10%",
		}
		c.EvictionSoftGracePeriod = map[string]string{
			string(nodepressure.MemoryAvailable):            "30s",
			string(nodepressure.AllocatableMemoryAvailable): "30s",
			string(nodepressure.NodeFsAvailable):            imagesFirst,
			string(nodepressure.PIDAvailable):               "30s",
		}
	}
	if c.EvictionMaxPodGracePeriod == 0 {
		c.EvictionMaxPodGracePeriod = -1 // a pod that leaves early gets its own grace
	}
	if c.Order == "" {
		c.Order = nodepressure.OrderQoS
	}
	return c
}

// ConfigFile is where the configuration is looked for unless a file is named.
const ConfigFile = "/etc/usher/agent.yaml"

// LoadConfig reads a file; "": ConfigFile, if that is there. What it does not name is as in DefaultConfig; a name that is
// not known is an error.
func LoadConfig(name string) (Config, error) {
	var c Config
	data, err := os.ReadFile(cmp.Or(name, ConfigFile))
	if err != nil && (name != "" || !errors.Is(err, fs.ErrNotExist)) {
		return Config{}, fmt.Errorf("reading the agent's configuration: %w", err)
	}
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return Config{}, fmt.Errorf("reading the agent's configuration %s: %w", cmp.Or(name, ConfigFile), err)
	}
	c = c.withDefaults()
	if wrong := c.Validate(); len(wrong) > 0 {
		return Config{}, fmt.Errorf("the agent's configuration: %w", wrong.ToAggregate())
	}
	if !slices.Contains(nodepressure.Orders(), c.Order) {
		return Config{}, fmt.Errorf("the agent's configuration: order is %q; it can be %s", c.Order, text.Join(nodepressure.Orders(), " or "))
	}
	return c, nil
}
