package realfdb

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/await"
)

// stepLimit ends a step that hangs.
const stepLimit = 15 * time.Minute

// until waits for the set to be as done says.
func (d *database) until(t *testing.T, what string, done func(*v1alpha1.MemberSet) bool) {
	t.Helper()
	source := await.Source[*v1alpha1.MemberSet]{Client: d.own, Resource: "membersets", Namespace: d.namespace}
	waitUntil(t, source, what, func(all []*v1alpha1.MemberSet) bool { return len(all) == 1 && done(all[0]) })
}

// waitUntil waits as testlab.WaitFor does, as long as a step may take.
func waitUntil[T await.Object](t *testing.T, source await.Source[T], what string, done func([]T) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), stepLimit, fmt.Errorf("not within %s", stepLimit))
	defer cancel()
	if err := await.Until(ctx, source, done); err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

// isWhole waits until the set has as many members as it says, all of them as it says, and nothing is under way.
func (d *database) isWhole(t *testing.T, members int) {
	t.Helper()
	d.until(t, fmt.Sprintf("a set of %d members that is whole", members), func(set *v1alpha1.MemberSet) bool {
		return len(set.Status.Members) == members && whole(set)
	})
	policies := await.Source[*v1alpha1.EvictionPolicy]{Client: d.own, Resource: "evictionpolicies", Namespace: d.namespace}
	waitUntil(t, policies, "nothing to be under way", func(all []*v1alpha1.EvictionPolicy) bool {
		return len(all) == 1 && len(all[0].Status.Preparations)+len(all[0].Status.Replacing) == 0
	})
	if left := d.ask(t, "exclude"); strings.Contains(left, "locality_instance_id") {
		t.Errorf("something is still excluded: %s", left)
	}
}

func whole(set *v1alpha1.MemberSet) bool {
	ready := slices.ContainsFunc(set.Status.Conditions, func(c metav1.Condition) bool { return c.Type == "Ready" && c.Status == metav1.ConditionTrue })
	return ready && set.Status.ObservedGeneration == set.Generation && set.Status.Maintenance == nil &&
		!slices.ContainsFunc(set.Status.Groups, func(g v1alpha1.MemberGroupStatus) bool { return g.UpdatedCount != g.Replicas }) &&
		!slices.ContainsFunc(set.Status.Members, func(m v1alpha1.SetMember) bool { return m.Removal != nil || m.State == v1alpha1.MemberJoining })
}

// members are the pods of the set's members, in the order of their names, of one class or of all ("").
func (d *database) members(t *testing.T, class string) []corev1.Pod {
	t.Helper()
	list, err := d.lab.Client().CoreV1().Pods(d.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: v1alpha1.MemberSetLabel + "=" + setName})
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return class != "" && p.Labels["class"] != class })
}

// ids are the names of pods.
func ids(pods []corev1.Pod) []string {
	var all []string
	for i := range pods {
		all = append(all, pods[i].Name)
	}
	return all
}

// on are the pods on a node.
func on(pods []corev1.Pod, node string) []corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool { return p.Spec.NodeName != node })
}

// clusterFile is what the ConfigMap has.
func (d *database) clusterFile(t *testing.T) string {
	t.Helper()
	found, err := d.lab.Client().CoreV1().ConfigMaps(d.namespace).Get(t.Context(), "fdb-config", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return found.Data["cluster-file"]
}

// ask runs a command of fdbcli by the ConfigMap.
func (d *database) ask(t *testing.T, command string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fdb.cluster")
	if err := os.WriteFile(file, []byte(d.clusterFile(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), d.fdbcli, "-C", file, "--no-status", "--timeout", "60", "--exec", command).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
	return string(out)
}

// addresses are those at which members are reached, by their pods' names: of a Service where a member has one.
func (d *database) addresses(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, p := range d.members(t, "") {
		found[p.Name] = p.Status.PodIP
	}
	services, err := d.lab.Client().CoreV1().Services(d.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range services.Items {
		if s := &services.Items[i]; found[s.Name] != "" {
			found[s.Name] = s.Spec.ClusterIP
		}
	}
	return found
}

// coordinator is a storage member that is one.
func (d *database) coordinator(t *testing.T) corev1.Pod {
	t.Helper()
	file, pods, addresses := d.clusterFile(t), d.members(t, "storage"), d.addresses(t)
	at := slices.IndexFunc(pods, func(p corev1.Pod) bool { return strings.Contains(file, addresses[p.Name]+":") })
	if at < 0 {
		t.Fatalf("no storage member is a coordinator of %s", file)
	}
	return pods[at]
}

// patch changes the set's spec by a JSON patch.
func (d *database) patch(t *testing.T, operations string) {
	t.Helper()
	d.kubectl(t, "", "patch", "memberset", setName, "--type=json", "-p", "["+operations+"]")
}
