package kubernetes

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
)

// judged is the verdict on a pod by the built-in role, while others are on their way.
func judged(t *testing.T, s *simulated, name string, leaving ...string) eviction.Verdict {
	t.Helper()
	kind := Kind()
	roles, err := eviction.ParseRoles(kind.Roles)
	if err != nil {
		t.Fatal(err)
	}
	spec := v1alpha1.EvictionPolicySpec{
		System:  v1alpha1.System{Kubernetes: &v1alpha1.Kubernetes{}},
		Members: []v1alpha1.MemberSelector{{Role: "workload", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}},
	}
	policy, problems := eviction.Compile(&spec, roles, kind.Declaration(&spec.System))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var members []system.Member
	status := &v1alpha1.EvictionPolicyStatus{}
	var subject *snapshot.Pod
	for _, p := range s.pods {
		ref := v1alpha1.MemberRef{Role: "workload", ID: p.Name, PodName: p.Name, PodUID: p.UID, Node: p.Node}
		members = append(members, system.Member{MemberRef: ref, Pod: p})
		if slices.Contains(leaving, p.Name) {
			status.Leaving = append(status.Leaving, v1alpha1.Leaving{MemberRef: ref, StartTime: metav1.NewTime(s.now)})
		}
		if p.Name == name {
			subject = p
		}
	}
	evidence, err := s.system().Observe(t.Context(), members)
	if err != nil {
		t.Fatal(err)
	}
	evidence.Observed = s.now
	return eviction.Judge(eviction.Input{
		Now: s.now, Pod: subject, Fresh: true, Node: s.nodes[subject.Node], Peers: s.pods, Evidence: evidence,
		Policies: []eviction.Declared{{Key: snapshot.Key{Namespace: "shop", Name: "plain"}, Policy: policy, Status: status}},
	})
}

func reasons(v eviction.Verdict) string {
	var all []string
	for _, b := range v.Blockers {
		all = append(all, b.Reason)
	}
	return strings.Join(all, " ")
}

func surgedTo(to int32, more ...*snapshot.Pod) func(*simulated) {
	return func(s *simulated) {
		s.top.Surge = &snapshot.SurgeRecord{Drainer: self(began), Was: s.top.Replicas, To: to, Since: began, Step: began}
		s.top.Replicas = to
		s.pods = append(s.pods, more...)
		s.nodes["z"] = &snapshot.Node{Name: "z", Ready: true}
	}
}

