package install

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.sh/usher/internal/notice"
)

// noticesPort is where the manager takes alerts. The Service of config/notices names it.
const noticesPort = int64(9444)

// addNotices has the manager take notices.
func (o Options) addNotices(deployment *unstructured.Unstructured) error {
	return inEach(deployment, func(container map[string]any) error {
		args, _, err := unstructured.NestedSlice(container, "args")
		if err != nil {
			return fmt.Errorf("reading its arguments: %w", err)
		}
		ports, _, err := unstructured.NestedSlice(container, "ports")
		if err != nil {
			return fmt.Errorf("reading its ports: %w", err)
		}
		if o.ClusterAPI {
			args = append(args, "--cluster-api")
		}
		container["args"] = append(args, fmt.Sprintf("--notices-address=:%d", noticesPort))
		container["ports"] = append(ports, map[string]any{"name": "notices", "containerPort": noticesPort})
		return nil
	}, "spec", "template", "spec", "containers")
}

// noticesConfig is the configuration of notices, by which a manager would make maintenances anew that are removed.
func noticesConfig(namespace string) *unstructured.Unstructured {
	config := &unstructured.Unstructured{}
	config.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
	config.SetNamespace(namespace)
	config.SetName(notice.ConfigName)
	return config
}

// addNodeNotices has agents look for notices. They are on the network of their nodes: services of metadata answer no others by default, or not as the node.
func (o Options) addNodeNotices(agents *unstructured.Unstructured) error {
	fields := []string{"spec", "template", "spec"}
	err := inEach(agents, func(container map[string]any) error {
		args, _, err := unstructured.NestedSlice(container, "args")
		if err != nil {
			return fmt.Errorf("reading its arguments: %w", err)
		}
		container["args"] = append(args, "--notices="+strings.Join(o.NodeNotices, ","), "--namespace="+o.Namespace)
		return nil
	}, append(fields, "containers")...)
	return errors.Join(err, unstructured.SetNestedField(agents.Object, true, append(fields, "hostNetwork")...),
		unstructured.SetNestedField(agents.Object, "ClusterFirstWithHostNet", append(fields, "dnsPolicy")...))
}
