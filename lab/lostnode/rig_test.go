package lostnode

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/install"
	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/testlab"
)

// rig is a lab with one manager that has the rights to fence, and what controls the machines' power.
type rig struct {
	*testlab.Lab
	managers *testlab.Managers
	power    *power
	client   client.Client
	fences   await.Source[*v1alpha1.NodeFence]
	policies await.Source[*v1alpha1.LostNodePolicy]
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{Lab: testlab.Get(t), power: newPower(t)}
	scheme := runtime.NewScheme()
	must(t, clientgoscheme.AddToScheme(scheme))
	must(t, v1alpha1.AddToScheme(scheme))
	var err error
	r.client, err = client.New(r.RESTConfig(), client.Options{Scheme: scheme})
	must(t, err)
	own := r.UsherAPI(t)
	r.fences = await.Source[*v1alpha1.NodeFence]{Client: own, Resource: "nodefences"}
	r.policies = await.Source[*v1alpha1.LostNodePolicy]{Client: own, Resource: "lostnodepolicies"}
	r.managers = r.Managers(t, 1)
	return r
}

// allow binds what an admin binds who wants lost nodes fenced.
func (r *rig) allow(t *testing.T) {
	t.Helper()
	manager := []rbacv1.Subject{{Kind: "ServiceAccount", Name: "usher-manager", Namespace: install.DefaultNamespace}}
	for _, object := range []client.Object{
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "usher-lost-nodes"}, Subjects: manager,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "usher-lost-nodes"},
		},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: install.DefaultNamespace, Name: "usher-secrets"}, Subjects: manager,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "usher-secrets"},
		},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: install.DefaultNamespace, Name: "bmc"}, StringData: map[string]string{"token": "Bearer secret"}},
	} {
		must(t, r.client.Create(t.Context(), object))
	}
}

// inZones selects nodes by their zone, of which each test has its own.
func inZones(zones ...string) metav1.LabelSelector {
	return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: corev1.LabelTopologyZone, Operator: metav1.LabelSelectorOpIn, Values: zones},
	}}
}

// policy fences nodes over HTTP.
func (r *rig) policy(t *testing.T, name string, nodes metav1.LabelSelector) {
	t.Helper()
	policy := &v1alpha1.LostNodePolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.LostNodePolicySpec{
			NodeSelector: nodes, UnreachableAfter: metav1.Duration{Duration: time.Minute},
			Fence: v1alpha1.Fence{HTTP: &v1alpha1.HTTPFence{
				Method: "POST", URL: r.power.URL + "/off/{{node.name}}", Body: `{"node": {{node.name}}}`,
				Headers:      []v1alpha1.Header{{Name: "Authorization", Secret: &v1alpha1.SecretKey{Name: "bmc", Key: "token"}}},
				Observe:      v1alpha1.HTTPObservation{URL: r.power.URL + "/{{node.name}}", Until: `answer.PowerState == "Off"`},
				ProvenWithin: metav1.Duration{Duration: time.Minute},
			}},
		},
	}
	must(t, r.client.Create(t.Context(), policy))
	t.Cleanup(func() { _ = r.client.Delete(context.WithoutCancel(t.Context()), policy) })
}

// database starts a StatefulSet of one pod in zones, whose disk can follow it.
func (r *rig) database(t *testing.T, zones ...string) (ns string, pod *corev1.Pod) {
	t.Helper()
	ns = r.Namespace(t)
	r.Volume(t, ns, "data-db-0")
	r.StatefulSet(t, ns, "db", 1, func(s *appsv1.StatefulSet) {
		s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{*testlab.Claim("data")}
		s.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: zones}},
			}}},
		}}
	})
	pod = r.WaitReady(t, ns, testlab.Labels("db"), 1)[0]
	r.attached(t, ns, pod.Spec.NodeName)
	return ns, pod
}

// attached waits until the disk of the database is attached to a node, and to no other.
func (r *rig) attached(t *testing.T, ns, node string) {
	t.Helper()
	testlab.WaitFor(t, r.VolumeAttachments(), "the disk of "+ns+" at "+node, func(all []*storagev1.VolumeAttachment) bool {
		var at []string
		for _, a := range all {
			if v := a.Spec.Source.PersistentVolumeName; v != nil && *v == ns+"-data-db-0" && a.Status.Attached {
				at = append(at, a.Spec.NodeName)
			}
		}
		return slices.Equal(at, []string{node})
	})
}

// silence makes the simulator leave a node alone, as if its machine had lost its power: another holds its Lease, for a day. To Kubernetes'
// controller of nodes a Lease that was changed and not renewed is one that it does not see yet, so it is renewed a last time.
func (r *rig) silence(t *testing.T, node string) {
	t.Helper()
	now := metav1.NowMicro().UTC().Format(metav1.RFC3339Micro)
	r.lease(t, node, `{"spec":{"holderIdentity":"nobody","leaseDurationSeconds":86400,"renewTime":"`+now+`"}}`)
}

// revive has the simulator look after a node again, in that boot.
func (r *rig) revive(t *testing.T, node, boot string) {
	t.Helper()
	_, err := r.Client().CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, []byte(`{"status":{"nodeInfo":{"bootID":"`+boot+`"}}}`), metav1.PatchOptions{}, "status")
	must(t, err)
	r.lease(t, node, `{"spec":{"holderIdentity":null,"leaseDurationSeconds":40}}`)
}

func (r *rig) lease(t *testing.T, node, patch string) {
	t.Helper()
	_, err := r.Client().CoordinationV1().Leases(corev1.NamespaceNodeLease).Patch(t.Context(), node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	must(t, err)
}

// step waits until the fence of a node is at a step, and returns it.
func (r *rig) step(t *testing.T, node string, step v1alpha1.FenceStep, more ...func(*v1alpha1.NodeFence) bool) *v1alpha1.NodeFence {
	t.Helper()
	var found *v1alpha1.NodeFence
	testlab.WaitFor(t, r.fences, "the fence of "+node+" to be at "+string(step), func(all []*v1alpha1.NodeFence) bool {
		for _, f := range all {
			if f.Spec.NodeName == node && f.Status.Step == step && !slices.ContainsFunc(more, func(is func(*v1alpha1.NodeFence) bool) bool { return !is(f) }) {
				found = f
				return true
			}
		}
		return false
	})
	return found
}

func stalled(f *v1alpha1.NodeFence) bool {
	return meta.IsStatusConditionTrue(f.Status.Conditions, v1alpha1.ConditionStalled)
}

func (r *rig) node(t *testing.T, name string) *corev1.Node {
	t.Helper()
	node, err := r.Client().CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	return node
}

func outOfService(node *corev1.Node) string {
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeOutOfService {
			return taint.Value
		}
	}
	return ""
}

// usher runs a command, and returns what it prints and its exit code.
func (r *rig) usher(t *testing.T, kubeconfig string, args ...string) (string, int) {
	t.Helper()
	command := exec.CommandContext(t.Context(), r.Usher(t), append(args, "--kubeconfig", kubeconfig)...)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err := command.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return out.String(), command.ProcessState.ExitCode()
}

func says(t *testing.T, what, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("%s: %q, want %q", what, got, w)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
