package install

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/snapshot"
)

func objects(t *testing.T, o Options) []*unstructured.Unstructured {
	t.Helper()
	all, err := Objects(o)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func yamlOf(t *testing.T, all []*unstructured.Unstructured) string {
	t.Helper()
	var b strings.Builder
	for _, object := range all {
		data, err := yaml.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString("---\n")
		b.Write(data)
	}
	return b.String()
}

func has(all []*unstructured.Unstructured, ref string) bool {
	return slices.ContainsFunc(all, func(o *unstructured.Unstructured) bool { return strings.HasPrefix(Ref(o), ref) })
}

func TestObjectsInOrder(t *testing.T) {
	var kinds []string
	for _, object := range objects(t, Options{}) {
		if kind := object.GetKind(); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	want := []string{
		"Namespace", "CustomResourceDefinition", "ServiceAccount", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
		"ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding",
		"Service", "PodDisruptionBudget", "Deployment", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
	}
	if !slices.Equal(kinds, want) {
		t.Errorf("kinds %v, want %v", kinds, want)
	}
}

func TestObjectsInAnotherNamespace(t *testing.T) {
	all := objects(t, Options{Namespace: "guards"})
	if strings.Contains(yamlOf(t, all), DefaultNamespace) {
		t.Errorf("%s is named in:\n%s", DefaultNamespace, yamlOf(t, all))
	}
	for _, object := range all {
		ofLeases := strings.HasPrefix(object.GetKind(), "Role") && object.GetNamespace() == snapshot.LeaseNamespace
		if ns := object.GetNamespace(); ns != "" && ns != "guards" && !ofLeases {
			t.Errorf("%s", Ref(object))
		}
	}
}

func TestObjectsWithImage(t *testing.T) {
	if all := yamlOf(t, objects(t, Options{Image: "registry.example/usher:v1"})); !strings.Contains(all, "image: registry.example/usher:v1\n") {
		t.Error("the image is not there")
	}
}

func TestObjectsByURL(t *testing.T) {
	all := objects(t, Options{URL: "https://127.0.0.1:8443/"})
	for _, absent := range []string{"deployment/", "service/", "poddisruptionbudget/"} {
		if has(all, absent) {
			t.Errorf("%s is there", absent)
		}
	}
	webhooks := yamlOf(t, pick(all, isWebhook))
	for _, url := range []string{"/leave", "/create", "/policy"} {
		if !strings.Contains(webhooks, "url: https://127.0.0.1:8443"+url+"\n") {
			t.Errorf("no webhook calls %s:\n%s", url, webhooks)
		}
	}
	if strings.Contains(webhooks, "service:") {
		t.Error("a webhook calls a service as well")
	}
}

func TestLifecycleOnlyWhereItIsNotServed(t *testing.T) {
	const ours = "customresourcedefinition/evictionrequests.lifecycle.usher.sh"
	if !has(objects(t, Options{}), ours) || has(objects(t, Options{LifecycleServed: true}), ours) {
		t.Error("our copy of the eviction request API belongs to clusters without it, and to no others")
	}
	if !has(objects(t, Options{LifecycleServed: true}), "customresourcedefinition/evictionpolicies.usher.sh") {
		t.Error("policies belong to all")
	}
}

// TestImagesNeedNoRegistry: an image that was loaded on the nodes is used, whatever its tag.
func TestImagesNeedNoRegistry(t *testing.T) {
	for _, object := range pick(objects(t, Options{Agent: true, Image: "localhost/usher"}), runs) {
		containers, _, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
		for _, each := range containers {
			container, _ := each.(map[string]any)
			if container["image"] != "localhost/usher" || container["imagePullPolicy"] != "IfNotPresent" {
				t.Errorf("%s: image %v with pull policy %v", Ref(object), container["image"], container["imagePullPolicy"])
			}
		}
	}
}

// TestEveryWebhookIsScoped: a webhook that fails closed must never be asked about what is not governed.
func TestEveryWebhookIsScoped(t *testing.T) {
	for _, object := range pick(objects(t, Options{}), isWebhook) {
		webhooks, _, _ := unstructured.NestedSlice(object.Object, "webhooks")
		for _, each := range webhooks {
			webhook, _ := each.(map[string]any)
			_, byNamespace := webhook["namespaceSelector"]
			_, byObject := webhook["objectSelector"]
			ownKinds := webhook["name"] == "policy.usher.sh" || webhook["name"] == "maintenance.usher.sh" || webhook["name"] == "replacement.usher.sh"
			if !ownKinds && !byNamespace && !byObject {
				t.Errorf("%s is asked about everything", webhook["name"])
			}
			if webhook["timeoutSeconds"] == nil || webhook["sideEffects"] == nil || webhook["failurePolicy"] == nil {
				t.Errorf("%s leaves something to defaults", webhook["name"])
			}
		}
	}
}

// The Go runtime collects harder before the kernel ends the process, and what systems say fits beside the caches.
func TestMemoryLimitsFitTogether(t *testing.T) {
	for _, object := range objects(t, Options{}) {
		if object.GetKind() != "Deployment" {
			continue
		}
		containers, _, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
		container, _ := containers[0].(map[string]any)
		limit, _, _ := unstructured.NestedString(container, "resources", "limits", "memory")
		soft := ""
		variables, _ := container["env"].([]any)
		for _, variable := range variables {
			if entry, _ := variable.(map[string]any); entry["name"] == "GOMEMLIMIT" {
				soft, _ = entry["value"].(string)
			}
		}
		hard := resource.MustParse(limit)
		share := float64(new(resource.MustParse(strings.TrimSuffix(soft, "B"))).Value()) / float64(hard.Value())
		if share < 0.85 || share > 0.92 {
			t.Errorf("GOMEMLIMIT is %s of %s", soft, limit)
		}
		if policycache.DefaultMemory*3 > hard.Value() {
			t.Errorf("all evidence may take %d bytes of %s", policycache.DefaultMemory, limit)
		}
		return
	}
	t.Error("there is no Deployment")
}

// TestRightsToWorkloadsOnlyWhereTheyAreWanted: who runs databases alone need not let the manager scale anything.
func TestRightsToWorkloadsOnlyWhereTheyAreWanted(t *testing.T) {
	if has(objects(t, Options{}), "clusterrole/usher-workloads") {
		t.Error("rights to workloads are there by default")
	}
	all := objects(t, Options{Workloads: true, Namespace: "guards"})
	for _, ref := range []string{"clusterrole/usher-workloads-read", "clusterrolebinding/usher-workloads-scale", "validatingadmissionpolicy/usher-manager-workloads"} {
		if !has(all, ref) {
			t.Errorf("there is no %s", ref)
		}
	}
	if has(all, "clusterrolebinding/usher-workloads-impersonate") {
		t.Error("the manager may act as any ServiceAccount")
	}
	if strings.Contains(yamlOf(t, all), DefaultNamespace) {
		t.Errorf("%s is named", DefaultNamespace)
	}
}

// What can be chosen when Usher is installed is removed again with the rest.
func TestEverythingHasWhatCanBeChosen(t *testing.T) {
	everything := objects(t, Everything(DefaultNamespace))
	options := reflect.TypeFor[Options]()
	for i := range options.NumField() {
		field := options.Field(i)
		var chosen Options
		switch value := reflect.ValueOf(&chosen).Elem().Field(i); {
		case field.Name == "LifecycleServed": // with which less is installed
			continue
		case field.Type.Kind() == reflect.Bool:
			value.SetBool(true)
		case field.Type.Kind() == reflect.Slice:
			value.Set(reflect.ValueOf([]string{"ec2"}))
		default:
			continue
		}
		for _, object := range objects(t, chosen) {
			if !has(everything, Ref(object)) {
				t.Errorf("%s installs %s, which is not removed", field.Name, Ref(object))
			}
		}
	}
}
