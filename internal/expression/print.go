package expression

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// printed is how many entries of a list are printed before the rest is only counted.
	printed = 3
	// maxEntry, maxValue and maxMessage are how many bytes of an entry, of a value and of a message are shown.
	maxEntry, maxValue, maxMessage = 200, 1_000, 4_000
)

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
		return enumerate(len(v), func(i int) string { return Print(v[i]) })
	case map[string]any:
		return printMap(v)
	}
	return fmt.Sprint(value)
}

func printMap(object map[string]any) string {
	keys := slices.Sorted(maps.Keys(object))
	return enumerate(len(keys), func(i int) string { return keys[i] + ": " + Print(object[keys[i]]) })
}

// enumerate leaves one entry more standing rather than say "and 1 more".
func enumerate(count int, item func(i int) string) string {
	if count == 0 {
		return "none"
	}
	shown := count
	if count > printed+1 {
		shown = printed
	}
	words := make([]string, shown)
	for i := range words {
		words[i] = brief(item(i), maxEntry)
	}
	text := strings.Join(words, ", ")
	if rest := count - shown; rest > 0 {
		text += fmt.Sprintf(" and %d more", rest)
	}
	return text
}

// brief cuts a text that is longer than most bytes.
func brief(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}

// Listed puts all names into a sentence.
func Listed(names []string) string {
	switch len(names) {
	case 0:
		return "nothing"
	case 1:
		return names[0]
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
