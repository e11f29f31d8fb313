package governed

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/testlab"
)

// Managers with exactly the rights that usher install --replacement gives them, and those to read workloads.
func TestReplacement(t *testing.T) {
	t.Parallel()
	h := emptyHouse(t, testlab.Start(t))
	h.managers = h.lab.Managers(t, 2)
	h.install(t, "--workloads")
	t.Run("says which right is missing", h.replacementSaysWhichRightIsMissing)
	h.install(t, "--workloads", "--replacement")
	t.Run("outlives its leader", h.replacementOutlivesItsLeader)
	t.Run("is refused", h.replacementIsRefused)
	t.Run("data is given up by who says so", h.dataIsGivenUpByWhoSaysSo)
	t.Run("by repair takes the rights oneself", h.repairIsRefused)
	t.Run("beside each other", func(t *testing.T) { // most of the time they wait
		t.Run("makes a successor elsewhere", h.replacementMakesASuccessor)
		t.Run("asks its system by steps", h.replacementAsksItsSystem)
		t.Run("waits and is cancelled", h.replacementIsCancelled)
		t.Run("removes no copy of two", h.replacementRemovesNoCopyOfTwo)
		t.Run("its data is given up", h.replacementGivesUpData)
		t.Run("is made by repair", h.replacementIsMadeByRepair)
		t.Run("is made once where a person withdraws it", h.repairHeedsACancellation)
		t.Run("by an operator", h.replacementByOperators)
		t.Run("deletes the pod", h.replacementDeletesThePod)
	})
	h.install(t, "--workloads", "--replacement", "--maintenance")
	t.Run("is made by a maintenance", h.replacementIsMadeByMaintenance)
}

// local is a StatefulSet of three with a volume each on the node that it runs on, and a node and a volume that nothing uses.
type local struct {
	ns    string
	pods  []*corev1.Pod
	spare string // the node
}

func (h *house) local(t *testing.T, set string) *local {
	t.Helper()
	l := &local{ns: h.lab.Namespace(t)}
	nodes := h.lab.Nodes(t, 4)
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: l.ns}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	must(t, h.client.Create(t.Context(), class))
	t.Cleanup(func() { _ = h.client.Delete(context.WithoutCancel(t.Context()), class) })
	for _, node := range nodes {
		h.localVolume(t, class.Name, node)
	}
	h.lab.StatefulSet(t, l.ns, set, 3, func(s *appsv1.StatefulSet) {
		claim := testlab.Claim("data")
		claim.Spec.StorageClassName = new(class.Name)
		s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{*claim}
		s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
		s.Spec.Template.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				LabelSelector: &metav1.LabelSelector{MatchLabels: testlab.Labels(set)}, TopologyKey: corev1.LabelHostname,
			}},
		}}
	})
	l.pods = h.lab.WaitReady(t, l.ns, testlab.Labels(set), 3)
	slices.SortFunc(l.pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	at := slices.IndexFunc(nodes, func(node string) bool {
		return !slices.ContainsFunc(l.pods, func(p *corev1.Pod) bool { return p.Spec.NodeName == node })
	})
	l.spare = nodes[at]
	return l
}

// localVolume makes a volume on a node, which would be deleted with its claim.
func (h *house) localVolume(t *testing.T, class, node string) {
	t.Helper()
	name := class + "-" + node
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: class,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/mnt/" + name}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}}},
		},
	}
	must(t, h.client.Create(t.Context(), pv))
	t.Cleanup(func() { _ = h.client.Delete(context.WithoutCancel(t.Context()), pv) })
}

// governReplicas makes a policy over a StatefulSet whose members are replaced.
func (h *house) governReplicas(t *testing.T, ns, set string, change ...func(*v1alpha1.EvictionPolicySpec)) {
	t.Helper()
	policy := &v1alpha1.EvictionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: set},
		Spec: v1alpha1.EvictionPolicySpec{
			System: v1alpha1.System{Kubernetes: &v1alpha1.Kubernetes{}},
			Members: []v1alpha1.MemberSelector{{
				Role: "replica", Selector: metav1.LabelSelector{MatchLabels: testlab.Labels(set)},
				Provider: &v1alpha1.Provider{StatefulSet: &v1alpha1.StatefulSetProvider{}},
			}},
		},
	}
	for _, c := range change {
		c(&policy.Spec)
	}
	must(t, h.client.Create(t.Context(), policy))
	t.Cleanup(func() { release(t, h.lab, h.client, policy) })
	h.waitGoverned(t, ns, set, 3)
}

