package testlab

import (
	"slices"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"usher.sh/usher/lab/await"
)

func TestWorkloadsRunOnTheNodesOfTheirTest(t *testing.T) {
	l := Get(t)
	mine := map[string]bool{}
	for _, n := range l.Nodes(t, 2, "a", "b") {
		mine[n] = true
	}
	ns := l.Namespace(t)
	l.Deployment(t, ns, "web", 3)
	l.StatefulSet(t, ns, "db", 2)
	l.DaemonSet(t, ns, "agent")
	l.Pod(t, ns, "bare")
	for _, p := range l.WaitReady(t, ns, nil, 3+2+2+1) {
		if !mine[p.Spec.NodeName] {
			t.Errorf("pod %s runs on %s, which is not a node of this test", p.Name, p.Spec.NodeName)
		}
	}
}

func TestBudgetRefusesOverItsLimit(t *testing.T) {
	l := Get(t)
	l.Nodes(t, 1)
	ns := l.Namespace(t)
	l.Deployment(t, ns, "web", 2)
	l.MaxUnavailable(t, ns, "web", "1")
	pods := l.WaitReady(t, ns, Labels("web"), 2)
	l.WaitBudget(t, ns, "web", 2)
	l.SetReady(t, ns, pods[0].Name, false)
	WaitFor(t, l.Budgets(ns), "the budget to allow none", func(all []*policyv1.PodDisruptionBudget) bool {
		return all[0].Status.DisruptionsAllowed == 0
	})
	evict := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pods[1].Name}}
	if err := l.Client().CoreV1().Pods(ns).EvictV1(t.Context(), evict); !apierrors.IsTooManyRequests(err) {
		t.Errorf("evicting the last ready pod: got %v, want 429", err)
	}
	l.SetReady(t, ns, pods[0].Name, true)
	WaitFor(t, l.Budgets(ns), "the budget to allow one", func(all []*policyv1.PodDisruptionBudget) bool {
		return all[0].Status.DisruptionsAllowed == 1
	})
	if err := l.Client().CoreV1().Pods(ns).EvictV1(t.Context(), evict); err != nil {
		t.Errorf("evicting under the budget: %v", err)
	}
	gone(t, l, ns, pods[1])
}

func TestStuckPodStaysUntilItIsUnstuck(t *testing.T) {
	l := Get(t)
	l.Nodes(t, 1)
	ns := l.Namespace(t)
	stuck, marker := l.Pod(t, ns, "stuck"), l.Pod(t, ns, "marker")
	l.WaitReady(t, ns, nil, 2)
	l.Stick(t, ns, "stuck")
	for _, p := range []*corev1.Pod{stuck, marker} {
		check(t, "deleting pod", l.Client().CoreV1().Pods(ns).Delete(t.Context(), p.Name, metav1.DeleteOptions{}))
	}
	gone(t, l, ns, marker)
	if p, err := l.Client().CoreV1().Pods(ns).Get(t.Context(), "stuck", metav1.GetOptions{}); err != nil || p.DeletionTimestamp == nil {
		t.Errorf("stuck pod: got %v, want it terminating", err)
	}
	l.Unstick(t, ns, "stuck")
	gone(t, l, ns, stuck)
}

func TestPodWithFinalizerEndsButStays(t *testing.T) {
	l := Get(t)
	l.Nodes(t, 1)
	ns := l.Namespace(t)
	l.Pod(t, ns, "held", func(p *corev1.Pod) { p.Finalizers = []string{"lab.usher.sh/held"} })
	l.WaitReady(t, ns, nil, 1)
	check(t, "deleting pod", l.Client().CoreV1().Pods(ns).Delete(t.Context(), "held", metav1.DeleteOptions{}))
	WaitFor(t, l.Pods(ns), "the kubelet to be done with the pod", func(all []*corev1.Pod) bool {
		return len(all) == 1 && all[0].DeletionGracePeriodSeconds != nil && *all[0].DeletionGracePeriodSeconds == 0
	})
	p, err := l.Client().CoreV1().Pods(ns).Get(t.Context(), "held", metav1.GetOptions{})
	check(t, "reading pod", err)
	p.Finalizers = nil
	_, err = l.Client().CoreV1().Pods(ns).Update(t.Context(), p, metav1.UpdateOptions{})
	check(t, "removing finalizer", err)
	gone(t, l, ns, p)
}

func TestVolumeIsAttachedAndDetached(t *testing.T) {
	l := Get(t)
	node := l.Nodes(t, 1)[0]
	ns := l.Namespace(t)
	volume := l.Volume(t, ns, "data-db-0")
	l.StatefulSet(t, ns, "db", 1, func(s *appsv1.StatefulSet) {
		s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{*Claim("data")}
	})
	l.WaitReady(t, ns, nil, 1)
	attached := func(all []*storagev1.VolumeAttachment) bool {
		for _, a := range all {
			if *a.Spec.Source.PersistentVolumeName == volume {
				return a.Spec.NodeName == node && a.Status.Attached
			}
		}
		return false
	}
	WaitFor(t, l.VolumeAttachments(), "the volume to be attached", attached)
	check(t, "deleting statefulset", l.Client().AppsV1().StatefulSets(ns).Delete(t.Context(), "db", metav1.DeleteOptions{}))
	WaitFor(t, l.VolumeAttachments(), "the volume to be detached", func(all []*storagev1.VolumeAttachment) bool {
		return !attached(all)
	})
}

