package governed

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/testlab"
)

// tolerations: pods that exist tolerate what their role says, as far as the apiserver takes it, and an author's own where the policy says so.
func (s *stage) tolerations(t *testing.T) {
	s = s.another(t, func(p *v1alpha1.EvictionPolicy) {
		p.Spec.Roles[0].Tolerations = v1alpha1.Tolerations{NotReady: &v1alpha1.Toleration{Seconds: new(int64(60))}}
	})
	author := corev1.Toleration{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(77))}
	s.StatefulSet(t, s.ns, "db", 1, func(set *appsv1.StatefulSet) {
		set.Spec.Template.Spec.Tolerations = append(set.Spec.Template.Spec.Tolerations, author)
	})
	s.WaitReady(t, s.ns, testlab.Labels("db"), 1)
	s.tolerates(t, "what was set at creation", map[string]string{corev1.TaintNodeNotReady: "60", corev1.TaintNodeUnreachable: "77"})
	uid := s.pod(t, "db-0").UID

	s.changeRole(t, `{"notReady":{"seconds":5},"unreachable":{"forever":true}}`, v1alpha1.TolerationsKeepOwn)
	s.tolerates(t, "the role's seconds, and the author's", map[string]string{corev1.TaintNodeNotReady: "5", corev1.TaintNodeUnreachable: "77"})

	s.changeRole(t, `{"notReady":{"seconds":5},"unreachable":{"forever":true}}`, v1alpha1.TolerationsOverride)
	s.tolerates(t, "the role's instead of the author's", map[string]string{corev1.TaintNodeNotReady: "5", corev1.TaintNodeUnreachable: "forever"})

	s.setBack(t, "db-0", 77)
	s.changeRole(t, `{"notReady":{"seconds":6},"unreachable":{"forever":true}}`, v1alpha1.TolerationsOverride)
	s.tolerates(t, "the role's new seconds, and once more what the operator has set", map[string]string{corev1.TaintNodeNotReady: "6", corev1.TaintNodeUnreachable: "77"})
	if now := s.pod(t, "db-0"); now.UID != uid {
		t.Errorf("db-0 is %s, and was %s", now.UID, uid)
	}
	s.takenAway(t)
	s.endlessOnATaintedNode(t)
}

// changeRole sets tolerations of the policy's role.
func (s *stage) changeRole(t *testing.T, tolerations string, mode v1alpha1.TolerationMode) {
	t.Helper()
	body := fmt.Sprintf(`[{"op":"add","path":"/spec/roles/0/tolerations","value":%s},{"op":"add","path":"/spec/members/0/tolerations","value":%q}]`, tolerations, mode)
	must(t, s.client.Patch(t.Context(), s.policy(t), client.RawPatch(types.JSONPatchType, []byte(body))))
}

// tolerates waits until db-0 tolerates its node's taints for so long.
func (s *stage) tolerates(t *testing.T, what string, want map[string]string) {
	t.Helper()
	testlab.WaitFor(t, s.Pods(s.ns), "db-0 to tolerate "+what, func(all []*corev1.Pod) bool {
		for _, p := range all {
			if p.Name == "db-0" && fmt.Sprint(toleratedBy(p)) == fmt.Sprint(want) {
				return true
			}
		}
		return false
	})
}

// toleratedBy returns the first toleration of each taint of a node that cannot be reached.
func toleratedBy(p *corev1.Pod) map[string]string {
	found := map[string]string{}
	for _, each := range p.Spec.Tolerations {
		if _, known := found[each.Key]; known || each.Effect != corev1.TaintEffectNoExecute || each.Key != corev1.TaintNodeNotReady && each.Key != corev1.TaintNodeUnreachable {
			continue
		}
		found[each.Key] = "forever"
		if each.TolerationSeconds != nil {
			found[each.Key] = fmt.Sprint(*each.TolerationSeconds)
		}
	}
	return found
}

// setBack is what an operator does whose toleration was overridden.
func (s *stage) setBack(t *testing.T, name string, seconds int64) {
	t.Helper()
	p := s.pod(t, name)
	for i := range p.Spec.Tolerations {
		if p.Spec.Tolerations[i].Key == corev1.TaintNodeUnreachable {
			p.Spec.Tolerations[i].TolerationSeconds = &seconds
		}
	}
	_, err := s.Client().CoreV1().Pods(s.ns).Update(t.Context(), p, metav1.UpdateOptions{})
	must(t, err)
}

// takenAway: what an operator takes away comes back as the apiserver's default, and is left at that.
func (s *stage) takenAway(t *testing.T) {
	t.Helper()
	p := s.pod(t, "db-0")
	p.Spec.Tolerations = slices.DeleteFunc(p.Spec.Tolerations, func(each corev1.Toleration) bool { return each.Key == corev1.TaintNodeUnreachable })
	_, err := s.Client().CoreV1().Pods(s.ns).Update(t.Context(), p, metav1.UpdateOptions{})
	must(t, err)
	s.changeRole(t, `{"notReady":{"seconds":7},"unreachable":{"forever":true}}`, v1alpha1.TolerationsOverride)
	s.tolerates(t, "what was taken away, by default", map[string]string{corev1.TaintNodeNotReady: "7", corev1.TaintNodeUnreachable: "300"})
}

// endlessOnATaintedNode: Kubernetes drops the eviction that it has scheduled of a pod on a tainted node, once the pod tolerates the taint for ever.
func (s *stage) endlessOnATaintedNode(t *testing.T) {
	t.Helper()
	node := s.pod(t, "db-0").Spec.NodeName
	canary := s.Pod(t, s.ns, "canary", func(p *corev1.Pod) {
		p.Spec.NodeName = node
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(1))})
	})
	s.NodeLost(t, node)
	testlab.WaitFor(t, s.Pods(s.ns), "evictions of the pods on "+node+" to be scheduled", func(all []*corev1.Pod) bool {
		return slices.ContainsFunc(all, func(p *corev1.Pod) bool { return p.UID == canary.UID && p.DeletionTimestamp != nil })
	})
	s.changeRole(t, `{"notReady":{"forever":true},"unreachable":{"seconds":76}}`, v1alpha1.TolerationsOverride)
	s.tolerates(t, "another time", map[string]string{corev1.TaintNodeNotReady: "forever", corev1.TaintNodeUnreachable: "76"})
	s.changeRole(t, `{"notReady":{"forever":true},"unreachable":{"forever":true}}`, v1alpha1.TolerationsOverride)
	s.tolerates(t, "it for ever", map[string]string{corev1.TaintNodeNotReady: "forever", corev1.TaintNodeUnreachable: "forever"})
	eventually(t, "the eviction of db-0 to be dropped", func() bool { return s.hasEvent(t, "TaintManagerEviction", "db-0", "Cancelling deletion") })
}
