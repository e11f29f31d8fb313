package governed

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/testlab"
)

// TestMemberSet has managers with exactly the rights that usher install --member-sets gives them run members of plain workloads.
func TestMemberSet(t *testing.T) {
	t.Parallel()
	h := emptyHouse(t, testlab.Start(t))
	h.managers = h.lab.Managers(t, 2)
	h.install(t, "--workloads")
	t.Run("says which right is missing", h.setSaysWhichRightIsMissing)
	h.install(t, "--workloads", "--member-sets")
	t.Run("takes the rights oneself", h.setIsRefused)
	t.Run("limits what the manager creates", h.setLimitsTheManager)
	t.Run("grows, replaces and shrinks", h.setGrowsReplacesAndShrinks)
	t.Run("replaces a replica", h.setReplacesAReplica)
	t.Run("says which quota is full", h.setSaysWhichQuotaIsFull)
	t.Run("says which claim is unbound", h.setSaysWhichClaimIsUnbound)
	t.Run("says whose pod it is", h.setSaysWhosePodItIs)
	t.Run("says which program is missing", h.setSaysWhichProgramIsMissing)
}

// memberSet makes a set of plain members of a role on nodes of its own, with room for as many again.
func (h *house) memberSet(t *testing.T, ns, role string, replicas int32) *v1alpha1.MemberSet {
	t.Helper()
	return h.memberSetOf(t, ns, "kv", role, replicas, func(*v1alpha1.MemberSetSpec) {})
}

// memberSetOf makes one of a name, whose spec with one group was changed.
func (h *house) memberSetOf(t *testing.T, ns, name, role string, replicas int32, change func(*v1alpha1.MemberSetSpec)) *v1alpha1.MemberSet {
	t.Helper()
	nodes := h.lab.Nodes(t, int(replicas)+3)
	template := fmt.Sprintf(`{"metadata":{"labels":{"app":"kv"}},"spec":{"containers":[{"name":"kv","image":"kv"}],"affinity":{
		"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[
			{"key":"kubernetes.io/hostname","operator":"In","values":["%s"]}]}]}},
		"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[
			{"topologyKey":"kubernetes.io/hostname","labelSelector":{"matchLabels":{"app":"kv"}}}]}}}}`, strings.Join(nodes, `","`))
	set := &v1alpha1.MemberSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec: v1alpha1.MemberSetSpec{
			System: v1alpha1.System{Kubernetes: &v1alpha1.Kubernetes{}},
			Groups: []v1alpha1.MemberGroup{{Name: "server", Role: role, Replicas: &replicas, Template: runtime.RawExtension{Raw: []byte(template)}}},
		},
	}
	change(&set.Spec)
	must(t, h.client.Create(t.Context(), set))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		policy := &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: set.Name}}
		_ = h.client.Delete(ctx, set)
		release(t, h.lab, h.client, policy)
	})
	return set
}

// letEnd has simulated kubelets end what terminates in a namespace, which are users like others to admission: pods that terminate have their glass broken.
func (h *house) letEnd(t *testing.T, ns string) {
	t.Helper()
	pods := h.lab.Client().CoreV1().Pods(ns)
	events, err := pods.Watch(t.Context(), metav1.ListOptions{TimeoutSeconds: new(int64(3600))})
	must(t, err)
	t.Cleanup(events.Stop)
	go func() {
		for event := range events.ResultChan() {
			pod, is := event.Object.(*corev1.Pod)
			if !is || pod.DeletionTimestamp == nil || pod.Annotations[v1alpha1.BreakGlassAnnotation] != "" {
				continue
			}
			glass := []byte(`{"metadata":{"annotations":{"` + v1alpha1.BreakGlassAnnotation + `":"its kubelet is simulated"}}}`)
			_, _ = pods.Patch(t.Context(), pod.Name, types.MergePatchType, glass, metav1.PatchOptions{}) // it may be gone
		}
	}()
}

