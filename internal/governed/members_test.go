package governed

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
)

// lists counts the lists of pods.
type lists struct {
	client.Reader

	pods int
}

func (l *lists) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, ok := list.(*corev1.PodList); ok {
		l.pods++
	}
	return l.Reader.List(ctx, list, options...)
}

// judged is the verdict on db-0, whose policy may go by which pods are Ready, and how many lists past the cache it has cost. Crashed is
// a pod that the cache shows Ready still.
func judged(t *testing.T, evict v1alpha1.Evict, fresh bool, crashed string) (eviction.Answer, int) {
	t.Helper()
	policy := newPolicy("db", "db")
	policy.Spec.Roles[0].Evict = evict
	setting := func(crashed string) *setting {
		objects := []client.Object{policy.DeepCopy(), newPod("stranger", "cron", ready)}
		for _, name := range []string{"db-0", "db-1"} {
			pod := newPod(name, "db")
			if name != crashed {
				ready(pod)
			}
			objects = append(objects, pod)
		}
		return newSetting(t, objects...)
	}
	s := setting("")
	live := &lists{Reader: setting(crashed).store}
	s.gatherer.Live = live
	pod, _, err := s.gatherer.Pod(t.Context(), snapshot.Key{Namespace: "db", Name: "db-0"})
	if err != nil {
		t.Fatal(err)
	}
	in, err := s.gatherer.Input(t.Context(), Subject{Pod: pod, FreshMembers: fresh})
	if err != nil {
		t.Fatal(err)
	}
	in.Evidence = &eviction.Evidence{Observed: time.Now(), Members: map[string]eviction.Facts{"db-0": {}, "db-1": {}}}
	return eviction.Judge(in).Answer, live.pods
}

func ready(pod *corev1.Pod) {
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
}

// A cache whose watch hangs shows Ready what has crashed since: where a verdict rests on that, members are listed past it on demand. A
// policy that does not ask for it costs no list.
func TestMembersAreListedLive(t *testing.T) {
	floor := v1alpha1.Evict{AtOnce: new(int32(0)), MinReady: new(int32(1))}
	unready := v1alpha1.Evict{AtOnce: new(int32(0)), Rules: []v1alpha1.Rule{{Name: "all", Reason: "NotReady", Expression: "unready.size() == 0", Message: "no"}}}
	neither := v1alpha1.Evict{AtOnce: new(int32(0)), Rules: []v1alpha1.Rule{rule}}
	for name, c := range map[string]struct {
		evict   v1alpha1.Evict
		fresh   bool
		crashed string
		want    eviction.Answer
		lists   int
	}{
		"minReady, all are Ready":           {evict: floor, fresh: true, want: eviction.Allowed, lists: 1},
		"minReady, another has crashed":     {evict: floor, fresh: true, crashed: "db-1", want: eviction.Blocked, lists: 1},
		"minReady, by the cache":            {evict: floor, crashed: "db-1", want: eviction.Allowed},
		"unready, all are Ready":            {evict: unready, fresh: true, want: eviction.Allowed, lists: 1},
		"unready, another has crashed":      {evict: unready, fresh: true, crashed: "db-1", want: eviction.Blocked, lists: 1},
		"neither, and another has crashed":  {evict: neither, fresh: true, crashed: "db-1", want: eviction.Allowed},
		"neither, and nothing fresh wanted": {evict: neither, want: eviction.Allowed},
	} {
		t.Run(name, func(t *testing.T) {
			if got, lists := judged(t, c.evict, c.fresh, c.crashed); got != c.want || lists != c.lists {
				t.Errorf("%s after %d lists, want %s after %d", got, lists, c.want, c.lists)
			}
		})
	}
}