func (h *house) requestReplacement(t *testing.T, ns, policy, id string) *v1alpha1.ReplacementRequest {
	t.Helper()
	q := requestFor(ns, policy, id)
	must(t, h.client.Create(t.Context(), q))
	return q
}

func requestFor(ns, policy, id string) *v1alpha1.ReplacementRequest {
	return &v1alpha1.ReplacementRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: id},
		Spec: v1alpha1.ReplacementRequestSpec{
			Requester: "test.usher.sh/" + id, Source: v1alpha1.ReplacementSource{Kind: v1alpha1.SourceEvictionPolicy, Name: policy},
			Member: v1alpha1.ReplacementMember{Role: "replica", ID: id},
		},
	}
}

func (h *house) waitReplacement(t *testing.T, ns, name, what string, done func(*v1alpha1.ReplacementRequest) bool) *v1alpha1.ReplacementRequest {
	t.Helper()
	var last *v1alpha1.ReplacementRequest
	t.Cleanup(func() {
		if t.Failed() && last != nil {
			t.Logf("%s: %+v", name, last.Status)
		}
	})
	requests := await.Source[*v1alpha1.ReplacementRequest]{Client: h.policies, Resource: "replacementrequests", Namespace: ns}
	testlab.WaitFor(t, requests, what, func(all []*v1alpha1.ReplacementRequest) bool {
		for _, q := range all {
			if q.Name == name {
				last = q
				return done(q)
			}
		}
		return done(nil)
	})
	return last
}

func waitsFor(reason string) func(*v1alpha1.ReplacementRequest) bool {
	return func(q *v1alpha1.ReplacementRequest) bool {
		return q != nil && slices.ContainsFunc(q.Status.Blockers, func(b v1alpha1.ReplacementBlocker) bool { return b.Reason == reason })
	}
}

func isReplaced(q *v1alpha1.ReplacementRequest) bool {
	return q != nil && q.Status.Step == v1alpha1.ReplacementComplete && meta.IsStatusConditionTrue(q.Status.Conditions, "Ready")
}

// removeNode removes a node, as a cloud does of a machine that is gone, and waits until its pod's successor finds no place.
func (h *house) removeNode(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	h.lab.NodeLost(t, pod.Spec.NodeName)
	must(t, h.lab.Client().CoreV1().Nodes().Delete(t.Context(), pod.Spec.NodeName, metav1.DeleteOptions{}))
	testlab.WaitFor(t, h.lab.Pods(pod.Namespace), pod.Name+" to find no node", func(all []*corev1.Pod) bool {
		return slices.ContainsFunc(all, func(p *corev1.Pod) bool {
			return p.Name == pod.Name && p.UID != pod.UID && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse
			})
		})
	})
}

func (h *house) replacementSaysWhichRightIsMissing(t *testing.T) {
	l := h.local(t, "db")
	h.governReplicas(t, l.ns, "db")
	q := h.requestReplacement(t, l.ns, "db", "db-2")
	q = h.waitReplacement(t, l.ns, q.Name, "the request to say which right is missing", waitsFor("NotRead"))
	if remedy := q.Status.Blockers[0].Remedy; remedy != "usher install --replacement" { // no binding: its ClusterRole is not there
		t.Errorf("the remedy is %q", remedy)
	}
	must(t, h.client.Delete(t.Context(), q))
	h.waitReplacement(t, l.ns, q.Name, "the request to go", func(q *v1alpha1.ReplacementRequest) bool { return q == nil })
}