// waitSet waits until a set is as it should be.
func (h *house) waitSet(t *testing.T, ns, what string, done func(*v1alpha1.MemberSet) bool) *v1alpha1.MemberSet {
	t.Helper()
	var found *v1alpha1.MemberSet
	defer func() {
		if t.Failed() && found != nil {
			t.Logf("the set's status is %+v", found.Status)
		}
	}()
	source := await.Source[*v1alpha1.MemberSet]{Client: h.policies, Resource: "membersets", Namespace: ns}
	testlab.WaitFor(t, source, what, func(all []*v1alpha1.MemberSet) bool {
		for _, set := range all {
			found = set
			return done(set)
		}
		return false
	})
	return found
}

func (h *house) waitSetReady(t *testing.T, ns string, members int) *v1alpha1.MemberSet {
	t.Helper()
	return h.waitSet(t, ns, fmt.Sprintf("the set to be Ready with %d members", members), func(s *v1alpha1.MemberSet) bool {
		ready := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady)
		return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == s.Generation && int(s.Status.MemberCount) == members
	})
}

func setIDs(set *v1alpha1.MemberSet) []string {
	var ids []string
	for i := range set.Status.Members {
		ids = append(ids, set.Status.Members[i].ID)
	}
	return ids
}

func (h *house) setSaysWhichRightIsMissing(t *testing.T) {
	ns := h.lab.Namespace(t)
	set := h.memberSet(t, ns, "workload", 1)
	h.waitSet(t, ns, "the set to say which right is missing", func(s *v1alpha1.MemberSet) bool {
		return slices.ContainsFunc(s.Status.Blockers, func(b v1alpha1.ReplacementBlocker) bool {
			return strings.Contains(b.Message, "cannot create resource") && strings.Contains(b.Remedy, "usher install --member-sets")
		})
	})
	must(t, h.client.Delete(t.Context(), set))
}

// setIsRefused: who may not create pods has no set create them.
func (h *house) setIsRefused(t *testing.T) {
	ns := h.lab.Namespace(t)
	config, _ := h.lab.As(t, []rbacv1.PolicyRule{{APIGroups: []string{"usher.sh"}, Resources: []string{"membersets"}, Verbs: []string{"create"}}})
	tenant, err := client.New(config, client.Options{Scheme: h.client.Scheme()})
	must(t, err)
	set := &v1alpha1.MemberSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "kv"},
		Spec: v1alpha1.MemberSetSpec{
			System: v1alpha1.System{Kubernetes: &v1alpha1.Kubernetes{}},
			Groups: []v1alpha1.MemberGroup{{Name: "server", Role: "workload", Replicas: new(int32), Template: runtime.RawExtension{Raw: []byte(`{}`)}}},
		},
	}
	for _, name := range []string{"kv.prod", "2kv"} { // its Services could not be made
		named := set.DeepCopy()
		named.Name = name
		if err := h.client.Create(t.Context(), named, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "a name begins with a letter") {
			t.Errorf("%s: %v", name, err)
		}
	}
	eventually(t, "a tenant that may not create pods to be refused", func() bool {
		err := tenant.Create(t.Context(), set.DeepCopy())
		if err == nil { // the policy takes effect a moment later
			must(t, h.client.Delete(t.Context(), set.DeepCopy()))
		}
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "a MemberSet has Usher create and delete pods")
	})
}

// setLimitsTheManager: with a token of the manager no pod can be created that is of no MemberSet.
func (h *house) setLimitsTheManager(t *testing.T) {
	ns := h.lab.Namespace(t)
	config := h.lab.RESTConfig()
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:usher-system:usher-manager"}
	manager, err := client.New(config, client.Options{Scheme: h.client.Scheme()})
	must(t, err)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "thief"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}}
	denied(t, "a pod of nothing", "for a member of a MemberSet only", func(t *testing.T) error {
		t.Helper()
		return manager.Create(t.Context(), pod.DeepCopy(), client.DryRunAll)
	})
	pod.Labels = map[string]string{v1alpha1.MemberSetLabel: "kv"}
	denied(t, "a pod that no set controls", "that a MemberSet controls only", func(t *testing.T) error {
		t.Helper()
		return manager.Create(t.Context(), pod.DeepCopy(), client.DryRunAll)
	})
}