func TestWhenAReplicaMayLeave(t *testing.T) {
	unready := func(s *simulated) { s.pods[0].Ready = false }
	late := func(s *simulated) { s.now = began.Add(surgePatience) }
	cordonAll := func(s *simulated) {
		for _, n := range s.nodes {
			n.Unschedulable = true
		}
	}
	cases := map[string]struct {
		s       *simulated
		leaving []string
		want    string // reasons
		surges  bool
		says    string
	}{
		"two of three stay":                            {lone(3).with(minAvailable("2")), nil, "", false, ""},
		"the only one, without a budget":               {lone(1), nil, "OnlyReadyReplica", true, "Deployment web is scaled up"},
		"the only one, under a budget":                 {lone(1).with(minAvailable("1")), nil, "BudgetExhausted OnlyReadyReplica", true, ""},
		"a budget that never allows":                   {lone(3).with(minAvailable("3")), nil, "BudgetExhausted", true, ""},
		"a budget that another pod has used up":        {lone(3).with(minAvailable("2"), func(s *simulated) { s.pods[2].Ready = false }), nil, "BudgetExhausted", false, "2 pods healthy, 2 must be"},
		"no number of replicas helps":                  {lone(2).with(maxUnavailable("0")), nil, "BudgetExhausted SurgeImpossible", false, "set maxUnavailable: 1"},
		"it is not ready":                              {lone(1).with(unready), nil, "", false, ""},
		"the other one is on its way":                  {lone(2), []string{"web-b"}, "OnlyReadyReplica", true, ""},
		"all others are on nodes that drain":           {lone(2).with(cordonAll), nil, "OnlyReadyReplica", true, ""},
		"the surge has a ready replica":                {lone(1).with(minAvailable("1"), surgedTo(2, pod("web-z", "z"))), nil, "", false, ""},
		"the surge waits for a node":                   {lone(1).with(minAvailable("1"), surgedTo(2, pending("web-z"))), nil, "BudgetExhausted OnlyReadyReplica ReplacementPending", true, "0/1 nodes are available"},
		"the same for long, a budget needs it":         {lone(1).with(minAvailable("1"), surgedTo(2, pending("web-z")), late), nil, "BudgetExhausted OnlyReadyReplica ReplacementPending", true, "0/1 nodes are available"},
		"the same for long, none does":                 {lone(1).with(surgedTo(2, pending("web-z")), late), nil, "", false, ""},
		"the same for long, it holds the budget":       {lone(1).with(maxUnavailable("1"), surgedTo(2, pending("web-z")), late), nil, "BudgetExhausted", true, ""},
		"an autoscaler at its maximum, under a budget": {lone(1).with(minAvailable("1"), scaledTo(1, 1)), nil, "BudgetExhausted SurgeImpossible", false, "raise maxReplicas of autoscaler web to 2"},
		"an autoscaler at its maximum, without":        {lone(1).with(scaledTo(1, 1)), nil, "", false, ""},
		"a rollout under way":                          {lone(1).with(func(s *simulated) { s.top.Settled = false }), nil, "OnlyReadyReplica", false, "a rollout of Deployment web is under way"},
		"a rollout that is stuck, under a budget":      {lone(1).with(minAvailable("1"), func(s *simulated) { s.top.RolloutStuck = "its rollout is paused" }), nil, "BudgetExhausted SurgeImpossible", false, "is stuck"},
		"a disk that one pod can mount, without":       {lone(1).with(func(s *simulated) { s.pods[0].Claims = []string{"data"} }), nil, "", false, ""},
		"more are ready than are wanted":               {lone(3).with(cordonAll, func(s *simulated) { s.top.Replicas = 2 }), nil, "", false, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			v := judged(t, c.s, "web-a", c.leaving...)
			if got := reasons(v); got != c.want {
				t.Errorf("blocked by %q, want %q\n%+v", got, c.want, v.Blockers)
			}
			if got := len(v.Needed) > 0; got != c.surges {
				t.Errorf("surges %t, want %t", got, c.surges)
			}
			said := ""
			for _, b := range v.Blockers {
				said += b.Message + " " + b.Remedy + "\n"
			}
			if !strings.Contains(said, c.says) {
				t.Errorf("it says\n%s\nwant %q", said, c.says)
			}
		})
	}
}

// A pod of which nothing can start another goes when its budgets allow it.
func TestABarePod(t *testing.T) {
	s := lone(1)
	s.pods[0].Owner = snapshot.Owner{}
	if got := reasons(judged(t, s, "web-a")); got != "" {
		t.Errorf("blocked by %s", got)
	}
	s.with(minAvailable("1"))
	if got := reasons(judged(t, s, "web-a")); got != "BudgetExhausted" {
		t.Errorf("under a budget blocked by %s", got)
	}
}

// What is said of a surge is news only when something happens.
func TestFactsDoNotAge(t *testing.T) {
	s := lone(1).with(minAvailable("1"), surgedTo(2, pending("web-z")))
	before := judged(t, s, "web-a")
	s.now = s.now.Add(time.Minute)
	after := judged(t, s, "web-a")
	for i := range before.Blockers {
		if before.Blockers[i].Message != after.Blockers[i].Message {
			t.Errorf("%q became %q", before.Blockers[i].Message, after.Blockers[i].Message)
		}
	}
}
