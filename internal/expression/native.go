package expression

import (
	"errors"
	"fmt"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// maxDepth is how deep lists and objects may lie within each other.
const maxDepth = 32

// conversion reads an evaluated value. Lists that are joined to each other cost nothing until they are read.
type conversion struct {
	left uint64 // how many entries may still be read
}

// native returns an evaluated value as Go has it.
func (c *conversion) native(value ref.Val, depth int) (any, error) {
	if depth == 0 {
		return nil, errors.New("the value has too many levels")
	}
	if c.left == 0 {
		return nil, errTooLong
	}
	c.left--
	switch v := value.(type) {
	case types.Bool, types.Int, types.Uint, types.Double, types.String:
		return v.Value(), nil
	case types.Bytes:
		return string(v), nil
	case types.Timestamp:
		return v.Time, nil
	case types.Duration:
		return v.Duration, nil
	case types.Null:
		return nil, nil
	case traits.Lister:
		return c.list(v, depth)
	case traits.Mapper:
		return c.object(v, depth)
	}
	return nil, fmt.Errorf("the value is of type %s, which cannot be used", value.Type().TypeName())
}

func (c *conversion) list(list traits.Lister, depth int) (any, error) {
	result := []any{}
	for at := list.Iterator(); at.HasNext() == types.True; {
		item, err := c.native(at.Next(), depth-1)
		if err != nil {
			return nil, err
		}
		result = append(result, item)
	}
	return result, nil
}

func (c *conversion) object(mapper traits.Mapper, depth int) (any, error) {
	result := map[string]any{}
	for at := mapper.Iterator(); at.HasNext() == types.True; {
		key := at.Next()
		item, err := c.native(mapper.Get(key), depth-1)
		if err != nil {
			return nil, err
		}
		result[fmt.Sprint(key.Value())] = item
	}
	return result, nil
}

// holds reports whether a Go value is of the type.
func (t Type) holds(value any) bool {
	var ok bool
	switch t {
	case Bool:
		_, ok = value.(bool)
	case Int:
		_, ok = value.(int64)
	case Double:
		_, ok = value.(float64)
	case String:
		_, ok = value.(string)
	case Time:
		_, ok = value.(time.Time)
	case Strings:
		ok = allStrings(value)
	case Dynamic:
		ok = true
	}
	return ok
}

func allStrings(value any) bool {
	list, ok := value.([]any)
	for _, item := range list {
		if _, text := item.(string); !text {
			return false
		}
	}
	return ok
}
