package filters

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/lab/testlab"
)

// set is some pods on a node, and the flags with which it is drained.
type set struct {
	name  string // of the node too
	pods  []*corev1.Pod
	flags []string
	// What is known of pods by how they were made, by name.
	differs  map[string]difference
	held     map[string]bool // by a finalizer, its grace over
	ending   map[string]bool // within its grace
	finished map[string]bool
}

const finalizer = "filters.example.com/hold"

// draw makes the set of a seed. DaemonSets are those of the lab, by name.
func draw(seed uint64, daemons map[string]types.UID) *set {
	dice := rand.New(rand.NewPCG(seed, 1))
	s := &set{
		name: fmt.Sprintf("set-%d", seed), differs: map[string]difference{}, held: map[string]bool{}, ending: map[string]bool{}, finished: map[string]bool{},
	}
	for n := range 1 + dice.IntN(6) {
		s.pods = append(s.pods, s.pod(dice, fmt.Sprintf("%s-%d", s.name, n), daemons))
	}
	maybe := func(flags ...string) {
		if n := dice.IntN(2 * len(flags)); n < len(flags) {
			s.flags = append(s.flags, flags[n])
		}
	}
	for _, flag := range []string{"--force", "--ignore-daemonsets", "--delete-emptydir-data"} {
		if dice.IntN(3) > 0 {
			s.flags = append(s.flags, flag)
		}
	}
	maybe("--pod-selector=app=a", "--pod-selector=app!=a", "--pod-selector=app in (a, b)")
	maybe("--grace-period=0", "--grace-period=7")
	maybe("--skip-wait-for-delete-timeout=3600", "--skip-wait-for-delete-timeout=-1")
	maybe("--disable-eviction")
	return s
}

func (s *set) pod(dice *rand.Rand, name string, daemons map[string]types.UID) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{"app": []string{"a", "b", "c"}[dice.IntN(3)]}, Annotations: map[string]string{},
		},
		Spec: corev1.PodSpec{
			NodeName: s.name, PriorityClassName: []string{"", "", "low", "high"}[dice.IntN(4)],
			Containers: []corev1.Container{{Name: "c", Image: "none"}},
		},
		Status: corev1.PodStatus{Phase: []corev1.PodPhase{
			corev1.PodRunning, corev1.PodRunning, corev1.PodRunning, corev1.PodPending, corev1.PodSucceeded, corev1.PodFailed,
		}[dice.IntN(6)]},
	}
	s.finished[name] = p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	s.own(dice, p, daemons)
	if dice.IntN(4) == 0 {
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	}
	if dice.IntN(10) == 0 {
		p.Annotations[corev1.MirrorPodAnnotationKey] = "x"
	}
	switch dice.IntN(12) {
	case 0:
		p.Annotations[snapshot.OrderAnnotation] = "soon"
	case 1, 2:
		p.Annotations[snapshot.OrderAnnotation] = "-1"
	}
	switch dice.IntN(8) {
	case 0:
		p.Finalizers, p.DeletionGracePeriodSeconds = []string{finalizer}, new(int64(0))
		s.held[name] = true
	case 1:
		p.DeletionGracePeriodSeconds = new(int64(3000))
		s.ending[name] = !s.finished[name]
	}
	return p
}

// own gives the pod an owner, or none.
func (s *set) own(dice *rand.Rand, p *corev1.Pod, daemons map[string]types.UID) {
	owner := func(version, kind, name string, uid types.UID) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: name, UID: uid, Controller: new(true)}}
	}
	switch dice.IntN(12) {
	case 0, 1:
	case 2, 3:
		owner("apps/v1", "ReplicaSet", "web", "rs")
	case 4:
		owner("apps/v1", "StatefulSet", "db", "sts")
	case 5:
		owner("batch/v1", "Job", "sum", "job")
	case 6:
		owner("v1", "ReplicationController", "old", "rc")
	case 7:
		owner("apps/v1", "DaemonSet", "agent", daemons["agent"])
	case 8:
		owner("apps/v1", "DaemonSet", "lost", "lost")
	case 9:
		owner("apps/v1", "DaemonSet", "agent", "remade")
		s.differs[p.Name] = remade
	case 10:
		kind := []string{"DaemonSet", "CloneSet"}[dice.IntN(2)]
		owner("apps.kruise.io/v1alpha1", kind, "kruise", types.UID(kind))
	case 11:
		owner("apps/v1", "ReplicaSet", "web", "rs")
		p.OwnerReferences[0].Controller = nil
	}
}

// make creates the set's objects, and begins to delete what is to be terminating.
func (s *set) make(t *testing.T, l *testlab.Lab) {
	t.Helper()
	ctx := t.Context()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: s.name},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	_, err := l.Client().CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	must(t, err)
	api := l.Client().CoreV1().Pods(namespace)
	for _, p := range s.pods {
		made, err := api.Create(ctx, p, metav1.CreateOptions{})
		must(t, err)
		made.Status = p.Status
		_, err = api.UpdateStatus(ctx, made, metav1.UpdateOptions{})
		must(t, err)
		if grace := p.DeletionGracePeriodSeconds; grace != nil {
			must(t, api.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: grace}))
		}
	}
}

// fixtures makes what all sets share, and returns the UIDs of DaemonSets.
func fixtures(t *testing.T, l *testlab.Lab) map[string]types.UID {
	t.Helper()
	ctx := t.Context()
	must(t, created(l.Client().CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})))
	must(t, created(l.Client().CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})))
	makeClasses(ctx, t, l)
	labels := map[string]string{"app": "agent"}
	agent, err := l.Client().AppsV1().DaemonSets(namespace).Create(ctx, &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "agent"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}},
			},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	return map[string]types.UID{"agent": agent.UID}
}

func created[T any](_ T, err error) error { return err }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *set) String() string {
	lines := []string{s.name + " " + strings.Join(s.flags, " ")}
	for _, p := range s.pods {
		owner := "no owner"
		if len(p.OwnerReferences) > 0 {
			o := p.OwnerReferences[0]
			owner = fmt.Sprintf("%s %s %s (%s), controller %v", o.APIVersion, o.Kind, o.Name, o.UID, o.Controller != nil)
		}
		lines = append(lines, fmt.Sprintf("  %s %v %s, %s, annotations %v, %d volumes, %q, grace of its deletion %v",
			p.Name, p.Labels, p.Status.Phase, owner, p.Annotations, len(p.Spec.Volumes), p.Spec.PriorityClassName, p.DeletionGracePeriodSeconds))
	}
	return strings.Join(lines, "\n")
}

func makeClasses(ctx context.Context, t *testing.T, l *testlab.Lab) {
	t.Helper()
	for name, value := range map[string]int32{"low": -10, "high": 1000} {
		must(t, created(l.Client().SchedulingV1().PriorityClasses().Create(ctx, class(name, value), metav1.CreateOptions{})))
	}
}
