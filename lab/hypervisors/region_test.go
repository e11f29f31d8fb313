package hypervisors

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/install"
	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/openstack"
	"usher.sh/usher/lab/testlab"
)

// agents are the DaemonSets of a host's agents, by the role that their pods have, with the hosts that they are on.
var agents = map[string]struct {
	app   string
	hosts []string
}{
	"nova-compute":       {"nova", openstack.Computes()},
	"neutron-l3-agent":   {"l3", routing},
	"neutron-dhcp-agent": {"dhcp", routing},
	"neutron-bgp-agent":  {"bgp", routing},
	"neutron-l2-agent":   {"ovs", append(openstack.Computes(), openstack.NetworkHost)},
}

// routing are the hosts with agents of Neutron that have something.
var routing = []string{"compute-1", "compute-2", openstack.NetworkHost}

// region is an OpenStack whose hosts are the nodes of a lab, with managers that have exactly the rights which the documents give them.
type region struct {
	lab           *testlab.Lab
	cloud         *openstack.Cloud
	managers      *testlab.Managers
	client        client.Client
	own           rest.Interface
	namespace     string
	keystone      *gophercloud.ServiceClient
	nova, neutron *gophercloud.ServiceClient
	flavor        string
	requests      *requests // what the managers ask, by a region of the catalog of their own; nil: not counted
}

func newRegion(t *testing.T) *region {
	t.Helper()
	began := time.Now()
	r := &region{cloud: openstack.Start(t)}
	part(t, "OpenStack starts", began)
	began = time.Now()
	defer part(t, "Kubernetes and Usher start", began)
	r.connect(t)
	if *figured {
		r.count(t)
	}
	r.lab = testlab.Start(t, testlab.WithNodeGrace(30*time.Second)) // simulated kubelets renew their Leases every ten seconds
	scheme := runtime.NewScheme()
	must(t, clientgoscheme.AddToScheme(scheme))
	must(t, v1alpha1.AddToScheme(scheme))
	var err error
	r.client, err = client.New(r.lab.RESTConfig(), client.Options{Scheme: scheme})
	must(t, err)
	r.own = r.lab.UsherAPI(t)
	r.managers = r.lab.Managers(t, 2)
	install := exec.CommandContext(t.Context(), r.lab.Usher(t), "install", "--kubeconfig", r.lab.Kubeconfig(), "--webhook-url", r.managers.URL(), "--maintenance")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("installing usher: %v: %s", err, out)
	}
	r.lab.NamedNodes(t, append(openstack.Computes(), openstack.NetworkHost)...)
	r.namespace = r.lab.Namespace(t)
	must(t, r.client.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "usher-lost-nodes"}, Subjects: manager,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "usher-lost-nodes"},
	}))
	for _, agent := range agents {
		r.lab.DaemonSet(t, r.namespace, agent.app, onHosts(agent.hosts))
		r.lab.WaitReady(t, r.namespace, testlab.Labels(agent.app), len(agent.hosts))
	}
	var entries []v1alpha1.MemberSelector
	for role, agent := range agents {
		entry := v1alpha1.MemberSelector{
			Role: role, Selector: metav1.LabelSelector{MatchLabels: testlab.Labels(agent.app)}, Leaves: v1alpha1.LeavesLoad, Controllers: []string{simulated},
		}
		if role == "neutron-l2-agent" {
			entry.LeavesAfter = []string{"nova-compute", "neutron-l3-agent", "neutron-dhcp-agent", "neutron-bgp-agent"}
		}
		entries = append(entries, entry)
	}
	r.govern(t, r.namespace, entries...)
	return r
}

func onHosts(hosts []string) func(*appsv1.DaemonSet) {
	return func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.Affinity = affinity(hosts) }
}

func affinity(hosts []string) *corev1.Affinity {
	own := corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: hosts}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{own}}},
	}}}
}

// simulated is the user that ends pods, as kubelets do.
const simulated = "kwok"

// manager is what the rights are given to.
var manager = []rbacv1.Subject{{Kind: "ServiceAccount", Name: "usher-manager", Namespace: install.DefaultNamespace}}

