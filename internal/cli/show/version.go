package show

import (
	"encoding/json"
	"fmt"
)

// Version is what this program is, and what runs in the cluster.
type Version struct {
	Version  string   `json:"version"`
	Commit   string   `json:"commit,omitempty"` // "" where the build does not say
	Modified bool     `json:"modified,omitempty"`
	Go       string   `json:"go"`
	Platform string   `json:"platform"`
	Manager  *Manager `json:"manager,omitempty"` // nil: see Unknown
	Unknown  string   `json:"managerUnknown,omitempty"`
}

// Manager is Usher's manager as its Deployment describes it.
type Manager struct {
	Namespace string `json:"namespace"`
	Image     string `json:"image"`
	Replicas  int32  `json:"replicas"`
	Updated   int32  `json:"updated"` // replicas that run this image
	Ready     int32  `json:"ready"`
}

// Lines is the page for people. Its first line is what --version prints.
func (v Version) Lines(int, Paint) []string {
	lines := []string{"usher " + v.Version}
	if v.Commit != "" {
		commit := v.Commit
		if v.Modified {
			commit += ", with changes"
		}
		lines = append(lines, Item("  commit", commit, 0)...)
	}
	lines = append(lines, Item("  go", v.Go+" "+v.Platform, 0)...)
	manager := clean(v.Unknown)
	if m := v.Manager; m != nil {
		manager = fmt.Sprintf("%s in namespace %s, %d of %d ready", clean(m.Image), m.Namespace, m.Ready, m.Replicas)
		if m.Updated < m.Replicas {
			manager += fmt.Sprintf(", %d of them still of another image", m.Replicas-m.Updated)
		}
	}
	if manager != "" {
		lines = append(lines, Item("  manager", manager, 0)...)
	}
	return lines
}

// JSON is the page for programs.
func (v Version) JSON() ([]byte, error) { return json.MarshalIndent(v, "", "  ") }
