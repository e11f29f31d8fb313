package install

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// kustomization is the part of one that Usher's manifests use.
type kustomization struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Resources  []string `json:"resources"`
}

// load reads a folder and what its kustomization names, for the namespace: its default name stands for nothing else
// anywhere in the manifests.
func load(files fs.FS, folder, namespace string) ([]*unstructured.Unstructured, error) {
	data, err := fs.ReadFile(files, path.Join(folder, "kustomization.yaml"))
	if err != nil {
		return nil, err
	}
	var k kustomization
	if err := yaml.UnmarshalStrict(data, &k); err != nil {
		return nil, fmt.Errorf("reading the kustomization of %s: %w", folder, err)
	}
	var all []*unstructured.Unstructured
	for _, name := range k.Resources {
		name = path.Join(folder, name)
		read := parse
		if !strings.HasSuffix(name, ".yaml") {
			read = load
		}
		objects, err := read(files, name, namespace)
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}

func parse(files fs.FS, name, namespace string) ([]*unstructured.Unstructured, error) {
	data, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, err
	}
	data = bytes.ReplaceAll(data, []byte(DefaultNamespace), []byte(namespace))
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), len(data))
	var all []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		if len(object.Object) > 0 {
			all = append(all, object)
		}
	}
}