func TestLocalVolumesComeAndGoWithTheirClaims(t *testing.T) {
	l := Get(t)
	node := l.Nodes(t, 1)[0]
	ns := l.Namespace(t)
	l.LocalVolumes(t, ns)
	l.StatefulSet(t, ns, "db", 1, func(s *appsv1.StatefulSet) {
		claim := Claim("data")
		claim.Spec.StorageClassName = &ns
		s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{*claim}
	})
	l.WaitReady(t, ns, nil, 1)
	claims := l.Client().CoreV1().PersistentVolumeClaims(ns)
	claim, err := claims.Get(t.Context(), "data-db-0", metav1.GetOptions{})
	check(t, "getting claim", err)
	volume, err := l.Client().CoreV1().PersistentVolumes().Get(t.Context(), claim.Spec.VolumeName, metav1.GetOptions{})
	check(t, "getting volume", err)
	if term := volume.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0]; term.Values[0] != node {
		t.Errorf("the volume can be used on %v, want %s", term.Values, node)
	}
	check(t, "deleting statefulset", l.Client().AppsV1().StatefulSets(ns).Delete(t.Context(), "db", metav1.DeleteOptions{}))
	check(t, "deleting claim", claims.Delete(t.Context(), claim.Name, metav1.DeleteOptions{}))
	volumes := await.Source[*corev1.PersistentVolume]{Client: l.Client().CoreV1().RESTClient(), Resource: "persistentvolumes"}
	WaitFor(t, volumes, "the volume to be deleted", func(all []*corev1.PersistentVolume) bool {
		return !slices.ContainsFunc(all, func(v *corev1.PersistentVolume) bool { return v.Name == volume.Name })
	})
}

func TestAttachmentMadeByHandIsAttachedAndDetached(t *testing.T) {
	l := Get(t)
	ns := l.Namespace(t)
	volume := l.Volume(t, ns, "by-hand")
	a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	a.Spec = storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: l.Nodes(t, 1)[0]}
	a.Spec.Source.PersistentVolumeName = &volume
	_, err := l.Client().StorageV1().VolumeAttachments().Create(t.Context(), a, metav1.CreateOptions{})
	check(t, "creating volume attachment", err)
	state := func(all []*storagev1.VolumeAttachment) (found, attached bool) {
		for _, b := range all {
			if b.Name == a.Name {
				return true, b.Status.Attached
			}
		}
		return false, false
	}
	WaitFor(t, l.VolumeAttachments(), "the volume to be attached", func(all []*storagev1.VolumeAttachment) bool {
		_, attached := state(all)
		return attached
	})
	check(t, "deleting it", l.Client().StorageV1().VolumeAttachments().Delete(t.Context(), a.Name, metav1.DeleteOptions{}))
	WaitFor(t, l.VolumeAttachments(), "the attachment to be gone", func(all []*storagev1.VolumeAttachment) bool {
		found, _ := state(all)
		return !found
	})
}

func TestLostNodeKeepsItsPods(t *testing.T) {
	l := Get(t)
	node := l.Nodes(t, 1)[0]
	ns := l.Namespace(t)
	l.Pod(t, ns, "a")
	l.WaitReady(t, ns, nil, 1)
	l.NodeLost(t, node)
	check(t, "deleting pod", l.Client().CoreV1().Pods(ns).Delete(t.Context(), "a", metav1.DeleteOptions{}))
	WaitFor(t, l.AllNodes(), "the taint of an unreachable node", func(all []*corev1.Node) bool {
		for _, n := range all {
			for _, taint := range n.Spec.Taints {
				if n.Name == node && taint.Key == corev1.TaintNodeUnreachable {
					return true
				}
			}
		}
		return false
	})
	if _, err := l.Client().CoreV1().Pods(ns).Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Errorf("pod on a lost node: %v, want it terminating for ever", err)
	}
}

func TestUserMayDoWhatTheRulesSayAndNoMore(t *testing.T) {
	l := Get(t)
	config, _ := l.As(t, []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}})
	client, err := kubernetes.NewForConfig(config)
	check(t, "making a client", err)
	if _, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("listing pods: %v", err)
	}
	if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("listing nodes: got %v, want forbidden", err)
	}
}

func TestRequestsAreCountedByUserAgent(t *testing.T) {
	l := Get(t)
	config := l.RESTConfig()
	config.UserAgent = "count-me/1"
	client, err := kubernetes.NewForConfig(config)
	check(t, "making a client", err)
	for range 3 {
		_, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		check(t, "listing nodes", err)
	}
	_, err = client.Discovery().ServerVersion()
	check(t, "asking for the version", err)
	got := l.Requests(t, "count-me", time.Time{})
	if got.Total() != 4 || got.Of("list", "nodes") != 3 || got.Of("get", "/version") != 1 {
		t.Errorf("got %v, want 3 lists of nodes and one get of /version", got)
	}
	if later := l.Requests(t, "count-me", time.Now()); later.Total() != 0 {
		t.Errorf("got %v since now, want none", later)
	}
}

func TestLabGoesOnAfterARestartOfTheAPIServer(t *testing.T) {
	l := Get(t)
	l.Nodes(t, 1)
	ns := l.Namespace(t)
	waiting, first := make(chan error, 1), make(chan struct{})
	go func() {
		begun := sync.OnceFunc(func() { close(first) })
		waiting <- await.Until(t.Context(), l.Pods(ns), func(all []*corev1.Pod) bool {
			begun()
			return len(all) == 2
		})
	}()
	<-first
	l.RestartAPIServer(t)
	l.Deployment(t, ns, "web", 2)
	l.WaitReady(t, ns, Labels("web"), 2)
	if err := <-waiting; err != nil {
		t.Errorf("a wait that began before the restart: %v", err)
	}
}

func gone(t *testing.T, l *Lab, ns string, p *corev1.Pod) {
	t.Helper()
	WaitFor(t, l.Pods(ns), "pod "+p.Name+" to be gone", func(all []*corev1.Pod) bool {
		for _, q := range all {
			if q.UID == p.UID {
				return false
			}
		}
		return true
	})
}
