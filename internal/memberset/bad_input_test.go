package memberset

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

// grownByOne is a complete set of three that is to have a fourth member, whose pod is there and runs.
func grownByOne(t *testing.T, kind Kind) *world {
	t.Helper()
	w := formed(t, kind, 3)
	w.group().Replicas = new(int32(4))
	for range 20 {
		w.step(-1)
		if slices.Contains(w.podNames(), "kv-member-4") {
			break
		}
	}
	w.pass()
	return w
}

func (w *world) podNames() []string {
	var names []string
	for i := range w.in.Pods {
		names = append(names, w.in.Pods[i].Name)
	}
	return names
}

// What a set is given that cannot be is a sentence in its status, and nothing is removed for it.
func TestBadInput(t *testing.T) {
	status := func(kind, container, reason, message string) func(w *world) {
		return func(w *world) {
			waits := []corev1.ContainerStatus{{Name: container, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
			pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: waits}}
			if kind == "init" {
				pod.Status = corev1.PodStatus{InitContainerStatuses: waits}
			}
			p := w.podNamed("kv-member-4")
			p.Ready, p.Waiting = false, PodOf(w.in.Set, pod).Waiting
		}
	}
	for name, test := range map[string]struct {
		kind   Kind
		given  func(w *world)
		says   string
		remedy string
	}{
		"a template whose image is not there": {
			plain, status("", "etcd", "ImagePullBackOff", "Back-off pulling image \"etcd:9\""),
			`pod kv-member-4 is not Ready: container etcd: ImagePullBackOff Back-off pulling image "etcd:9"`, "where its template cannot start, correct it in spec.groups",
		},
		"a template that ends as it starts": {plain, status("", "etcd", "CrashLoopBackOff", ""), "pod kv-member-4 is not Ready: container etcd: CrashLoopBackOff", "correct it in spec.groups"},
		"a template that cannot be set up":  {plain, status("init", "copy", "CreateContainerConfigError", ""), "pod kv-member-4 is not Ready: container copy: CreateContainerConfigError", "correct it"},
		"a template that starts yet":        {plain, status("", "etcd", "ContainerCreating", ""), "pod kv-member-4 is not Ready", "if it stays so"},
		"a claim that cannot be bound": {
			plain, func(w *world) {
				p := w.podNamed("kv-member-4")
				p.Node, p.Ready, p.Unscheduled = "", false, "0/6 nodes are available: pod has unbound immediate PersistentVolumeClaims"
				for i := range w.in.Claims {
					w.in.Claims[i].Unbound = w.in.Claims[i].Member == "kv-member-4"
				}
			}, "pod kv-member-4 is on no node: 0/6 nodes are available: pod has unbound immediate PersistentVolumeClaims; its claim is bound to no volume: data-kv-member-4",
			"kubectl describe pvc data-kv-member-4 -n shop says why a claim is not bound",
		},
		"too few nodes": {plain, func(w *world) {
			p := w.podNamed("kv-member-4")
			p.Node, p.Ready, p.Unscheduled = "", false, "0/6 nodes are available"
		}, "pod kv-member-4 is on no node: 0/6 nodes are available", "make room for it"},
		"another set's pod with its label": {plain, func(w *world) {
			w.in.Pods = append(w.in.Pods, Pod{Object: Object{Name: "other-member-1", UID: "x"}})
		}, "pod other-member-1 carries the label usher.sh/member-set=kv, and was not made for this MemberSet", "kubectl label pod other-member-1 -n shop usher.sh/member-set-"},
		"another set's pod of its name": {plain, func(w *world) {
			w.podNamed("kv-member-4").Ours = false
		}, "pod kv-member-4 is there, and was not made for this MemberSet", "delete it, or move what it is for elsewhere"},
		"a role that there is not": {plain, func(w *world) {
			w.in.Unread = []Blocker{PolicyWrong("spec.members[0].role", `there is no role "etcd-membr"`)}
		}, `spec.groups[0].role: there is no role "etcd-membr"`, "usher roles lists the built-in roles"},
		"its list is not known while it grows": {listing, func(w *world) {
			w.in.List = Listing{Unread: "no endpoint answers"}
		}, "the system's list of members is not known: no endpoint answers", "see that its members run"},
		"its database is not there while it grows": {emptying, func(w *world) {
			w.mute = true
			w.look()
		}, "the system's list of members is not known: the database is not available", "see that its members run"},
	} {
		t.Run(name, func(t *testing.T) {
			w := grownByOne(t, test.kind)
			test.given(w)
			r := Decide(w.in)
			at := slices.IndexFunc(r.Status.Blockers, func(b v1alpha1.ReplacementBlocker) bool { return strings.HasPrefix(b.Message, test.says) })
			if at < 0 || !strings.Contains(r.Status.Blockers[at].Remedy, test.remedy) {
				t.Errorf("it says %+v", r.Status.Blockers)
			}
			removesNothing(t, &r)
		})
	}
}

