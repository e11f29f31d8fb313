package observe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	sigsjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"usher.sh/usher/internal/snapshot"
)

// item is the text of one object, or the end of a list where it has no text.
type item struct {
	text  []byte
	yaml  bool
	list  metav1.TypeMeta // of the list that it is in; zero where that is not known yet
	where string          // in the dump, for messages
}

// found is what became of an item.
type found struct {
	of      resource
	skipped string // the kind that decisions do not use; "" otherwise
	merged  bool   // it ends a list of several kinds
	newest  time.Time
	set     func(*snapshot.Cluster) // nil: a list of that resource had no items
	pod     *snapshot.Pod           // if it is one
}

// decode reads an item. One that is a list itself, in YAML's flow style say, holds
// several objects.
func (i item) decode() ([]found, error) {
	if i.text == nil {
		return i.endOfList(), nil
	}
	text := i.text
	if i.yaml {
		converted, err := yaml.YAMLToJSON(text)
		if err != nil {
			return nil, fmt.Errorf("not YAML: %w", err)
		}
		text = converted
	}
	text = bytes.TrimSpace(text)
	if string(text) == "null" { // a document of comments only
		return nil, nil
	}
	if len(text) == 0 || text[0] != '{' {
		return nil, errors.New("not a Kubernetes object: is this what kubectl get -o yaml wrote?")
	}
	var head metav1.TypeMeta
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(text, &head); err != nil {
		return nil, err
	}
	if strings.HasSuffix(head.Kind, "List") {
		return decodeList(text)
	}
	one, err := decodeObject(text, i.typeWithin(head))
	return []found{one}, err
}

// typeWithin completes the type of an item by that of its list: in a PodList the pods
// do not say that they are pods.
func (i item) typeWithin(own metav1.TypeMeta) metav1.TypeMeta {
	if own.Kind == "" {
		return metav1.TypeMeta{Kind: strings.TrimSuffix(i.list.Kind, "List"), APIVersion: i.list.APIVersion}
	}
	return own
}

func (i item) endOfList() []found {
	if i.list.Kind == "List" {
		return []found{{merged: true}}
	}
	kind := metav1.TypeMeta{Kind: strings.TrimSuffix(i.list.Kind, "List"), APIVersion: i.list.APIVersion}
	if r, ok := readers[kind]; ok {
		return []found{{of: r.of}}
	}
	return nil
}

func decodeList(text []byte) ([]found, error) {
	var list struct {
		metav1.TypeMeta `json:",inline"`
		Items           []json.RawMessage `json:"items"`
	}
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(text, &list); err != nil {
		return nil, err
	}
	all := item{list: list.TypeMeta}.endOfList()
	for n, text := range list.Items {
		more, err := item{text: text, list: list.TypeMeta}.decode()
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", n+1, err)
		}
		all = append(all, more...)
	}
	return all, nil
}

func decodeObject(text []byte, kind metav1.TypeMeta) (found, error) {
	if kind.Kind == "" {
		return found{}, errors.New("it has no kind: is this what kubectl get -o yaml wrote?")
	}
	r, ok := readers[kind]
	if !ok {
		return found{skipped: kind.Kind}, nil
	}
	f, err := r.read(text)
	if err != nil {
		return found{}, fmt.Errorf("reading a %s: %w", kind.Kind, err)
	}
	f.of = r.of
	return f, nil
}