// setGrowsReplacesAndShrinks goes once through what a set does, with its leader killed in between.
func (h *house) setGrowsReplacesAndShrinks(t *testing.T) {
	ns := h.lab.Namespace(t)
	h.letEnd(t, ns)
	h.memberSet(t, ns, "workload", 3)
	set := h.waitSetReady(t, ns, 3)
	h.waitLabelled(t, ns, "kv", 3)

	lost := set.Status.Members[0]
	q := h.requestOperated(t, &operated{role: "workload", id: lost.ID}, ns, "kv", "first")
	h.waitReplacement(t, ns, q.Name, "the member to be replaced", isReplaced)
	set = h.waitSetReady(t, ns, 3)
	if slices.Contains(setIDs(set), lost.ID) {
		t.Errorf("%s is replaced, and the members are %v", lost.ID, setIDs(set))
	}
	at := slices.IndexFunc(set.Status.Members, func(m v1alpha1.SetMember) bool { return m.ID == "kv-server-4" })
	if at < 0 || set.Status.Members[at].Node == lost.Node {
		t.Errorf("of %s on %s the successors are %+v", lost.ID, lost.Node, set.Status.Members)
	}

	h.scaleSet(t, set, 4)
	set = h.waitSetReady(t, ns, 4)
	h.managers.Kill(t, 0)
	h.scaleSet(t, set, 3)
	set = h.waitSetReady(t, ns, 3)
	h.managers.Start(t, 0)
	if pods := h.lab.WaitReady(t, ns, map[string]string{"app": "kv"}, 3); len(pods) != 3 {
		t.Errorf("%d pods", len(pods))
	}
	id := setIDs(set)[0]
	pod, err := h.lab.Client().CoreV1().Pods(ns).Get(t.Context(), id, metav1.GetOptions{})
	must(t, err)
	must(t, h.lab.Client().CoreV1().Pods(ns).Delete(t.Context(), id, metav1.DeleteOptions{}))
	testlab.WaitFor(t, h.lab.Pods(ns), "a pod that was deleted to be made anew under its name", func(all []*corev1.Pod) bool {
		return slices.ContainsFunc(all, func(p *corev1.Pod) bool { return p.Name == id && p.UID != pod.UID })
	})
	h.waitSetReady(t, ns, 3)

	policy := &v1alpha1.EvictionPolicy{}
	must(t, h.client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "kv"}, policy))
	policy.Spec.Evidence.MaxAge = metav1.Duration{Duration: 30 * time.Second}
	must(t, h.client.Update(t.Context(), policy))
	h.waitPolicy(t, ns, "kv", "what was changed in the policy to be reverted", func(p *v1alpha1.EvictionPolicy) bool {
		return p.Spec.Evidence.MaxAge.Duration == 10*time.Second
	})
}

// setReplacesAReplica replaces a member whose data the others have, by what its role's rules say of the others of its group.
func (h *house) setReplacesAReplica(t *testing.T) {
	ns := h.lab.Namespace(t)
	h.letEnd(t, ns)
	h.memberSet(t, ns, "replica", 2)
	set := h.waitSetReady(t, ns, 2)
	h.waitLabelled(t, ns, "kv", 2)
	id := set.Status.Members[0].ID
	q := h.requestOperated(t, &operated{role: "replica", id: id}, ns, "kv", "first")
	h.waitReplacement(t, ns, q.Name, "the replica to be replaced", isReplaced)
	if set = h.waitSetReady(t, ns, 2); slices.Contains(setIDs(set), id) {
		t.Errorf("%s is replaced, and the members are %v", id, setIDs(set))
	}
}

func (h *house) scaleSet(t *testing.T, set *v1alpha1.MemberSet, replicas int32) {
	t.Helper()
	patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/groups/0/replicas","value":%d}]`, replicas)
	h.kubectl(t, "patch", "memberset", set.Name, "-n", set.Namespace, "--type=json", "-p", patch).succeed(t)
}
