package realnode

import (
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"text/template"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/api/resource"

	"usher.sh/usher/lab/binaries"
	"usher.sh/usher/lab/image"
)

//go:embed files
var files embed.FS

var templates = template.Must(template.ParseFS(files, "files/*"))

// plan is all that the node's first process and the configuration files need to know.
type plan struct {
	Name              string
	Labels            map[string]string
	Taints            []taint
	Slot              Slot
	OwnNetwork        bool
	APIServer         string
	Kubeconfig        string
	ClientCA          string
	Programs          programs
	Logs              string
	KubeletConfig     string
	ContainerdConfig  string
	CNIConfig         string // folder
	Root              string // folder that holds the node's own of what is hidden
	Images            []string
	SandboxImage      string
	Reserved          string // memory, as a quantity; empty if none
	OwnDisk           bool
	PodPIDs           int64
	RestrictOOMScores bool
	Tools             tools
}

// programs are the paths of what the lab has built for nodes.
type programs struct {
	Kubelet, Containerd, Shim, Ctr string
}

func findPrograms(cache binaries.Cache) (programs, error) {
	var found programs
	for name, path := range map[string]*string{
		"kubelet":                 &found.Kubelet,
		"containerd":              &found.Containerd,
		"containerd-shim-runc-v2": &found.Shim,
		"ctr":                     &found.Ctr,
	} {
		var err error
		if *path, err = cache.Path(name); err != nil {
			return programs{}, err
		}
	}
	return found, nil
}

const planFile = "node.json"

func (n *Node) plan(tools tools, images []string) (plan, error) {
	programs, err := findPrograms(n.Cache)
	if err != nil {
		return plan{}, err
	}
	reserved, err := reserve(n.Memory)
	if err != nil {
		return plan{}, err
	}
	lower, err := mayLowerOOMScores()
	if err != nil {
		return plan{}, err
	}
	etc := filepath.Join(n.Dir, "etc")
	return plan{
		Name: n.Name, Labels: n.labels(), Taints: n.taints(), Slot: n.slot,
		OwnNetwork: n.OwnNetwork, APIServer: n.APIServer, Kubeconfig: n.Kubeconfig, ClientCA: n.ClientCA,
		Programs: programs, Logs: n.Processes,
		KubeletConfig:    filepath.Join(etc, "kubelet.yaml"),
		ContainerdConfig: filepath.Join(etc, "containerd.toml"),
		CNIConfig:        filepath.Join(etc, "cni"),
		Root:             n.Dir, Images: images, SandboxImage: image.Name,
		Reserved: reserved, OwnDisk: !n.Disk.Size.IsZero(), PodPIDs: n.PodPIDs, RestrictOOMScores: !lower, Tools: tools,
	}, nil
}

// taint is one that the kubelet registers its node with.
type taint struct{ Key, Effect string }

func (c Config) taints() []taint {
	if !c.Tainted {
		return nil
	}
	return []taint{{Key: Taint, Effect: "NoSchedule"}}
}

func (c Config) labels() map[string]string {
	labels := map[string]string{Label: LabelValue}
	maps.Copy(labels, c.Labels)
	return labels
}

// reserve returns what must be reserved of the machine's memory so that pods get no more than wanted.
func reserve(wanted resource.Quantity) (string, error) {
	if wanted.IsZero() {
		return "", nil
	}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return "", fmt.Errorf("reading the size of the machine's memory: %w", err)
	}
	rest := int64(info.Totalram)*int64(info.Unit) - wanted.Value()
	if rest < 0 {
		return "", fmt.Errorf("%s of memory for pods is more than the machine has", wanted.String())
	}
	return resource.NewQuantity(rest, resource.BinarySI).String(), nil
}

func (p plan) write(dir string) error {
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the node's plan: %w", err)
	}
	return os.WriteFile(filepath.Join(dir, planFile), data, 0o644)
}

func readPlan(dir string) (plan, error) {
	data, err := os.ReadFile(filepath.Join(dir, planFile))
	if err != nil {
		return plan{}, fmt.Errorf("reading the node's plan: %w", err)
	}
	var p plan
	if err := json.Unmarshal(data, &p); err != nil {
		return plan{}, fmt.Errorf("reading the node's plan: %w", err)
	}
	return p, nil
}
