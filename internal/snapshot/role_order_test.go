package snapshot

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// A role waits for another one where both are on a node, by one policy, and nothing else is in the order.
func TestRoleOrders(t *testing.T) {
	entry := func(role string, after ...string) PolicyMember {
		return PolicyMember{Role: role, Selector: labels.SelectorFromSet(labels.Set{"role": role}), LeavesAfter: after, Load: role == "vm"}
	}
	cloud := []PolicyMember{entry("vm"), entry("l3"), entry("l2", "vm", "l3"), entry("ovs", "l2"), entry("api")}
	for name, c := range map[string]struct {
		members []PolicyMember
		pods    string // ROLE/NODE
		nodes   string
		want    []string
	}{
		"no policy":                    {nil, "vm/n1 l2/n1", "n1", nil},
		"no pod":                       {cloud, "", "n1", nil},
		"nothing to wait for":          {cloud, "l2/n1 api/n1", "n1", nil},
		"all":                          {cloud, "ovs/n1 l2/n1 l3/n1 vm/n1 api/n1", "n1", []string{"l2 after [l3 vm]: n1-l2", "l3 after []: n1-l3", "ovs after [l2]: n1-ovs", "vm after []: n1-vm, stays"}},
		"one between two is not there": {cloud, "ovs/n1 vm/n1", "n1", nil},
		"on two nodes":                 {cloud, "l2/n1 vm/n1 l2/n2 vm/n2 vm/n3", "n2 n1", []string{"l2 after [vm]: n1-l2 n2-l2", "vm after []: n1-vm n2-vm, stays"}},
		"each on another node":         {cloud, "l2/n1 vm/n2", "n1 n2", nil},
		"another node has both":        {cloud, "l2/n1 vm/n1 l2/n2", "n2", nil},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := NewCluster()
			cluster.SetPolicy(&Policy{Namespace: "cloud", Name: "nova", Members: c.members})
			for at := range strings.FieldsSeq(c.pods) {
				role, node, _ := strings.Cut(at, "/")
				cluster.SetPod(&Pod{Namespace: "cloud", Name: node + "-" + role, UID: types.UID(at), Node: node, Labels: map[string]string{"role": role}})
			}
			cluster.SetPod(&Pod{Namespace: "elsewhere", Name: "n1-vm", UID: "other", Node: "n1", Labels: map[string]string{"role": "vm"}})
			cluster.SetPod(&Pod{Namespace: "cloud", Name: "ended", UID: "ended", Node: "n1", Labels: map[string]string{"role": "vm"}, Phase: "Succeeded"})
			var got []string
			for _, order := range cluster.RoleOrders(strings.Fields(c.nodes)) {
				for _, r := range order.Roles {
					var pods []string
					for _, p := range r.Pods {
						pods = append(pods, p.Name)
					}
					words := fmt.Sprintf("%s after %v: %s", r.Role, r.After, strings.Join(pods, " "))
					if r.Load {
						words += ", stays"
					}
					got = append(got, words)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
