package e2e

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	appsv1 "k8s.io/api/apps/v1"

	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/lab/testlab"
)

// priority makes a priority class and returns what gives it to a pod.
func (s *stage) priority(t *testing.T, name string, value int32) func(*corev1.Pod) {
	t.Helper()
	name = s.ns + "-" + name
	api := s.Client().SchedulingV1().PriorityClasses()
	if _, err := api.Create(t.Context(), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}) })
	s.awaitClass(t, name)
	return class(name)
}

// awaitClass asks until the apiserver knows the class: it refuses the pods of one that it has not seen. It keeps to
// itself what it has seen; nothing can be watched.
func (s *stage) awaitClass(t *testing.T, name string) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "class-"},
		Spec:       corev1.PodSpec{PriorityClassName: name, Containers: []corev1.Container{{Name: "main", Image: "none"}}},
	}
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		_, err := s.Client().CoreV1().Pods(s.ns).Create(ctx, pod, dry)
		if apierrors.IsForbidden(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		t.Fatal("the class is not known:", err)
	}
}

func class(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.PriorityClassName = name }
}

func TestOrderOfLeaving(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	high, low := s.priority(t, "high", 1000), s.priority(t, "low", -10)
	s.DaemonSet(t, s.ns, "7-agent", daemonSetOn(s.node), func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.PriorityClassName = s.ns + "-low" })
	s.Pod(t, s.ns, "6-dns", podOn(s.node), class("system-cluster-critical"))
	s.Pod(t, s.ns, "5-last", podOn(s.node), low, annotated(snapshot.OrderAnnotation, "1"))
	s.Pod(t, s.ns, "4-high", podOn(s.node), high)
	s.Pod(t, s.ns, "3-plain", podOn(s.node))
	s.Pod(t, s.ns, "2-low", podOn(s.node), low)
	s.Pod(t, s.ns, "1-first", podOn(s.node), high, annotated(snapshot.OrderAnnotation, "-1"))
	s.settled(t, 7)
	drainNode(t, s.node, "--force", "--daemonsets=evict").want(t, 0, "drained")
	want := []string{"1-first", "2-low", "3-plain", "4-high", "5-last", "6-dns", "7-agent"}
	got := slices.DeleteFunc(s.rec.ends(t, s.node), func(app string) bool { return app == "" })
	same(t, "order", got[:min(len(got), len(want))], want)
}

func TestVolumesHoldTheEnd(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	volume := s.Volume(t, s.ns, "data-db-0")
	s.StatefulSet(t, s.ns, "db", 1, func(st *appsv1.StatefulSet) {
		st.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{*testlab.Claim("data")}
	})
	s.settled(t, 1)
	attachment := s.attachment(t, volume)
	s.stickAttachment(t, attachment, "true")
	t.Cleanup(func() { s.stickAttachment(t, attachment, "false") })
	s.Nodes(t, 1)
	p := start(t, "drain", s.node)
	contains(t, p.blocked(t, "VolumeAttached").Message, volume)
	same(t, "left", s.rec.left(t, s.node), []string{})
	s.stickAttachment(t, attachment, "false")
	p.wait(t).want(t, 0, "drained")
}

func (s *stage) attachment(t *testing.T, volume string) string {
	t.Helper()
	name := ""
	testlab.WaitFor(t, s.VolumeAttachments(), "the volume to be attached", func(all []*storagev1.VolumeAttachment) bool {
		for _, a := range all {
			if *a.Spec.Source.PersistentVolumeName == volume && a.Status.Attached {
				name = a.Name
			}
		}
		return name != ""
	})
	return name
}

// stickAttachment keeps a volume from being detached, or lets it be.
func (s *stage) stickAttachment(t *testing.T, name, stuck string) {
	t.Helper()
	patch := `{"metadata":{"annotations":{"lab.usher.sh/stuck":"` + stuck + `"}}}`
	ctx := context.WithoutCancel(t.Context())
	_, err := s.Client().StorageV1().VolumeAttachments().Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil && stuck == "true" {
		t.Fatal(err)
	}
}
