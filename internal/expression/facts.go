package expression

import (
	"maps"
	"slices"
	"strings"
)

// Facts are named facts of one thing, as a JSON object: values are bool, int64, float64, string, time.Time, Facts,
// map[string]any, []string, []any or nil. A fact that is not known is absent, and a rule that asks for it does not pass.
type Facts map[string]any

// Prune drops what no expression uses, in place. Root is the variable whose facts they are.
func (f Facts) Prune(uses Uses, root string) {
	if slices.Contains(uses, root) {
		return
	}
	for name, value := range f {
		kept, needed := pruned(value, uses, root+"."+name)
		if needed {
			f[name] = kept
		} else {
			delete(f, name)
		}
	}
}

// pruned returns what is needed of a value; false: nothing.
func pruned(value any, uses Uses, at string) (any, bool) {
	if slices.Contains(uses, at) {
		return value, true
	}
	below := at + "."
	if !slices.ContainsFunc(uses, func(use string) bool { return strings.HasPrefix(use, below) }) {
		return nil, false
	}
	object, ok := value.(map[string]any)
	if !ok {
		return value, true // a rule asks for a field of what is no object, which is for the rule to fail on
	}
	kept := map[string]any{}
	for name, inner := range maps.All(object) {
		if inner, needed := pruned(inner, uses, below+name); needed {
			kept[name] = inner
		}
	}
	return kept, true
}

// Bytes is about how many bytes of memory the facts take.
func (f Facts) Bytes() int64 { return bytesOf(map[string]any(f)) }

// Bytes of values as Go lays them out: a map of up to eight entries has one group of slots, an interface two words.
const (
	wordBytes  = 16
	groupSize  = 7
	groupBytes = 8*2*wordBytes + 8
	mapBytes   = 48
)

func bytesOf(value any) int64 {
	switch v := value.(type) {
	case string:
		return wordBytes + int64(len(v))
	case Facts:
		return bytesOf(map[string]any(v))
	case map[string]any:
		weight := int64(mapBytes + (len(v)+groupSize-1)/groupSize*groupBytes)
		for name, inner := range v {
			weight += int64(len(name)) + bytesOf(inner)
		}
		return weight
	case []any:
		weight := int64(wordBytes * (1 + cap(v)))
		for _, inner := range v {
			weight += bytesOf(inner)
		}
		return weight
	case []string:
		weight := int64(wordBytes * (1 + cap(v)))
		for _, text := range v {
			weight += int64(len(text))
		}
		return weight
	}
	return wordBytes
}