// Before the system is formed, a container that does not start is named as well: it is why the system is not.
func TestAContainerThatDoesNotStartWhereASystemForms(t *testing.T) {
	for _, kind := range []Kind{listing, emptying} {
		t.Run(kind.Name, func(t *testing.T) {
			w := newWorld(kind, 3, t.Fatalf)
			w.image("broken")
			for range 20 {
				w.pass()
				w.step(-1)
			}
			w.pass()
			want := []string{
				"pod kv-member-1 is not Ready: container etcd: ImagePullBackOff", "pod kv-member-2 is not Ready: container etcd: ImagePullBackOff",
				"pod kv-member-3 is not Ready: container etcd: ImagePullBackOff",
			}
			r := Decide(w.in)
			if diff := cmp.Diff(want, saidOf(&r, PodNotReady)); diff != "" {
				t.Errorf("%s\n%+v", diff, r.Status.Blockers)
			}
		})
	}
}

func removesNothing(t *testing.T, r *Result) {
	t.Helper()
	for _, a := range r.Actions {
		if slices.Contains([]ActionKind{Expel, Empty, Mark, DeletePod, EvictPod, DeleteClaim, DeleteService, RetainVolume}, a.Kind) {
			t.Errorf("%s %s", a.Kind, a.Member)
		}
	}
}

// Where its system is not there for a while a set that grows has as many members as before, and goes on then.
func TestGrowthGoesOn(t *testing.T) {
	w := grownByOne(t, emptying)
	w.mute = true
	for range 30 {
		w.pass()
		r := w.step(-1)
		removesNothing(t, &r)
	}
	if m := w.memberNamed("kv-member-4"); !joining(m) || len(w.ids()) != 4 {
		t.Errorf("members %v, and the last is %s", w.ids(), m.State)
	}
	w.mute = false
	if !w.settle() || len(w.ids()) != 4 {
		t.Errorf("members %v: %+v", w.ids(), w.in.Set.Status.Blockers)
	}
}

// Where the pod of a successor is refused, as by a quota, the member whose place it is to take stays for as long as that lasts, and goes then.
func TestASuccessorThatIsRefused(t *testing.T) {
	const predecessor, successor = "kv-member-1", "kv-member-4"
	for _, kind := range []Kind{listing, plain, emptying} {
		t.Run(kind.Name, func(t *testing.T) {
			w := formed(t, kind, 3)
			w.mark(predecessor)
			refused := 0
			for range 60 {
				w.pass()
				w.permit()
				r := w.step(0)
				removesNothing(t, &r)
				for i := range r.Actions {
					if a := &r.Actions[i]; a.Kind == MakePod && a.Member == successor {
						refused++
						continue
					}
					w.carryOut(&r.Actions[i])
				}
			}
			if p := w.podNamed(predecessor); p.Terminating || refused == 0 || w.diskOf(predecessor).excluded {
				t.Errorf("its pod was refused %d times, and %s goes: %+v", refused, predecessor, w.memberNamed(predecessor))
			}
			if !w.settle() || slices.Contains(w.ids(), predecessor) || !slices.Contains(w.ids(), successor) {
				t.Errorf("once it was not there are %v: %+v", w.ids(), w.in.Set.Status.Blockers)
			}
		})
	}
}

func TestUnboundClaims(t *testing.T) {
	set := &v1alpha1.MemberSet{ObjectMeta: metav1.ObjectMeta{UID: "set"}}
	claim := &corev1.PersistentVolumeClaim{}
	if !ClaimOf(set, claim).Unbound {
		t.Error("without a volume it is bound")
	}
	claim.Spec.VolumeName = "pv-1"
	if ClaimOf(set, claim).Unbound {
		t.Error("with a volume it is not bound")
	}
}
