package kubernetes

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"

	"usher.sh/usher/api/v1alpha1"
)

// A pod that is shown Ready on a node which is lost, or deleted, is no copy of anything: its kubelet says nothing of it any more.
func TestOthersAreOnNodesThatReport(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*simulated)
		want   []string
	}{
		"all report":              {func(*simulated) {}, []string{"web-b", "web-c"}},
		"one is cordoned":         {func(s *simulated) { s.nodes[s.pods[1].Node].Unschedulable = true }, []string{"web-b", "web-c"}},
		"one does not report":     {func(s *simulated) { s.nodes[s.pods[1].Node].Ready = false }, []string{"web-c"}},
		"the Node of one is gone": {func(s *simulated) { delete(s.nodes, s.pods[1].Node) }, []string{"web-c"}},
	} {
		s := lone(3).with(test.change)
		var members []system.Member
		for _, p := range s.pods {
			members = append(members, system.Member{MemberRef: v1alpha1.MemberRef{Role: "replica", ID: p.Name, PodName: p.Name, PodUID: p.UID, Node: p.Node}, Pod: p})
		}
		all, _ := limits{}.observed(snapshot.View{Cluster: s.view().Cluster, Now: s.now.Add(time.Hour)}, members)
		others, _ := all["web-a"]["others"].([]string)
		if slices.Sort(others); !slices.Equal(others, test.want) {
			t.Errorf("%s: %v, want %v", name, others, test.want)
		}
	}
}

// ofSet is a MemberSet whose groups a and b have a number of members, all Ready, on nodes of their own. a is to have replicas.
func ofSet(replicas int32, a, b int) *simulated {
	s := &simulated{now: began, nodes: map[string]*snapshot.Node{}}
	s.top = snapshot.Workload{Kind: "MemberSet", Group: v1alpha1.GroupVersion.Group, Namespace: "shop", Name: "kv", UID: "kv", Replicas: -1, Members: map[string]snapshot.SetMember{}}
	for group, n := range map[string]int{"a": a, "b": b} {
		for i := range n {
			name := group + string(rune('1'+i))
			s.nodes[name] = &snapshot.Node{Name: name, Ready: true}
			p := pod(name, name)
			p.Owner = snapshot.Owner{APIVersion: v1alpha1.GroupVersion.String(), Kind: "MemberSet", Name: "kv", UID: "kv"}
			s.pods = append(s.pods, p)
			s.top.Members[name] = snapshot.SetMember{Group: group, Replicas: replicas, Stays: true}
		}
	}
	slices.SortFunc(s.pods, func(a, b *snapshot.Pod) int { return strings.Compare(a.Name, b.Name) })
	return s
}

// goes has a1 be one that its set replaces or removes.
func goes(s *simulated) {
	s.top.Members["a1"] = snapshot.SetMember{Group: "a", Replicas: s.top.Members["a1"].Replicas}
}

func unready(name string) func(*simulated) {
	return func(s *simulated) {
		for _, p := range s.pods {
			if p.Name == name {
				p.Ready = false
			}
		}
	}
}

// A member of a MemberSet in the role replica is replaced and evicted by what its group has, as a pod of a StatefulSet is.
func TestReplicasOfAMemberSet(t *testing.T) {
	kind := Kind()
	roles, err := eviction.ParseRoles(kind.Roles)
	if err != nil {
		t.Fatal(err)
	}
	spec := v1alpha1.EvictionPolicySpec{
		System:  v1alpha1.System{Kubernetes: &v1alpha1.Kubernetes{}},
		Members: []v1alpha1.MemberSelector{{Role: "replica", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}},
	}
	policy, problems := eviction.Compile(&spec, roles, kind.Declaration(&spec.System))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for name, test := range map[string]struct {
		s       *simulated
		replace string // reasons by which a1 is not replaced
		evict   string // not evicted
	}{
		"three of three":                        {ofSet(3, 3, 0).with(goes), "", ""},
		"its successor has come":                {ofSet(3, 4, 0).with(goes), "", ""},
		"it is lost, and its successor is here": {ofSet(3, 4, 0).with(goes, unready("a1")), "", ""},
		"another is not ready":                  {ofSet(3, 3, 0).with(goes, unready("a2")), "OtherReplicaNotReady", "OtherReplicaNotReady"},
		"its successor is not ready":            {ofSet(3, 3, 0).with(goes, unready("a3")), "OtherReplicaNotReady", "OtherReplicaNotReady"},
		"another group is ready":                {ofSet(2, 2, 3).with(goes, unready("a2")), "OtherReplicaNotReady", "OtherReplicaNotReady"},
		"another group is not":                  {ofSet(2, 2, 1).with(goes, unready("b1")), "", ""},
		"the only one of its group":             {ofSet(1, 1, 3).with(goes), "OnlyReplica", ""},
		"the only one, and its successor":       {ofSet(1, 2, 0).with(goes), "", ""},
		"the second of one that is asked for, while the other is not ready": {ofSet(1, 2, 0).with(goes, unready("a2")), "OtherReplicaNotReady", "OtherReplicaNotReady"},
	} {
		t.Run(name, func(t *testing.T) {
			var members []system.Member
			for _, p := range test.s.pods {
				members = append(members, system.Member{MemberRef: v1alpha1.MemberRef{Role: "replica", ID: p.Name, PodName: p.Name, PodUID: p.UID, Node: p.Node}, Pod: p})
			}
			evidence, err := test.s.system().Observe(t.Context(), members)
			if err != nil {
				t.Fatal(err)
			}
			evidence.Observed = test.s.now
			in := eviction.Input{
				Now: test.s.now, Pod: test.s.pods[0], Fresh: true, Node: test.s.nodes["a1"], Peers: test.s.pods, Evidence: evidence,
				Policies: []eviction.Declared{{Key: snapshot.Key{Namespace: "shop", Name: "kv"}, Policy: policy, Status: &v1alpha1.EvictionPolicyStatus{}}},
			}
			if got := reasons(eviction.JudgeReplacing(in, "q")); got != test.replace {
				t.Errorf("it is not replaced by %q, want %q", got, test.replace)
			}
			if got := reasons(eviction.Judge(in)); got != test.evict {
				t.Errorf("it is not evicted by %q, want %q", got, test.evict)
			}
		})
	}
}
