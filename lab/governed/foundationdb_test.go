package governed

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/testlab"
	"usher.sh/usher/test/fdbreal"
)

// TestFoundationDB drains a node under a member of a real FoundationDB, whose processes stand for those of the pods: a plain kubectl drain is held until
// the member's data is elsewhere, and the member gets data again once it is back.
func TestFoundationDB(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes minutes: make test-all runs it")
	}
	cluster := fdbreal.Start(t, 5, "double ssd")
	cluster.Write("before", 200)
	h := emptyHouse(t, testlab.Start(t))
	h.managers = h.lab.Managers(t, 1, "--fdbcli="+cluster.CLIPath())
	namespace := h.lab.Namespace(t)
	pods := h.statefulSet(t, namespace, 5)
	node, pod := pods[4].Spec.NodeName, pods[4].Name
	file, err := os.ReadFile(cluster.ClusterFilePath())
	must(t, err)
	must(t, h.client.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fdb-config"}, Data: map[string]string{"cluster-file": string(file)},
	}))
	none := metav1.Duration{}
	system := v1alpha1.System{FoundationDB: &v1alpha1.FoundationDB{
		ClusterFile: v1alpha1.ClusterFile{ConfigMap: &v1alpha1.ConfigMapKey{Name: "fdb-config", Key: "cluster-file"}}, Version: "7.3.63",
		Waits: v1alpha1.FoundationDBWaits{ExcludeAfterRecovery: &none, IncludeAfterRecovery: &none},
	}}
	h.policy(t, namespace, "db", system, func(p *v1alpha1.EvictionPolicy) {
		p.Spec.Evidence = v1alpha1.EvidenceLimits{MaxAge: metav1.Duration{Duration: 30 * time.Second}, Timeout: metav1.Duration{Duration: 25 * time.Second}}
		p.Spec.Roles = nil
		p.Spec.Members[0].Role, p.Spec.Members[0].ID = "foundationdb-storage", `"p" + string(int(pod.name.split("-")[1]) + 1)`
	})
	_, allow, _ := strings.Cut(h.waitReason(t, namespace, "db", "SystemUnreachable"), "allow it: kubectl ")
	h.kubectl(t, strings.Fields(allow)...).succeed(t)
	h.waitGoverned(t, namespace, "db", 5)

	before := h.uid(t, namespace, pod)
	drain := h.drain(t, node)
	began := h.waitPolicy(t, namespace, "db", "its member to be excluded", func(p *v1alpha1.EvictionPolicy) bool {
		return prepared(1, v1alpha1.PreparationBegun)(p) && p.Status.Preparations[0].Job != ""
	}).Status.Preparations[0]
	if began.Job != "locality_instance_id:p5" || began.JobOrigin != v1alpha1.JobBegun {
		t.Errorf("the preparation is %+v", began)
	}
	drain.succeed(t)
	testlab.WaitFor(t, h.lab.Pods(namespace), "the member to come back elsewhere", func(all []*corev1.Pod) bool {
		return slices.ContainsFunc(all, func(p *corev1.Pod) bool {
			return p.Name == pod && p.UID != before && p.Spec.NodeName != node && testlab.PodReady(p)
		})
	})
	eventually(t, "the exclusion to be taken back", func() bool {
		out, err := cluster.FDBCLI(t.Context(), "exclude")
		return err == nil && strings.Contains(out, "There are currently no servers or localities excluded")
	})
	h.waitPolicy(t, namespace, "db", "everything to be settled", settled)
	if out, err := cluster.FDBCLI(t.Context(), fmt.Sprintf("getrange before%06d before%06d 300", 0, 200)); err != nil || strings.Count(out, "`before") != 200 {
		t.Errorf("of 200 values %d are there: %v", strings.Count(out, "`before"), err)
	}
}
