package governed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/install"
	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/binaries"
	"usher.sh/usher/lab/testlab"
)

// TestKustomize: config/default is what usher install applies.
func TestKustomize(t *testing.T) {
	t.Parallel()
	l := testlab.Get(t)
	root, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "usher.sh/usher").Output()
	must(t, err)
	built := run(t, l.Binary(t, "kubectl"), "kustomize", filepath.Join(strings.TrimSpace(string(root)), "config", "default"))
	if built.code != 0 {
		t.Fatal(built.out)
	}
	got := map[string]any{}
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(built.out), len(built.out))
	for {
		var object unstructured.Unstructured
		if decoder.Decode(&object.Object) != nil {
			break
		}
		got[install.Ref(&object)] = normal(t, object.Object)
	}
	want := map[string]any{}
	objects, err := install.Objects(install.Options{})
	must(t, err)
	for _, object := range objects {
		want[install.Ref(object)] = normal(t, object.Object)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-install +kustomize):\n%s", diff)
	}
}

// normal is the object as JSON has it, so that numbers are of one type.
func normal(t *testing.T, object map[string]any) map[string]any {
	t.Helper()
	text, err := json.Marshal(object)
	must(t, err)
	var same map[string]any
	must(t, json.Unmarshal(text, &same))
	return same
}

// TestInstall installs with the manager as a Deployment, on simulated nodes, and takes everything away again.
func TestInstall(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]testlab.Option{
		"with the eviction request API":    nil,
		"without the eviction request API": {testlab.WithoutEvictionRequestAPI()},
	} {
		served := options == nil && binaries.Chosen().EvictionRequestAPI
		if testing.Short() && options != nil {
			continue
		}
		t.Run(name, func(t *testing.T) { installAndRemove(t, testlab.Start(t, options...), served) })
	}
}

func installAndRemove(t *testing.T, l *testlab.Lab, served bool) {
	t.Helper()
	l.Nodes(t, 3)
	furnished(t, l)
	before := everything(t, l)
	usher := func(args ...string) result {
		t.Helper()
		return run(t, l.Usher(t), append(args, "--kubeconfig", l.Kubeconfig())...)
	}
	ok := func(r result) string {
		t.Helper()
		if r.code != 0 {
			t.Fatalf("exit code %d:\n%s", r.code, r.out)
		}
		return r.out
	}
	t.Run("dry runs change nothing", func(t *testing.T) {
		ok(usher("install", "--image", "usher:this", "--dry-run=client"))
		ok(usher("install", "--image", "usher:this", "--dry-run=server"))
		ok(usher("uninstall", "--dry-run"))
		if left := added(before, everything(t, l)); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	t.Run("install", func(t *testing.T) {
		out := ok(usher("install", "--image", "usher:this"))
		for _, part := range []string{"deployment/usher-manager in usher-system created", "installed"} {
			if !strings.Contains(out, part) {
				t.Errorf("no %q in:\n%s", part, out)
			}
		}
		d, err := l.Client().AppsV1().Deployments("usher-system").Get(t.Context(), "usher-manager", metav1.GetOptions{})
		must(t, err)
		if d.Status.AvailableReplicas != 2 {
			t.Errorf("installed, and %d of 2 replicas are available", d.Status.AvailableReplicas)
		}
		if strings.Contains(out, "lifecycle.usher.sh") == served {
			t.Errorf("our copy of the eviction request API, where the cluster serves it (%t):\n%s", served, out)
		}
	})
	t.Run("again", func(t *testing.T) {
		l.WaitBudget(t, "usher-system", "usher-manager", 2) // the last that others write into what was installed
		for line := range strings.Lines(ok(usher("install", "--image", "usher:this"))) {
			if !strings.HasSuffix(line, " unchanged\n") && !strings.HasPrefix(line, "installed") {
				t.Error(line)
			}
		}
	})
	t.Run("upgrade", func(t *testing.T) {
		out := ok(usher("install", "--image", "usher:next"))
		if !strings.Contains(out, "deployment/usher-manager in usher-system configured") {
			t.Error(out)
		}
		for _, p := range l.WaitReady(t, "usher-system", nil, 2) {
			if p.Spec.Containers[0].Image != "usher:next" {
				t.Errorf("%s runs %s", p.Name, p.Spec.Containers[0].Image)
			}
		}
	})
	t.Run("people", func(t *testing.T) {
		for role, writes := range map[string]bool{"view": false, "edit": false, "admin": true} {
			// The controller-manager gives it to them.
			source := await.Source[*rbacv1.ClusterRole]{Client: l.Client().RbacV1().RESTClient(), Resource: "clusterroles"}
			what := fmt.Sprintf("role %s to read policies, and to write them: %t", role, writes)
			testlab.WaitFor(t, source, what, func(all []*rbacv1.ClusterRole) bool {
				verbs := verbsOnPolicies(all, role)
				return slices.Contains(verbs, "get") && slices.Contains(verbs, "create") == writes && slices.Contains(verbs, "patch") == writes
			})
		}
	})
	t.Run("uninstall", func(t *testing.T) {
		ns := l.Namespace(t)
		l.Pod(t, ns, "a", member)
		ok(usher("uninstall"))
		onlyWhatWas(t, l, before, ns)
		p, err := l.Client().CoreV1().Pods(ns).Get(t.Context(), "a", metav1.GetOptions{})
		must(t, err)
		if label, ok := p.Labels[v1alpha1.PolicyLabel]; ok {
			t.Errorf("the pod has the label %s of a policy", label)
		}
		if out := ok(usher("uninstall")); out != "nothing of usher is in the cluster\n" {
			t.Errorf("removed a second time:\n%s", out)
		}
	})
}

// added returns what is there and was not before.
func added(before, now map[string]bool) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(now)), func(key string) bool { return before[key] })
}

