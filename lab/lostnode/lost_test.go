package lostnode

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/testlab"
)

// TestLostNodes: with exactly the rights that are shipped, a node that dies is turned off, proven off and cleared, its database goes on elsewhere with its
// disk, and it is trusted again once it has booted anew. The manager is killed as it asks for the power to be cut, so that it never reads the answer.
// Without the proof nothing moves. So it is for simulated nodes, and for real ones.
func TestLostNodes(t *testing.T) {
	r := newRig(t)
	t.Run("the rights are asked for", r.rightsAreAskedFor)
	r.allow(t)
	t.Run("proven off", r.provenOff)
	t.Run("no proof", r.noProof)
	t.Run("a silent zone", r.silentZone)
	t.Run("real nodes", r.realNodes)
}

// rightsAreAskedFor: without the optional role nothing is done, and the policy says what to type.
func (r *rig) rightsAreAskedFor(t *testing.T) {
	name := r.Nodes(t, 1, "zone-r")[0]
	r.policy(t, "rights", inZones("zone-r"))
	r.silence(t, name)
	testlab.WaitFor(t, r.policies, "the policy to ask for the rights", func(all []*v1alpha1.LostNodePolicy) bool {
		for _, p := range all {
			c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
			if c != nil && strings.Contains(c.Message, "kubectl create clusterrolebinding usher-lost-nodes --clusterrole=usher-lost-nodes") {
				t.Log(c.Message)
				return true
			}
		}
		return false
	})
	if n := r.power.requests(name); n > 0 {
		t.Errorf("%d requests", n)
	}
}

func (r *rig) provenOff(t *testing.T) {
	zones := []string{"zone-a", "zone-b", "zone-c"}
	r.Nodes(t, 3, zones...)
	ns, pod := r.database(t, zones...)
	name := pod.Spec.NodeName
	killed := make(chan struct{})
	kill := sync.OnceFunc(func() {
		r.managers.Kill(t, 0)
		close(killed)
	})
	r.power.onRequest(func(string) { kill() })
	t.Cleanup(func() { r.power.onRequest(nil) })
	tainted := r.watchTaint(t, name)
	r.policy(t, "proven", inZones(zones...))
	began := time.Now()
	r.silence(t, name)
	select {
	case <-killed:
	case <-time.After(5 * time.Minute):
		t.Fatal("nothing asked for the power to be cut")
	}
	r.step(t, name, v1alpha1.FenceCalling)
	r.managers.Start(t, 0)
	fence := r.step(t, name, v1alpha1.FenceWaitingForNewBoot)
	t.Logf("cleared %s after the silence began: proven by %s; requested %d times, result %s", time.Since(began).Round(time.Second), fence.Status.ProvenBy, fence.Status.Requests, fence.Status.RequestResult)
	if n := r.power.requests(name); n != 1 || fence.Status.RequestResult != v1alpha1.RequestUnknown {
		t.Errorf("%d requests, the last %s", n, fence.Status.RequestResult)
	}
	if value := outOfService(r.node(t, name)); value != v1alpha1.OutOfServiceValue {
		t.Errorf("the taint's value is %q", value)
	}
	moved := r.WaitReady(t, ns, testlab.Labels("db"), 1)[0]
	if moved.UID == pod.UID || moved.Spec.NodeName == name {
		t.Errorf("the database is on %s", moved.Spec.NodeName)
	}
	r.attached(t, ns, moved.Spec.NodeName)
	t.Logf("the database is up on another node, with its disk, %s after the silence began", time.Since(began).Round(time.Second))
	if off := r.power.offSince(name); off.IsZero() || tainted().Before(off) {
		t.Errorf("tainted at %s, off at %s", tainted(), off)
	}
	r.power.on(name)
	r.revive(t, name, "boot-1")
	stays := r.step(t, name, v1alpha1.FenceSameBoot)
	says(t, "a node that is back with its boot", conditionOf(stays), "reboot it")
	if outOfService(r.node(t, name)) == "" {
		t.Error("a node is trusted in the boot that was proven off")
	}
	r.revive(t, name, "boot-2")
	r.step(t, name, v1alpha1.FenceEnded)
	if value := outOfService(r.node(t, name)); value != "" {
		t.Errorf("the taint %q is left", value)
	}
}

// watchTaint returns when the node was first seen with the taint.
func (r *rig) watchTaint(t *testing.T, name string) func() time.Time {
	t.Helper()
	var at atomic.Pointer[time.Time]
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = await.Until(ctx, r.AllNodes(), func(all []*corev1.Node) bool {
			for _, n := range all {
				if n.Name == name && outOfService(n) != "" {
					now := time.Now()
					at.Store(&now)
					return true
				}
			}
			return false
		})
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return func() time.Time {
		if seen := at.Load(); seen != nil {
			return *seen
		}
		return time.Time{}
	}
}

func conditionOf(f *v1alpha1.NodeFence) string {
	if c := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		return c.Message
	}
	return ""
}

