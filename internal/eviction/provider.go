package eviction

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"

	"usher.sh/usher/internal/expression"
)

// patch is a compiled v1alpha1.PatchProvider.
type patch struct {
	declared *v1alpha1.PatchProvider
	name     *expression.Template
	do, undo *objectPatch // undo is nil where there is none
}

// objectPatch is a compiled v1alpha1.ObjectPatch.
type objectPatch struct {
	merge           *expression.Template // nil: none
	appends, remove []listElement
}

type listElement struct {
	path  string
	value *expression.Template
}

func (c *compiler) provider(path string, declared *v1alpha1.Provider, role *role) *patch {
	switch {
	case declared == nil:
		return nil
	case declared.DeletePod != nil && role != nil && role.declared.Replace.Successor != v1alpha1.SuccessorAnyPod:
		c.report(path+".deletePod", "role %s does not have the successor AnyPod: deleting its pod alone makes no successor", role.declared.Name)
	}
	if declared.Patch == nil {
		return nil
	}
	path += ".patch"
	compiled := &patch{
		declared: declared.Patch, name: c.overMember(path+".target.name", declared.Patch.Target.Name), do: c.objectPatch(path+".do", &declared.Patch.Do),
	}
	if declared.Patch.Undo != nil {
		compiled.undo = c.objectPatch(path+".undo", declared.Patch.Undo)
	}
	return compiled
}

// overMember compiles what may speak of the member and its pod alone: nothing else is known when the object is named.
func (c *compiler) overMember(path, text string) *expression.Template {
	return c.templateOver(Text{Path: path, Text: text, Over: []string{"member", "pod"}})
}

func (c *compiler) objectPatch(path string, declared *v1alpha1.ObjectPatch) *objectPatch {
	compiled := &objectPatch{appends: c.elements(path+".append", declared.Append), remove: c.elements(path+".remove", declared.Remove)}
	if declared.Merge == "" {
		return compiled
	}
	var object map[string]json.RawMessage
	if compiled.merge = c.overMember(path+".merge", declared.Merge); compiled.merge != nil {
		if err := json.Unmarshal([]byte(compiled.merge.Sample(sample)), &object); err != nil || object == nil {
			c.report(path+".merge", "it is no JSON object: values are put in as JSON, with their quotes")
		}
	}
	return compiled
}

// sample is a value as JSON: a text, so that one that stands within quotes is noticed.
const sample = `"x"`

func (c *compiler) elements(path string, declared []v1alpha1.ListElement) []listElement {
	var all []listElement
	for i, e := range declared {
		at := fmt.Sprintf("%s[%d].value", path, i)
		value := c.overMember(at, e.Value)
		if value != nil && !json.Valid([]byte(value.Sample(sample))) {
			c.report(at, "it is no JSON: values are put in as JSON, with their quotes")
		}
		all = append(all, listElement{path: e.Path, value: value})
	}
	return all
}

// Patch returns the provider of an entry of the policy's spec with its expressions' values for a member, whose pod is nil where it has none; nil: the
// entry has no such provider. It fails where a value is not known.
func (p *Policy) Patch(at int, member v1alpha1.MemberRef, pod *snapshot.Pod) (*v1alpha1.PatchProvider, error) {
	found := slices.IndexFunc(p.entries, func(e entry) bool { return e.index == at && e.patch != nil })
	if found < 0 {
		return nil, nil
	}
	if len(p.problems) > 0 {
		return nil, errors.New("the policy has problems: kubectl describe it")
	}
	compiled, scope := p.entries[found].patch, &expression.Scope{Member: member.ID, Role: member.Role, Pod: pod, CostBudget: NewCostBudget()}
	name, err := compiled.name.Expand(scope, nil)
	if err != nil {
		return nil, fmt.Errorf("provider.patch.target.name: %w", err)
	}
	provider := &v1alpha1.PatchProvider{Target: compiled.declared.Target}
	provider.Target.Name = name
	if err := compiled.do.expand(&provider.Do, scope); err != nil {
		return nil, fmt.Errorf("provider.patch.do: %w", err)
	}
	if compiled.undo == nil {
		return provider, nil
	}
	provider.Undo = &v1alpha1.ObjectPatch{}
	if err := compiled.undo.expand(provider.Undo, scope); err != nil {
		return nil, fmt.Errorf("provider.patch.undo: %w", err)
	}
	return provider, nil
}

// expand puts the values in.
func (p *objectPatch) expand(into *v1alpha1.ObjectPatch, scope *expression.Scope) (err error) {
	if p.merge != nil {
		if into.Merge, err = p.merge.ExpandJSON(scope); err != nil {
			return fmt.Errorf("merge: %w", err)
		}
	}
	if into.Append, err = expandAll(p.appends, scope); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	if into.Remove, err = expandAll(p.remove, scope); err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	return nil
}

func expandAll(elements []listElement, scope *expression.Scope) ([]v1alpha1.ListElement, error) {
	var all []v1alpha1.ListElement
	for _, e := range elements {
		value, err := e.value.ExpandJSON(scope)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.path, err)
		}
		all = append(all, v1alpha1.ListElement{Path: e.path, Value: value})
	}
	return all, nil
}
