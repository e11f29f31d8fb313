package snapshot

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"usher.sh/usher/api/v1alpha1"
)

// A pod stays by any entry that selects it, and by none that cannot be used.
func TestLoads(t *testing.T) {
	long := strings.Repeat("p", 70)
	entry := func(role string, load bool) PolicyMember {
		return PolicyMember{Role: role, Selector: labels.SelectorFromSet(labels.Set{"role": role}), Load: load}
	}
	of := func(name string, unread bool, members ...PolicyMember) *Policy {
		return &Policy{Namespace: "shop", Name: name, Members: members, LoadUnread: unread}
	}
	for name, c := range map[string]struct {
		label    string
		policies []*Policy
		loads    bool
		unread   string
	}{
		"by one":                       {"a", []*Policy{of("a", false, entry("vm", true))}, true, ""},
		"by no label":                  {"", []*Policy{of("a", false, entry("vm", true))}, false, ""},
		"of another role":              {"a", []*Policy{of("a", false, entry("db", true))}, false, ""},
		"it leaves":                    {"a", []*Policy{of("a", false, entry("vm", false))}, false, ""},
		"by one of two policies":       {"b", []*Policy{of("a", false, entry("vm", true)), of("b", false, entry("vm", false))}, true, ""},
		"by one of two entries":        {"a", []*Policy{of("a", false, entry("vm", false), entry("vm", true))}, true, ""},
		"its policy is not understood": {"a", []*Policy{of("a", true)}, false, "a"},
		"… and has a long name":        {long[:63], []*Policy{of(long, true)}, false, long},
		"another is not":               {"a", []*Policy{of("b", true)}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := NewCluster()
			for _, p := range c.policies {
				cluster.SetPolicy(p)
			}
			pod := &Pod{Namespace: "shop", Name: "p", Labels: map[string]string{"role": "vm"}}
			if c.label != "" {
				pod.Labels[v1alpha1.PolicyLabel] = c.label
			}
			if got := cluster.Loads(pod); got != c.loads {
				t.Errorf("it stays: %v", got)
			}
			unread := ""
			if policy := cluster.LoadUnread(pod); policy != nil {
				unread = policy.Name
			}
			if unread != c.unread {
				t.Errorf("not understood is %q", unread)
			}
		})
	}
}