// govern makes a policy called cloud over agents whose ids are their nodes' names, with its Secret, and waits until it is at work.
func (r *region) govern(t *testing.T, namespace string, entries ...v1alpha1.MemberSelector) {
	t.Helper()
	for i := range entries {
		entries[i].ID = "pod.node"
	}
	for _, made := range []client.Object{
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "usher-secrets"}, Subjects: manager,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "usher-secrets"},
		},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "keystone"}, StringData: map[string]string{"clouds.yaml": r.cloud.Clouds()}},
		&v1alpha1.EvictionPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cloud"},
			Spec: v1alpha1.EvictionPolicySpec{
				System:   v1alpha1.System{OpenStack: &v1alpha1.OpenStack{Clouds: v1alpha1.SecretKey{Name: "keystone", Key: "clouds.yaml"}, Region: r.requests.region()}},
				Evidence: v1alpha1.EvidenceLimits{MaxAge: metav1.Duration{Duration: 30 * time.Second}, Timeout: metav1.Duration{Duration: 25 * time.Second}},
				Members:  entries,
			},
		},
	} {
		must(t, r.client.Create(t.Context(), made))
	}
	r.waitPolicy(t, namespace, "it to govern", func(p *v1alpha1.EvictionPolicy) bool {
		ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
		return ready != nil && ready.Reason == "Governing" && ready.ObservedGeneration == p.Generation
	})
}

func (r *region) waitPolicy(t *testing.T, namespace, what string, done func(*v1alpha1.EvictionPolicy) bool) {
	t.Helper()
	var last *v1alpha1.EvictionPolicy
	defer func() {
		if t.Failed() && last != nil {
			t.Logf("the policy's status is %+v", last.Status)
		}
	}()
	source := await.Source[*v1alpha1.EvictionPolicy]{Client: r.own, Resource: "evictionpolicies", Namespace: namespace}
	testlab.WaitFor(t, source, "the policy: "+what, func(all []*v1alpha1.EvictionPolicy) bool {
		if len(all) == 0 {
			return false
		}
		last = all[0]
		return done(last)
	})
}

// settled reports whether nothing is prepared, and nothing emptied.
func settled(p *v1alpha1.EvictionPolicy) bool {
	return len(p.Status.Preparations) == 0 && len(p.Status.Emptied) == 0
}

// usher runs a command, and returns what it prints and its exit code.
func (r *region) usher(t *testing.T, args ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	return ended(t, exec.CommandContext(ctx, r.lab.Usher(t), append(args, "--kubeconfig", r.lab.Kubeconfig())...))
}

func (r *region) kubectl(t *testing.T, args ...string) (string, int) {
	t.Helper()
	return ended(t, exec.CommandContext(t.Context(), r.lab.Binary(t, "kubectl"), append([]string{"--kubeconfig", r.lab.Kubeconfig()}, args...)...))
}

// ended is what a command prints, and its exit code.
func ended(t *testing.T, command *exec.Cmd) (string, int) {
	t.Helper()
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err := command.Run()
	if _, badly := errors.AsType[*exec.ExitError](err); err != nil && !badly {
		t.Fatal(err)
	}
	return out.String(), command.ProcessState.ExitCode()
}

// succeeds runs a command that is to end well.
func (r *region) succeeds(t *testing.T, args ...string) string {
	t.Helper()
	out, code := r.usher(t, args...)
	if code != 0 {
		t.Fatalf("usher %s ended with %d:\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// why is what usher why says of the nova-compute of a host.
func (r *region) why(t *testing.T, host string) string {
	t.Helper()
	pods, err := r.lab.Client().CoreV1().Pods(r.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=nova", FieldSelector: "spec.nodeName=" + host})
	must(t, err)
	if len(pods.Items) != 1 {
		t.Fatalf("%d pods of nova-compute on %s", len(pods.Items), host)
	}
	out, _ := r.usher(t, "why", "pod/"+pods.Items[0].Name, "-n", r.namespace)
	return out
}

// giveBack ends maintenances, and waits until all that they have prepared is undone.
func (r *region) giveBack(t *testing.T, names ...string) {
	t.Helper()
	r.succeeds(t, append([]string{"maintain", "--delete"}, names...)...)
	r.waitPolicy(t, r.namespace, "everything to be given back", settled)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// until is openstack.Until for what Usher takes its turns for.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	openstack.Until(t, 5*time.Minute, what, done)
}