// onlyWhatWas waits until there is no more than before, but for one namespace: an object that is deleted with what depends
// on it goes when the garbage collector has looked for that.
func onlyWhatWas(t *testing.T, l *testlab.Lab, before map[string]bool, but string) {
	t.Helper()
	var left []string
	defer func() {
		if len(left) > 0 {
			t.Logf("left behind: %v", left)
		}
	}()
	eventually(t, "everything to be gone that was installed", func() bool {
		left = slices.DeleteFunc(added(before, everything(t, l)), func(key string) bool { return strings.Contains(key, but) })
		return len(left) == 0
	})
}

func verbsOnPolicies(all []*rbacv1.ClusterRole, role string) []string {
	var verbs []string
	for _, r := range all {
		for _, rule := range r.Rules {
			if r.Name == role && slices.Contains(rule.Resources, "evictionpolicies") {
				verbs = append(verbs, rule.Verbs...)
			}
		}
	}
	return verbs
}

// furnished waits until the controller-manager has put into the namespaces that every cluster begins with what it puts
// into every namespace: nothing that comes later is from an installation.
func furnished(t *testing.T, l *testlab.Lab) {
	t.Helper()
	everywhere := []string{metav1.NamespaceDefault, metav1.NamespacePublic, metav1.NamespaceSystem, corev1.NamespaceNodeLease}
	core := l.Client().CoreV1().RESTClient()
	testlab.WaitFor(t, await.Source[*corev1.ServiceAccount]{Client: core, Resource: "serviceaccounts"}, "the default service accounts",
		func(all []*corev1.ServiceAccount) bool { return inAll(everywhere, "default", all) })
	testlab.WaitFor(t, await.Source[*corev1.ConfigMap]{Client: core, Resource: "configmaps"}, "the certificates of the cluster's authority",
		func(all []*corev1.ConfigMap) bool { return inAll(everywhere, "kube-root-ca.crt", all) })
}

func inAll[T metav1.Object](namespaces []string, name string, objects []T) bool {
	return !slices.ContainsFunc(namespaces, func(ns string) bool {
		return !slices.ContainsFunc(objects, func(o T) bool { return o.GetNamespace() == ns && o.GetName() == name })
	})
}

// everything lists all objects of the cluster, but those that come and go by themselves.
func everything(t *testing.T, l *testlab.Lab) map[string]bool {
	t.Helper()
	asked, err := discovery.NewDiscoveryClientForConfig(l.RESTConfig())
	must(t, err)
	kinds, err := asked.ServerPreferredResources()
	must(t, err)
	c, err := dynamic.NewForConfig(l.RESTConfig())
	must(t, err)
	all := map[string]bool{}
	for _, group := range kinds {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		must(t, err)
		for _, kind := range group.APIResources {
			if slices.Contains(kind.Verbs, "list") && kind.Name != "events" {
				list(t, c, version.WithResource(kind.Name), all)
			}
		}
	}
	return all
}

func list(t *testing.T, c dynamic.Interface, resource schema.GroupVersionResource, into map[string]bool) {
	t.Helper()
	objects, err := c.Resource(resource).List(t.Context(), metav1.ListOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		return
	}
	must(t, err)
	for _, o := range objects.Items {
		into[strings.Join([]string{resource.GroupResource().String(), o.GetNamespace(), o.GetName()}, " ")] = true
	}
}

// TestUninstallNamesWhatIsNotUndone: no manager runs that could undo a preparation, and the output names it.
func TestUninstallNamesWhatIsNotUndone(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	ns := r.namespace(t, true)
	policy := examplePolicy(ns, "db")
	policy.Finalizers = []string{"usher.sh/undo"}
	must(t, r.client.Create(t.Context(), policy))
	r.labels(t, ns, v1alpha1.AuditedLabel)
	r.lab.Pod(t, ns, "db-0", auditedMember, nowhere)
	policy.Status.Preparations = []v1alpha1.PreparationStatus{{MemberRef: v1alpha1.MemberRef{ID: "PRMR-1", PodName: "db-0"}, Name: "CleanOut", StartTime: metav1.Now(), LastRequestTime: metav1.Now(), State: v1alpha1.PreparationBegun}}
	must(t, r.client.Status().Update(t.Context(), policy))
	var out bytes.Buffer
	objects, err := install.Objects(install.Options{})
	must(t, err)
	c := install.Cluster{Client: r.client, Out: &out, UndoPatience: time.Second, RemovalPatience: 10 * time.Second}
	must(t, c.Remove(t.Context(), objects, install.DefaultNamespace, false))
	for _, part := range []string{"not undone: CleanOut of member PRMR-1", "label usher.sh/governed of 1 objects", "label usher.sh/audited of 1 objects", "label usher.sh/audit of 1 objects", "namespace/usher-system removed"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("no %q in:\n%s", part, out.String())
		}
	}
	if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(policy), policy); err == nil {
		t.Error("the policy is still there")
	}
}
