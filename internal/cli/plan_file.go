package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	sigsjson "sigs.k8s.io/json"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/text"
)

// mostPlanFile is how large a file with what a plan is for may be, in bytes: dumps are larger, and are not read here.
const mostPlanFile = 1 << 20

// planFile is what a plan is for. All of it is empty where the file is a dump, or nothing that can be read: whoever reads the dump says so.
type planFile struct {
	maintenance *v1alpha1.NodeMaintenance
	set         *unstructured.Unstructured
	beside      []string // other objects of the file with a set
	other       string   // the kind of the first object of a file that has neither, and is no list
	unreadable  error    // why nothing could be read of it
	objects     bool     // some could
	stream      bool     // it is a pipe, which can be read once, and is read like standard input from now on
}

// planFileIn reads what a file has. It returns standard input as it was before, or a pipe in its place.
func planFileIn(in io.Reader, name string) (planFile, io.Reader, error) {
	switch name {
	case "":
		return planFile{}, in, nil
	case "-":
		return peekPlanFile(in, "standard input")
	}
	file, err := os.Open(name) //nolint:gosec // the file that the caller named
	if err != nil {
		return planFile{}, in, err
	}
	info, err := file.Stat()
	switch {
	case err != nil:
		return planFile{}, in, errors.Join(err, file.Close())
	case info.IsDir():
		return planFile{}, in, errors.Join(fmt.Errorf("%s is a directory: give a file", name), file.Close())
	case !info.Mode().IsRegular():
		m, head, err := peekPlanFile(file, name)
		m.stream = true
		return m, head, err
	}
	m, _, err := peekPlanFile(file, name)
	return m, in, errors.Join(err, file.Close())
}

// peekPlanFile reads what a stream has, and returns it as it was before. What is larger than mostPlanFile is a dump.
func peekPlanFile(in io.Reader, name string) (planFile, io.Reader, error) {
	head := bufio.NewReaderSize(in, mostPlanFile+1)
	content, err := head.Peek(mostPlanFile + 1)
	switch {
	case err == nil:
		return planFile{objects: true}, head, nil
	case !errors.Is(err, io.EOF):
		return planFile{}, head, fmt.Errorf("reading %s: %w", name, err)
	}
	m, err := parsePlanFile(name, content)
	return m, head, err
}

// parsePlanFile reads the objects of a text. An error is about one that has what a plan is for, or stands beside it.
func parsePlanFile(name string, content []byte) (planFile, error) {
	var m planFile
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), len(content))
	for {
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		switch {
		case errors.Is(err, io.EOF):
			return m.whole(name)
		case err != nil && m.maintenance == nil && m.set == nil:
			return planFile{unreadable: err}, nil
		case err != nil:
			return m, fmt.Errorf("%s: %w", name, err)
		case len(raw) == 0 || bytes.Equal(raw, []byte("null")):
			continue
		}
		if err := m.add(name, raw); err != nil {
			return m, err
		}
	}
}

// add takes over an object.
func (m *planFile) add(name string, raw []byte) error {
	var object unstructured.Unstructured
	if err := object.UnmarshalJSON(raw); err != nil {
		m.unreadable = err
		return nil //nolint:nilerr // it is no object, and whoever reads the dump says so
	}
	m.objects = true
	ours := object.GroupVersionKind().Group == v1alpha1.GroupVersion.Group
	switch kind := object.GetKind(); {
	case ours && kind == "NodeMaintenance" && m.maintenance != nil:
		return fmt.Errorf("%s has several NodeMaintenances: plan one at a time", name)
	case kind == "NodeMaintenance":
		m.maintenance = &v1alpha1.NodeMaintenance{}
		if err := json.Unmarshal(raw, m.maintenance); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	case ours && kind == "MemberSet" && m.set != nil:
		return fmt.Errorf("%s has several MemberSets (%s, %s): plan one at a time", name, text.Line(m.set.GetName()), text.Line(object.GetName()))
	case ours && kind == "MemberSet":
		m.set = &object
		return checkSet(name, raw)
	case strings.HasSuffix(kind, "List"):
		m.other = ""
	default:
		m.beside = append(m.beside, text.Line(kind+" "+object.GetName()))
		if m.other == "" {
			m.other = text.Line(kind)
		}
	}
	return nil
}

// aim says what is wrong with a file that has nothing that a plan is for, where no nodes are named; nil: it may be a dump of a cluster, of which nodes are
// to be named.
func (m *planFile) aim(name string) error {
	const wants = "a plan is for a MemberSet or a NodeMaintenance, or for nodes, which are named, and a dump of a cluster"
	switch {
	case m.other != "":
		return fmt.Errorf("%s has a %s: %s", name, m.other, wants)
	case !m.objects && m.unreadable != nil:
		return fmt.Errorf("%s has no object that can be read: %w", name, m.unreadable)
	case !m.objects:
		return fmt.Errorf("%s has no object: %s", name, wants)
	}
	return nil
}

// whole says what is wrong with all of a file.
func (m planFile) whole(name string) (planFile, error) {
	switch {
	case m.set != nil && m.maintenance != nil:
		return m, fmt.Errorf("%s has a MemberSet and a NodeMaintenance: plan one at a time", name)
	case m.maintenance != nil && len(m.beside) > 0:
		return m, fmt.Errorf("%s has a NodeMaintenance beside other objects (%s): put it in a file of its own", name, text.List(m.beside, 3))
	}
	return m, nil
}

// checkSet says what is wrong with a set that no apiserver has checked, as far as a plan rests on it.
func checkSet(name string, raw []byte) error {
	var set v1alpha1.MemberSet
	unknown, err := sigsjson.UnmarshalStrict(raw, &set)
	if err = errors.Join(append(unknown, err)...); err != nil {
		return fmt.Errorf("%s: MemberSet: %w", name, err)
	}
	if set.APIVersion != v1alpha1.GroupVersion.String() {
		return fmt.Errorf("%s: apiVersion %s of MemberSet is not known: it is %s", name, text.Line(set.APIVersion), v1alpha1.GroupVersion)
	}
	if set.Name == "" {
		return fmt.Errorf("%s: the MemberSet has no metadata.name", name)
	}
	if len(set.Spec.Groups) == 0 {
		return fmt.Errorf("%s: MemberSet %s has no spec.groups", name, text.Line(set.Name))
	}
	for i := range set.Spec.Groups {
		if g := &set.Spec.Groups[i]; (g.Replicas == nil) == (g.PerNode == nil) {
			return fmt.Errorf("%s: spec.groups[%d] of MemberSet %s: set either replicas or perNode", name, i, text.Line(set.Name))
		}
	}
	return nil
}

// once is a flag that may be given once: of two files the first would be left out without a word.
type once struct {
	to    *string
	given bool
}

func (o *once) String() string {
	if o.to == nil {
		return ""
	}
	return *o.to
}

func (o *once) Set(value string) error {
	if o.given {
		return fmt.Errorf("one file is planned for at a time, and %s was given before", *o.to)
	}
	*o.to, o.given = value, true
	return nil
}

func (*once) Type() string { return "string" }