// noProof: what does not go off releases nothing, until a person says that it is off.
func (r *rig) noProof(t *testing.T) {
	t.Parallel()
	zones := []string{"zone-d", "zone-e", "zone-f"}
	r.Nodes(t, 3, zones...)
	ns, pod := r.database(t, zones...)
	name := pod.Spec.NodeName
	r.power.keepOn(name)
	out, code := r.usher(t, r.Kubeconfig(), "fence", name, "--confirm")
	says(t, "a node that answers", out, "is not lost", "Cut the machine's power")
	if code != 2 {
		t.Errorf("exit code %d", code)
	}
	r.policy(t, "unproven", inZones(zones...))
	r.silence(t, name)
	fence := r.step(t, name, v1alpha1.FenceWaitingForProof, stalled)
	says(t, "the fence", conditionOf(fence), "not proven off within 1m0s", "Nothing with a disk goes anywhere", "usher fence "+name+" --confirm")
	if n := r.power.requests(name); n != 1 {
		t.Errorf("%d requests", n)
	}
	still, err := r.Client().CoreV1().Pods(ns).Get(t.Context(), pod.Name, metav1.GetOptions{})
	must(t, err)
	if still.UID != pod.UID || outOfService(r.node(t, name)) != "" {
		t.Errorf("without the proof the pod is %s, the taint %q", still.UID, outOfService(r.node(t, name)))
	}
	r.attached(t, ns, name)
	out, code = r.usher(t, r.Kubeconfig(), "why", "node/"+name)
	says(t, "why of the node", out, "Ready is Unknown", "WaitingForProof", "observed On")
	if code != 2 {
		t.Errorf("exit code %d", code)
	}
	out, _ = r.usher(t, r.Kubeconfig(), "why", pod.Name, "-n", ns)
	says(t, "why of the pod", out, "its node is lost", "WaitingForProof")
	r.personsWord(t, name, pod, ns)
}

func (r *rig) personsWord(t *testing.T, name string, pod *corev1.Pod, ns string) {
	t.Helper()
	out, code := r.usher(t, r.Kubeconfig(), "fence", name)
	says(t, "without --confirm", out, "Nothing was recorded yet", "boot-1", "usher fence "+name+" --confirm")
	if code != 2 {
		t.Errorf("exit code %d", code)
	}
	out, code = r.usher(t, r.Kubeconfig(), "fence", "nowhere", "--confirm")
	says(t, "a node that is not there", out, `there is no node "nowhere"`)
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	reads := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get"}},
		{APIGroups: []string{"usher.sh"}, Resources: []string{"nodefences"}, Verbs: []string{"list"}},
	}
	_, reader := r.As(t, reads)
	out, code = r.usher(t, reader, "fence", name, "--confirm")
	says(t, "without the right", out, "you may not say so, and nothing was recorded", "nodefences.usher.sh")
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	r.anothersWord(t, name)
	r.personIsBelieved(t, name, pod, ns)
}

// anothersWord: who may write fences cannot give another's word.
func (r *rig) anothersWord(t *testing.T, name string) {
	t.Helper()
	fence := r.step(t, name, v1alpha1.FenceWaitingForProof)
	fence.Spec.Confirmation = &v1alpha1.FenceConfirmation{Requester: "somebody-else"}
	fence.Spec.Confirmation.Time = fence.CreationTimestamp
	err := r.client.Update(t.Context(), fence)
	if err == nil {
		t.Fatal("another's word is taken")
	}
	says(t, "another's word", err.Error(), "must be the user who gives the word")
}

func (r *rig) personIsBelieved(t *testing.T, name string, pod *corev1.Pod, ns string) {
	t.Helper()
	out, code := r.usher(t, r.Kubeconfig(), "fence", name, "--confirm")
	says(t, "a person's word", out, "recorded in fence")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, out)
	}
	fence := r.step(t, name, v1alpha1.FenceWaitingForNewBoot)
	says(t, "the proof", fence.Status.ProvenBy, "the word of")
	moved := r.WaitReady(t, ns, testlab.Labels("db"), 1)[0]
	if moved.UID == pod.UID || moved.Spec.NodeName == name {
		t.Errorf("the database is on %s", moved.Spec.NodeName)
	}
	r.attached(t, ns, moved.Spec.NodeName)
	must(t, r.client.Delete(t.Context(), fence))
	testlab.WaitFor(t, r.AllNodes(), "the taint to go with the fence that overrules it", func(all []*corev1.Node) bool {
		for _, n := range all {
			if n.Name == name && outOfService(n) != "" {
				return false
			}
		}
		return true
	})
}

// silentZone: two nodes of one zone that fall silent are a network.
func (r *rig) silentZone(t *testing.T) {
	t.Parallel()
	names := r.Nodes(t, 2, "zone-z")
	r.policy(t, "zone", inZones("zone-z"))
	for _, name := range names {
		r.silence(t, name)
	}
	testlab.WaitFor(t, r.policies, "the policy to see a silent zone", func(all []*v1alpha1.LostNodePolicy) bool {
		for _, p := range all {
			c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled)
			if p.Name == "zone" && c != nil && c.Status == "True" && strings.Contains(c.Message, "2 nodes of zone zone-z are unreachable") {
				t.Log(c.Message)
				return true
			}
		}
		return false
	})
	for _, name := range names {
		if n := r.power.requests(name); n > 0 {
			t.Errorf("%s: %d requests", name, n)
		}
	}
}