// replacementMakesASuccessor: a node with a local volume is gone for good. Without a replacement its pod is Pending for ever; with one it is
// Ready on another node with another volume, and the former volume is kept.
func (h *house) replacementMakesASuccessor(t *testing.T) {
	t.Parallel()
	l := h.local(t, "db")
	h.governReplicas(t, l.ns, "db")
	lost := l.pods[2]
	old := h.volumeOf(t, l.ns, lost.Name)
	h.removeNode(t, lost)
	began := time.Now()
	q := h.requestReplacement(t, l.ns, "db", lost.Name)
	q = h.waitReplacement(t, l.ns, q.Name, "the member to be replaced", isReplaced)
	made := h.lab.RequestsAbout(t, managerAccount, began, l.ns, lost.Spec.NodeName, l.spare)
	t.Logf("requests per replaced member: %d (%s)", made.Total(), made)
	now := h.lab.WaitReady(t, l.ns, testlab.Labels("db"), 3)
	at := slices.IndexFunc(now, func(p *corev1.Pod) bool { return p.Name == lost.Name })
	if node := now[at].Spec.NodeName; node != l.spare || q.Status.Successor == nil || q.Status.Successor.Node != l.spare {
		t.Errorf("the successor is on %s, %+v; want %s", node, q.Status.Successor, l.spare)
	}
	if volume := h.volumeOf(t, l.ns, lost.Name); volume.Name == old.Name {
		t.Errorf("the successor has the volume of its predecessor")
	}
	h.isKept(t, old)
	h.waitPolicy(t, l.ns, "db", "the policy to say that nothing is replaced", func(p *v1alpha1.EvictionPolicy) bool { return len(p.Status.Replacing) == 0 })
	h.waitReplacement(t, l.ns, q.Name, "the request to be let go", func(q *v1alpha1.ReplacementRequest) bool { return q != nil && len(q.Finalizers) == 0 })
}

// managerAccount is who the managers are.
const managerAccount = "system:serviceaccount:usher-system:usher-manager"

func (h *house) volumeOf(t *testing.T, ns, pod string) *corev1.PersistentVolume {
	t.Helper()
	var claim corev1.PersistentVolumeClaim
	must(t, h.client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "data-" + pod}, &claim))
	var volume corev1.PersistentVolume
	must(t, h.client.Get(t.Context(), client.ObjectKey{Name: claim.Spec.VolumeName}, &volume))
	return &volume
}

// isKept: the volume of a predecessor stays, with its data.
func (h *house) isKept(t *testing.T, old *corev1.PersistentVolume) {
	t.Helper()
	var kept corev1.PersistentVolume
	must(t, h.client.Get(t.Context(), client.ObjectKeyFromObject(old), &kept))
	if kept.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain || kept.DeletionTimestamp != nil {
		t.Errorf("the volume of the predecessor is not kept: %s, %v", kept.Spec.PersistentVolumeReclaimPolicy, kept.DeletionTimestamp)
	}
}

// replacementIsCancelled: nothing is done for a member that may still run, and withdrawing the request leaves everything as it was.
func (h *house) replacementIsCancelled(t *testing.T) {
	t.Parallel()
	l := h.local(t, "db")
	h.governReplicas(t, l.ns, "db")
	running := h.requestReplacement(t, l.ns, "db", l.pods[1].Name)
	h.waitReplacement(t, l.ns, running.Name, "the request for a member that runs to say so", waitsFor("PredecessorRuns"))
	must(t, h.client.Delete(t.Context(), running))
	lost := l.pods[2]
	old := h.volumeOf(t, l.ns, lost.Name)
	h.lab.NodeLost(t, lost.Spec.NodeName)
	q := h.requestReplacement(t, l.ns, "db", lost.Name)
	h.waitReplacement(t, l.ns, q.Name, "the request for a member on a silent node to wait for a proof", waitsFor("NodeNotProvenOff"))
	must(t, h.client.Delete(t.Context(), q))
	for _, name := range []string{q.Name, running.Name} {
		h.waitReplacement(t, l.ns, name, "the request to go", func(q *v1alpha1.ReplacementRequest) bool { return q == nil })
	}
	if volume := h.volumeOf(t, l.ns, lost.Name); volume.UID != old.UID || volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		t.Errorf("the volume was touched: %+v", volume.Spec)
	}
	h.waitPolicy(t, l.ns, "db", "the policy to say that nothing is replaced", func(p *v1alpha1.EvictionPolicy) bool { return len(p.Status.Replacing) == 0 })
}

