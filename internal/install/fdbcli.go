package install

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// fdbcliCopy copies fdbcli into the folder that it is given, and what it is linked with: Usher's image has no C library.
const fdbcliCopy = `set -e
export PATH="$PATH:/usr/bin:/bin"
cp "$(command -v fdbcli)" "$1/fdbcli"
ldd "$1/fdbcli" | while read -r name is file _; do
  if [ "$is" = "=>" ]; then cp -L "$file" "$1/"; else case "$name" in /*) cp -L "$name" "$1/" ;; esac; fi
done
"$1/fdbcli" --version`

// fdbcliPlaces are where the manager has the folder: the program, and its loader and libraries where every Linux looks for them. Usher itself needs none.
var fdbcliPlaces = []any{
	map[string]any{"name": "fdbcli", "mountPath": "/fdbcli", "readOnly": true},
	map[string]any{"name": "fdbcli", "mountPath": "/lib", "readOnly": true},
	map[string]any{"name": "fdbcli", "mountPath": "/lib64", "readOnly": true},
	map[string]any{"name": "tmp", "mountPath": "/tmp"}, // for a cluster file of each run
}

// addFDBCLI has the manager ask FoundationDB through the fdbcli of another image, of which an init container copies it.
func (o Options) addFDBCLI(deployment *unstructured.Unstructured) error {
	pod := []string{"spec", "template", "spec"}
	spec, _, err := unstructured.NestedMap(deployment.Object, pod...)
	if err != nil {
		return err
	}
	spec["volumes"] = []any{
		map[string]any{"name": "fdbcli", "emptyDir": map[string]any{}},
		map[string]any{"name": "tmp", "emptyDir": map[string]any{}},
	}
	spec["initContainers"] = []any{map[string]any{
		"name": "fdbcli", "image": o.FDBCLIImage, "imagePullPolicy": "IfNotPresent",
		"command":      []any{"/bin/sh", "-c", fdbcliCopy, "sh", "/fdbcli"},
		"volumeMounts": []any{map[string]any{"name": "fdbcli", "mountPath": "/fdbcli"}},
		"resources":    map[string]any{"requests": map[string]any{"cpu": "50m", "memory": "128Mi"}, "limits": map[string]any{"memory": "512Mi"}},
		"securityContext": map[string]any{
			"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": map[string]any{"drop": []any{"ALL"}},
		},
	}}
	if err := unstructured.SetNestedMap(deployment.Object, spec, pod...); err != nil {
		return err
	}
	return inEach(deployment, func(container map[string]any) error {
		args, _, err := unstructured.NestedSlice(container, "args")
		if err != nil {
			return fmt.Errorf("reading its arguments: %w", err)
		}
		container["args"], container["volumeMounts"] = append(args, "--fdbcli=/fdbcli/fdbcli"), fdbcliPlaces
		return unstructured.SetNestedField(container, "768Mi", "resources", "limits", "memory") // for two runs at a time
	}, append(pod, "containers")...)
}
