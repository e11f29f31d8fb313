package policycache

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/expression"
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
	in.Evidence = &eviction.Evidence{Observed: time.Now(), Members: map[string]expression.Facts{"db-0": {}, "db-1": {}}}
	return eviction.Judge(in).Answer, live.pods
}

// sent is an apiserver that sends each pod anew: no two share memory.
type sent struct {
	client.Reader

	pods int
	pod  func(i int) *corev1.Pod
}

func (s *sent) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	from, _ := strconv.Atoi(o.Continue)
	to := min(s.pods, from+int(o.Limit))
	page := list.(*corev1.PodList)
	for i := from; i < to; i++ {
		page.Items = append(page.Items, *s.pod(i))
	}
	if to < s.pods {
		page.Continue = strconv.Itoa(to)
	}
	return nil
}

// large is a member of more than a megabyte, as a tenant may make it.
func large(i int) *corev1.Pod {
	text := func(bytes int) string { return strings.Repeat(string(rune('a'+i%26)), bytes) }
	claim := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: text(1 << 20)}
	return newPod(fmt.Sprintf("db-%05d", i), "db", ready, func(pod *corev1.Pod) {
		pod.Annotations = map[string]string{"large": text(250 << 10), "id": pod.Name + ";" + text(30<<10)}
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: claim}}}
	})
}

// Of members that are read past the cache little is kept, however large they are: a policy may have thousands, and eight verdicts of a
// namespace are made at a time.
func TestLiveMembersAreBounded(t *testing.T) {
	policy := newPolicy("db", "db")
	policy.Spec.Members[0].ID = "pod.annotations['id'].split(';')[0]"
	policy.Spec.Members = append(policy.Spec.Members, policy.Spec.Members...)
	s := newSetting(t, policy)
	live := &sent{pods: 40, pod: large}
	s.gatherer.Live = live
	declared := s.gatherer.Policies.Declared(policy)
	if claim, ok := declared.Policy.Claim(Facts(large(7))); !ok || claim.Member != "db-00007" {
		t.Fatalf("a large pod is %+v", claim)
	}
	if _, err := s.gatherer.freshRoster(t.Context(), declared); err != nil { // what is made once in a process is not weighed
		t.Fatal(err)
	}
	before := heap()
	roster, err := s.gatherer.freshRoster(t.Context(), declared)
	if err != nil {
		t.Fatal(err)
	}
	if each := (heap() - before) / int64(live.pods); each > 4<<10 {
		t.Errorf("%d bytes are kept of each member", each)
	}
	runtime.KeepAlive(roster)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// Whether a pod is guarded goes by the policies: its label is its author's to take off.
func TestGuarded(t *testing.T) {
	s := newSetting(t, newPolicy("db", "db", rule))
	labelled := func(pod *corev1.Pod) { pod.Labels[v1alpha1.PolicyLabel] = "db" }
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"a member":                   {newPod("db-0", "db", labelled), true},
		"a member without the label": {newPod("db-0", "db"), true},
		"a stranger":                 {newPod("web", "web"), false},
		"a stranger with the label":  {newPod("web", "web", labelled), false},
		"a pod of another namespace": {newPod("db-0", "db", func(pod *corev1.Pod) { pod.Namespace = "other" }), false},
	} {
		if got, err := s.gatherer.Guarded(t.Context(), c.pod); err != nil || got != c.want {
			t.Errorf("%s: %t, %v", name, got, err)
		}
	}
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
