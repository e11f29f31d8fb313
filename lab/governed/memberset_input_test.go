package governed

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/testlab"
)

// waitSetSays waits until a set says what is wrong, and what to do.
func (h *house) waitSetSays(t *testing.T, ns, name, reason, message, remedy string) {
	t.Helper()
	var said []v1alpha1.ReplacementBlocker
	defer func() { t.Logf("%s says %+v", name, said) }()
	eventually(t, name+" to say "+message, func() bool {
		set := &v1alpha1.MemberSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		must(t, h.client.Get(t.Context(), client.ObjectKeyFromObject(set), set))
		said = set.Status.Blockers
		return slices.ContainsFunc(said, func(b v1alpha1.ReplacementBlocker) bool {
			return b.Reason == reason && strings.Contains(b.Message, message) && strings.Contains(b.Remedy, remedy)
		})
	})
}

// stillThere fails unless these are the pods of a set, none of which is going.
func (h *house) stillThere(t *testing.T, ns string, want ...*corev1.Pod) {
	t.Helper()
	for _, p := range want {
		found, err := h.lab.Client().CoreV1().Pods(ns).Get(t.Context(), p.Name, metav1.GetOptions{})
		must(t, err)
		if found.UID != p.UID || found.DeletionTimestamp != nil {
			t.Errorf("pod %s is another, or goes", p.Name)
		}
	}
}

// setSaysWhichQuotaIsFull: what a quota does not let be made is waited for, and what is there stays.
func (h *house) setSaysWhichQuotaIsFull(t *testing.T) {
	ns := h.lab.Namespace(t)
	h.letEnd(t, ns)
	quotas := h.lab.Client().CoreV1().ResourceQuotas(ns)
	quota, err := quotas.Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "pods"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("2")}},
	}, metav1.CreateOptions{})
	must(t, err)
	eventually(t, "the quota to be counted", func() bool {
		quota, err = quotas.Get(t.Context(), quota.Name, metav1.GetOptions{})
		must(t, err)
		return len(quota.Status.Hard) > 0
	})
	set := h.memberSet(t, ns, "workload", 2)
	h.waitSetReady(t, ns, 2)
	pods := h.lab.WaitReady(t, ns, map[string]string{"app": "kv"}, 2)
	h.scaleSet(t, set, 3)
	h.waitSetSays(t, ns, set.Name, "WriteNotAccepted", "makePod of kv-server-3 was not accepted: pods \"kv-server-3\" is forbidden: exceeded quota: pods", "raise the ResourceQuota")
	h.stillThere(t, ns, pods...)
	h.kubectl(t, "patch", "resourcequota", quota.Name, "-n", ns, "--type=merge", "-p", `{"spec":{"hard":{"pods":"3"}}}`).succeed(t)
	h.waitSetReady(t, ns, 3)
}

// setSaysWhichClaimIsUnbound: a class that there is not provisions no volume.
func (h *house) setSaysWhichClaimIsUnbound(t *testing.T) {
	ns := h.lab.Namespace(t)
	h.letEnd(t, ns)
	set := h.memberSetOf(t, ns, "kv", "workload", 1, func(s *v1alpha1.MemberSetSpec) {
		s.Groups[0].VolumeClaimTemplates = []v1alpha1.VolumeClaimTemplate{{
			Name: "data", Spec: runtime.RawExtension{Raw: []byte(`{"storageClassName":"none","accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}`)},
		}}
	})
	h.waitSetSays(t, ns, set.Name, "PodUnscheduled", "its claim is bound to no volume: data-kv-server-1", "kubectl describe pvc data-kv-server-1 -n "+ns)
}

// setSaysWhosePodItIs: a pod that a person labels as another set's is said by both, and neither removes it.
func (h *house) setSaysWhosePodItIs(t *testing.T) {
	ns := h.lab.Namespace(t)
	h.letEnd(t, ns)
	h.memberSet(t, ns, "workload", 1)
	h.waitSetReady(t, ns, 1)
	other := h.memberSetOf(t, ns, "other", "workload", 1, func(*v1alpha1.MemberSetSpec) {})
	pods := h.lab.WaitReady(t, ns, map[string]string{v1alpha1.MemberSetLabel: other.Name}, 1)
	h.kubectl(t, "label", "pod", "kv-server-1", "-n", ns, "--overwrite", v1alpha1.MemberSetLabel+"="+other.Name).succeed(t)
	labelled, err := h.lab.Client().CoreV1().Pods(ns).Get(t.Context(), "kv-server-1", metav1.GetOptions{})
	must(t, err)
	h.waitSetSays(t, ns, other.Name, "MemberNotKnown", "pod kv-server-1 carries the label usher.sh/member-set=other", "kubectl label pod kv-server-1 -n "+ns)
	h.waitSetSays(t, ns, "kv", "NameTaken", "pod kv-server-1 is there, and does not carry the label usher.sh/member-set=kv", "it was made for this MemberSet: kubectl label --overwrite pod kv-server-1 -n "+ns+" usher.sh/member-set=kv")
	h.stillThere(t, ns, append(pods, labelled)...)
	h.kubectl(t, "label", "pod", "kv-server-1", "-n", ns, "--overwrite", v1alpha1.MemberSetLabel+"=kv").succeed(t)
	testlab.WaitFor(t, h.lab.Pods(ns), "both pods to be there", func(all []*corev1.Pod) bool { return len(all) == 2 })
}

// setSaysWhichProgramIsMissing: without fdbcli nothing is asked of a FoundationDB, and whether it is formed is not known. The pods stay, also those that are too many by then.
func (h *house) setSaysWhichProgramIsMissing(t *testing.T) {
	ns := h.lab.Namespace(t)
	h.letEnd(t, ns)
	h.kubectl(t, "create", "rolebinding", "usher-cluster-files", "-n", ns, "--clusterrole=usher-cluster-files", "--serviceaccount=usher-system:usher-manager").succeed(t)
	set := h.memberSetOf(t, ns, "fdb", "foundationdb-storage", 3, func(s *v1alpha1.MemberSetSpec) {
		s.System = v1alpha1.System{FoundationDB: &v1alpha1.FoundationDB{
			ClusterFile: v1alpha1.ClusterFile{ConfigMap: &v1alpha1.ConfigMapKey{Name: "fdb-config", Key: "cluster-file"}}, Version: "7.3.63",
			Redundancy: v1alpha1.RedundancyDouble,
		}}
		s.FaultDomainKey = corev1.LabelHostname
		s.Evidence = v1alpha1.EvidenceLimits{Timeout: metav1.Duration{Duration: 20 * time.Second}, MaxAge: metav1.Duration{Duration: 30 * time.Second}}
	})
	pods := h.lab.WaitReady(t, ns, map[string]string{"app": "kv"}, 3)
	missing := "the manager runs without fdbcli: usher install --fdbcli-image gives it that program (or --fdbcli its path)"
	h.waitSetSays(t, ns, set.Name, "SystemNotFormed", missing, "")
	h.scaleSet(t, set, 1)
	h.waitSetSays(t, ns, set.Name, "SystemNotFormed", "fewer members are asked for than form the system", "set the replicas back")
	h.waitSetSays(t, ns, set.Name, "SystemNotFormed", missing, "")
	h.stillThere(t, ns, pods...)
}
