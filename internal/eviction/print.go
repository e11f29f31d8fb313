package eviction

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// printed is how many entries of a list are printed before the rest is only counted.
const printed = 3

// Print prints a value of an expression for people: lists as "a, b, c and 3 more", times in RFC 3339.
func Print(value any) string {
	switch v := value.(type) {
	case nil:
		return "nothing"
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	case []any:
		return enumerate(v)
	case map[string]any:
		return printMap(v)
	}
	return fmt.Sprint(value)
}

func printMap(object map[string]any) string {
	var pairs []any
	for _, key := range slices.Sorted(maps.Keys(object)) {
		pairs = append(pairs, key+": "+Print(object[key]))
	}
	return enumerate(pairs)
}

// enumerate leaves one entry more standing rather than say "and 1 more".
func enumerate(items []any) string {
	if len(items) == 0 {
		return "none"
	}
	shown := items
	if len(items) > printed+1 {
		shown = items[:printed]
	}
	words := make([]string, len(shown))
	for i, item := range shown {
		words[i] = Print(item)
	}
	text := strings.Join(words, ", ")
	if rest := len(items) - len(shown); rest > 0 {
		text += fmt.Sprintf(" and %d more", rest)
	}
	return text
}

// listed puts all names into a sentence.
func listed(names []string) string {
	switch len(names) {
	case 0:
		return "nothing"
	case 1:
		return names[0]
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
