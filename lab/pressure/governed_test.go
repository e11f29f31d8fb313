package pressure

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/realnode/join"
	"usher.sh/usher/lab/testlab"
)

// TestGovernedAtAHardThreshold has a node whose greediest pod is a member that its system cannot spare.
func TestGovernedAtAHardThreshold(t *testing.T) {
	l := testlab.Start(t)
	l.Managers(t, 1)
	s := storm{
		name: "governed", node: join.Options{Count: 1, Memory: resource.MustParse("600Mi")}, thresholds: hardMemory(200),
		pods: []resident{{name: "member", uses: 60}, {name: "other", uses: 40}},
	}
	st := s.settle(t, l, l.StartRealNodes(t, s.node)[0])
	st.await(t)
	c := policyClient(t, l)
	policy := unsparable(t, st, c)
	testlab.WaitFor(t, l.Pods(st.space), "member to be governed", func(all []*corev1.Pod) bool {
		return slices.ContainsFunc(all, func(p *corev1.Pod) bool { return p.Name == "member" && p.Labels[v1alpha1.PolicyLabel] != "" })
	})
	a := startAgent(t, l, st.node, s.thresholds)

	if err := send(t.Context(), st.pods["member"], "/memory?mib=440&rate=10"); err != nil {
		t.Errorf("member did not survive: %v", err)
	}
	refused := a.awaitEntry(t, "member to be refused", func(e entry) bool { return e.name() == "member" && e.Action == "Evict" && e.Answer != "" })
	if refused.Answer == "Accepted" {
		t.Fatalf("member was let go: %+v", refused)
	}
	t.Logf("refused: %s %s", refused.Answer, refused.Message)
	st.awaitGone(t, "other")
	held := a.awaitEntry(t, "the agent to report that no pod may go", func(e entry) bool {
		return strings.Contains(e.Msg, "no pod may go") || e.begun() && e.Reason == "LastResort"
	})
	if held.begun() {
		t.Fatalf("%+v, and its policy has not given member up", held)
	}
	t.Logf("held: %s", held.Msg)
	if got := names(a.acts()); got[0] != "other" {
		t.Errorf("asked to go: %v, want other, which no policy governs, first", got)
	}
	if dead := sorted(st.dead(st.list(t))); !slices.Equal(dead, []string{"other"}) {
		t.Errorf("%v went, want other alone", dead)
	}

	glass := st.watchGlass(t, "member") // from now on: it is broken and gone in less than a second
	given := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"add","path":"/spec/members/0/onNodePressure","value":"LastResort"}]`))
	if err := c.Patch(t.Context(), policy, given); err != nil {
		t.Fatal(err)
	}
	last := a.awaitEntry(t, "member to go as a last resort", func(e entry) bool { return e.name() == "member" && e.begun() && e.Action != "Evict" })
	if last.Reason != "LastResort" {
		t.Errorf("%+v, want the reason LastResort", last)
	}
	if !glass() {
		t.Error("member went without a word on it why its policy was not kept to")
	}
	a.stop(t)
}

// watchGlass watches a pod. What it returns waits until the pod is gone, and reports whether its glass was seen broken.
func (st *stage) watchGlass(t *testing.T, name string) (broken func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), showPatience)
	begun, ended := make(chan struct{}), make(chan error, 1)
	begin := sync.OnceFunc(func() { close(begun) })
	seen := false
	go func() {
		defer cancel()
		defer begin()
		ended <- await.Until(ctx, st.lab.Pods(st.space), func(all []*corev1.Pod) bool {
			begin()
			i := slices.IndexFunc(all, func(p *corev1.Pod) bool { return p.UID == st.pods[name].UID })
			seen = seen || i >= 0 && all[i].Annotations[v1alpha1.BreakGlassAnnotation] != ""
			return i < 0
		})
	}()
	<-begun
	return func() bool {
		t.Helper()
		if err := <-ended; err != nil {
			t.Fatalf("waiting for %s to be gone: %v", name, err)
		}
		return seen
	}
}

func policyClient(t *testing.T, l *testlab.Lab) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	config := l.RESTConfig()
	config.WarningHandler = rest.NoWarnings{}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// unsparable makes a policy over member that never lets it go.
func unsparable(t *testing.T, st *stage, c client.Client) *v1alpha1.EvictionPolicy {
	t.Helper()
	policy := &v1alpha1.EvictionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: st.space, Name: "db"},
		Spec: v1alpha1.EvictionPolicySpec{
			System:  v1alpha1.System{HTTP: &v1alpha1.HTTP{Access: v1alpha1.Access{Endpoints: []string{"http://127.0.0.1:1"}}}},
			Members: []v1alpha1.MemberSelector{{Role: "node", Selector: metav1.LabelSelector{MatchLabels: testlab.Labels("member")}}},
			Roles: []v1alpha1.Role{{
				Name: "node", System: "http", State: v1alpha1.StatePersistent, Identity: v1alpha1.IdentityUnique,
				Evict:   v1alpha1.Evict{Rules: []v1alpha1.Rule{{Name: "safe", Reason: "Unsafe", Expression: "false", Message: "not safe"}}},
				Replace: v1alpha1.Replace{Successor: v1alpha1.SuccessorNewIdentity},
			}},
		},
	}
	if err := c.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	return policy
}
