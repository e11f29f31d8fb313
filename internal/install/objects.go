package install

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"usher.sh/usher/config"
	"usher.sh/usher/internal/notice"
)

// Options say what is installed.
type Options struct {
	// Namespace is where the manager runs; default DefaultNamespace.
	Namespace string
	// Image is the manager's and the agents'.
	Image string
	// Agent: agents are installed as well, one on every node.
	Agent bool
	// Maintenance: the manager gets the rights that it needs to drain nodes.
	Maintenance bool
	// Notices: the manager takes notices of nodes, and gets the rights to act on them and those to drain.
	Notices bool
	// ClusterAPI: with Notices, the manager drains the nodes of Machines that are being deleted.
	ClusterAPI bool
	// NodeNotices are the sources that agents ask for notices of their nodes: agents are installed then, and the manager gets the rights to drain.
	NodeNotices []string
	// Replacement: the manager gets the rights that it needs to replace members.
	Replacement bool
	// MemberSets: the manager gets the rights that it needs to run members itself, and those to replace them.
	MemberSets bool
	// FDBCLIImage is an image with FoundationDB's fdbcli, by which the manager asks its clusters; "": it has none.
	FDBCLIImage string
	// Workloads: the manager may read and scale plain workloads, for policies of the system kubernetes.
	Workloads bool
	// URL is where the webhook is reached; "": in the cluster. With one, the manager is taken to run outside of the
	// cluster, and nothing that runs is installed.
	URL string
	// LifecycleServed says that the cluster has the eviction request API itself.
	LifecycleServed bool
}

// DefaultNamespace is the namespace in the manifests.
const DefaultNamespace = "usher-system"

// lifecycleGroup is the group of Usher's own copies of the eviction request API.
const lifecycleGroup = "lifecycle.usher.sh"

// Objects returns what is to be applied, in that order.
func Objects(o Options) ([]*unstructured.Unstructured, error) {
	o.Namespace = cmp.Or(o.Namespace, DefaultNamespace)
	all, err := load(config.Files, config.Default, o.Namespace)
	if err != nil {
		return nil, fmt.Errorf("reading the manifests: %w", err)
	}
	for _, folder := range o.folders() {
		more, err := load(config.Files, folder, o.Namespace)
		if err != nil {
			return nil, fmt.Errorf("reading the manifests of %s: %w", folder, err)
		}
		all = append(all, more...)
	}
	all = slices.DeleteFunc(all, o.unwanted)
	for _, object := range all {
		if err := o.adapt(object); err != nil {
			return nil, fmt.Errorf("adapting %s: %w", Ref(object), err)
		}
	}
	slices.SortStableFunc(all, func(a, b *unstructured.Unstructured) int { return rank(a) - rank(b) })
	return all, nil
}

// folders are those of config beside Default.
func (o Options) folders() []string {
	var folders []string
	if o.Agent || len(o.NodeNotices) > 0 {
		folders = append(folders, config.Agent)
	}
	if len(o.NodeNotices) > 0 {
		folders = append(folders, config.NodeNotices)
	}
	if o.Maintenance || o.Notices || len(o.NodeNotices) > 0 {
		folders = append(folders, config.Maintenance)
	}
	if o.Notices {
		folders = append(folders, config.Notices)
	}
	if o.ClusterAPI {
		folders = append(folders, config.ClusterAPI)
	}
	if o.Replacement || o.MemberSets {
		folders = append(folders, config.Replacement)
	}
	if o.MemberSets {
		folders = append(folders, config.MemberSet)
	}
	if o.Workloads {
		folders = append(folders, config.Workloads)
	}
	return folders
}

// Everything is what may have been installed in a namespace, whatever was chosen.
func Everything(namespace string) Options {
	return Options{
		Namespace: namespace, Agent: true, Maintenance: true, Notices: true, ClusterAPI: true, NodeNotices: []string{string(notice.Logind)}, Replacement: true, MemberSets: true, Workloads: true,
	}
}

// rank orders kinds by what must be there before: what limits an account comes before what gives it rights.
func rank(object *unstructured.Unstructured) int {
	order := []string{
		"Namespace", "CustomResourceDefinition", "ServiceAccount", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
		"ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding",
	}
	if i := slices.Index(order, object.GetKind()); i >= 0 {
		return i
	}
	return len(order)
}

func (o Options) unwanted(object *unstructured.Unstructured) bool {
	switch object.GetKind() {
	case "CustomResourceDefinition":
		group, _, _ := unstructured.NestedString(object.Object, "spec", "group")
		return group == lifecycleGroup && o.LifecycleServed
	case "Deployment", "Service", "PodDisruptionBudget":
		return o.URL != ""
	}
	return false
}

// runs reports whether an object makes Usher run.
func runs(object *unstructured.Unstructured) bool {
	return object.GetKind() == "Deployment" || object.GetKind() == "DaemonSet"
}

// adapt puts in what the options say.
func (o Options) adapt(object *unstructured.Unstructured) error {
	if object.GetKind() == "Deployment" && o.Notices {
		if err := o.addNotices(object); err != nil {
			return err
		}
	}
	if object.GetKind() == "Deployment" && o.FDBCLIImage != "" {
		if err := o.addFDBCLI(object); err != nil {
			return err
		}
	}
	if object.GetKind() == "DaemonSet" && len(o.NodeNotices) > 0 {
		if err := o.addNodeNotices(object); err != nil {
			return err
		}
	}
	switch {
	case runs(object) && o.Image != "":
		return inEach(object, func(container map[string]any) error {
			return unstructured.SetNestedField(container, o.Image, "image")
		}, "spec", "template", "spec", "containers")
	case strings.HasSuffix(object.GetKind(), "WebhookConfiguration") && o.URL != "":
		return inEach(object, o.redirect, "webhooks")
	}
	return nil
}

// redirect makes a webhook be called by URL.
func (o Options) redirect(webhook map[string]any) error {
	path, _, err := unstructured.NestedString(webhook, "clientConfig", "service", "path")
	if err != nil {
		return err
	}
	unstructured.RemoveNestedField(webhook, "clientConfig", "service")
	return unstructured.SetNestedField(webhook, strings.TrimSuffix(o.URL, "/")+path, "clientConfig", "url")
}

// inEach changes every element of a list of objects.
func inEach(object *unstructured.Unstructured, change func(map[string]any) error, fields ...string) error {
	list, _, err := unstructured.NestedSlice(object.Object, fields...)
	if err != nil {
		return err
	}
	for _, element := range list {
		fields, ok := element.(map[string]any)
		if !ok {
			return fmt.Errorf("an element is a %T", element)
		}
		if err := change(fields); err != nil {
			return err
		}
	}
	return unstructured.SetNestedSlice(object.Object, list, fields...)
}

// Ref names an object for people, as kubectl does.
func Ref(object *unstructured.Unstructured) string {
	kind := strings.ToLower(object.GetKind())
	if object.GetNamespace() == "" {
		return kind + "/" + object.GetName()
	}
	return kind + "/" + object.GetName() + " in " + object.GetNamespace()
}