// replacementRemovesNoCopyOfTwo: two nodes are lost at once. Their pods are shown Ready until they are collected, and count for nothing.
func (h *house) replacementRemovesNoCopyOfTwo(t *testing.T) {
	t.Parallel()
	l := h.local(t, "db")
	h.governReplicas(t, l.ns, "db")
	for _, lost := range l.pods[1:] {
		h.lab.NodeLost(t, lost.Spec.NodeName)
	}
	for _, lost := range l.pods[1:] {
		must(t, h.lab.Client().CoreV1().Nodes().Delete(t.Context(), lost.Spec.NodeName, metav1.DeleteOptions{}))
	}
	q := h.requestReplacement(t, l.ns, "db", l.pods[2].Name)
	h.waitReplacement(t, l.ns, q.Name, "the request to wait for the others", waitsFor("OtherReplicaNotReady"))
	for _, lost := range l.pods[1:] {
		if volume := h.volumeOf(t, l.ns, lost.Name); volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete || volume.Status.Phase != corev1.VolumeBound {
			t.Errorf("the volume of %s was touched: %+v", lost.Name, volume.Status)
		}
	}
	must(t, h.client.Delete(t.Context(), q))
	h.waitReplacement(t, l.ns, q.Name, "the request to go", func(q *v1alpha1.ReplacementRequest) bool { return q == nil })
}

// replacementOutlivesItsLeader: the replica that leads is killed while something of the predecessor is left. Then the request is deleted, which
// is too late, and the member is replaced all the same.
func (h *house) replacementOutlivesItsLeader(t *testing.T) {
	l := h.local(t, "db")
	h.governReplicas(t, l.ns, "db")
	lost := l.pods[2]
	var claim corev1.PersistentVolumeClaim
	must(t, h.client.Get(t.Context(), client.ObjectKey{Namespace: l.ns, Name: "data-" + lost.Name}, &claim))
	claim.Finalizers = append(claim.Finalizers, "test.usher.sh/held")
	must(t, h.client.Update(t.Context(), &claim))
	h.removeNode(t, lost)
	q := h.requestReplacement(t, l.ns, "db", lost.Name)
	h.waitReplacement(t, l.ns, q.Name, "the predecessor to be removed", waitsFor("PredecessorLeaving"))
	h.killLeader(t)
	must(t, h.client.Delete(t.Context(), q))
	must(t, h.client.Get(t.Context(), client.ObjectKeyFromObject(&claim), &claim))
	claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(f string) bool { return f == "test.usher.sh/held" })
	must(t, h.client.Update(t.Context(), &claim))
	h.waitReplacement(t, l.ns, q.Name, "the request to go", func(q *v1alpha1.ReplacementRequest) bool { return q == nil })
	now := h.lab.WaitReady(t, l.ns, testlab.Labels("db"), 3)
	at := slices.IndexFunc(now, func(p *corev1.Pod) bool { return p.Name == lost.Name })
	if node := now[at].Spec.NodeName; node != l.spare {
		t.Errorf("the successor is on %s, want %s", node, l.spare)
	}
}

// replacementIsRefused: who may not delete claims has none deleted.
func (h *house) replacementIsRefused(t *testing.T) {
	l := h.local(t, "db")
	h.governReplicas(t, l.ns, "db")
	config, _ := h.lab.As(t, []rbacv1.PolicyRule{
		{APIGroups: []string{"usher.sh"}, Resources: []string{"replacementrequests"}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"delete"}},
	})
	tenant, err := client.New(config, client.Options{Scheme: h.client.Scheme()})
	must(t, err)
	err = tenant.Create(t.Context(), &v1alpha1.ReplacementRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "db-2"},
		Spec: v1alpha1.ReplacementRequestSpec{
			Requester: "person.usher.sh/tenant", Source: v1alpha1.ReplacementSource{Kind: v1alpha1.SourceEvictionPolicy, Name: "db"},
			Member: v1alpha1.ReplacementMember{Role: "replica", ID: "db-2"},
		},
	})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "may not delete persistentvolumeclaims in namespace "+l.ns) {
		t.Errorf("a tenant that may not delete claims is answered: %v", err)
	}
}
