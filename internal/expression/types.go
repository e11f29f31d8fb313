package expression

import (
	"fmt"
	"maps"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// factTypes declares to the type checker which facts there are. The values themselves are maps, so that a fact may be absent.
type factTypes struct {
	types.Provider
	structs map[string]map[string]*cel.Type
	system  *cel.Type
	member  *cel.Type
	fence   bool
}

// The variables that have a type of their own.
const (
	PodVariable    = "pod"
	NodeVariable   = "node"
	MemberVariable = "member"
	SystemVariable = "system"
	HereVariable   = "here"
	AnswerVariable = "answer"
	taintVariable  = "taint"
)

// DeletedFact is the one of a pod that may be known of a member without one.
const DeletedFact = "deleted"

var variableNames = []string{"member", "system", "pod", "node", "here", "leaving", "unready", "preparing", "now"}

func newFactTypes(schema Schema) (*factTypes, error) {
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, fmt.Errorf("making the types of facts: %w", err)
	}
	t := &factTypes{
		Provider: registry,
		structs: map[string]map[string]*cel.Type{
			PodVariable:    podFields,
			NodeVariable:   nodeFields,
			MemberVariable: {"id": cel.StringType, "role": cel.StringType},
			SystemVariable: {},
			HereVariable:   {"id": cel.StringType, "role": cel.StringType},
			taintVariable:  {"key": cel.StringType, "value": cel.StringType, "effect": cel.StringType},
		},
		system: cel.ObjectType(SystemVariable),
		member: cel.ObjectType(MemberVariable),
	}
	t.declare(SystemVariable, schema.System)
	t.declare(MemberVariable, schema.Member)
	if schema.Fence {
		t.fence = true
		t.structs[NodeVariable] = maps.Clone(nodeFields)
		maps.Copy(t.structs[NodeVariable], machineFields)
	}
	if schema.Open {
		t.system = cel.MapType(cel.StringType, cel.DynType)
		t.member = t.system
	}
	return t, nil
}

func (t *factTypes) declare(name string, fields []Field) {
	for _, field := range fields {
		t.structs[name][field.Name] = field.Type.cel()
	}
}

func (t *factTypes) options() []cel.EnvOption {
	options := []cel.EnvOption{
		cel.CustomTypeProvider(t),
		cel.Variable("system", t.system),
		cel.Variable("member", t.member),
		cel.Variable("pod", cel.ObjectType(PodVariable)),
		cel.Variable("node", cel.ObjectType(NodeVariable)),
		cel.Variable("here", cel.ListType(cel.ObjectType(HereVariable))),
		cel.Variable("leaving", cel.ListType(cel.StringType)),
		cel.Variable("unready", cel.ListType(cel.StringType)),
		cel.Variable("preparing", cel.ListType(cel.StringType)),
		cel.Variable("now", cel.TimestampType),
	}
	if t.fence {
		options = append(options, cel.Variable(AnswerVariable, cel.DynType))
	}
	return options
}

// FindStructType is part of the checker's port.
func (t *factTypes) FindStructType(name string) (*types.Type, bool) {
	if _, ok := t.structs[name]; ok {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return t.Provider.FindStructType(name)
}

// FindStructFieldNames is part of the checker's port.
func (t *factTypes) FindStructFieldNames(name string) ([]string, bool) {
	if fields, ok := t.structs[name]; ok {
		return slices.Sorted(maps.Keys(fields)), true
	}
	return t.Provider.FindStructFieldNames(name)
}

// FindStructFieldType is part of the checker's port.
func (t *factTypes) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	fields, ok := t.structs[name]
	if !ok {
		return t.Provider.FindStructFieldType(name, field)
	}
	kind, ok := fields[field]
	return &types.FieldType{Type: kind}, ok
}

// NewValue is part of the checker's port. Facts come from outside: an expression cannot make a pod up.
func (t *factTypes) NewValue(name string, fields map[string]ref.Val) ref.Val {
	if _, ok := t.structs[name]; ok {
		return types.NewErr("%s cannot be made in an expression", name)
	}
	return t.Provider.NewValue(name, fields)
}

func (t Type) cel() *cel.Type {
	switch t {
	case Bool:
		return cel.BoolType
	case Int:
		return cel.IntType
	case Double:
		return cel.DoubleType
	case String:
		return cel.StringType
	case Time:
		return cel.TimestampType
	case Strings:
		return cel.ListType(cel.StringType)
	case Dynamic:
	}
	return cel.DynType
}

// admits reports whether a value of the checked type may turn out to be of this one.
func (t Type) admits(checked *cel.Type) bool {
	return checked.IsExactType(cel.DynType) || checked.IsExactType(t.cel())
}
