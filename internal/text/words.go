package text

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Count says "1 pod" or "3 pods".
func Count[N ~int | ~int32](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// List names the first of many and says how many more there are: "a, b and 3 more".
func List(names []string, most int) string {
	if extra := len(names) - most; extra > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), extra)
	}
	return strings.Join(names, ", ")
}

// Join is strings.Join for words of a type of their own.
func Join[S ~string](words []S, separator string) string {
	texts := make([]string, len(words))
	for i, word := range words {
		texts[i] = string(word)
	}
	return strings.Join(texts, separator)
}

// Cut returns a text that is longer than most bytes without its end, which "…" stands for, in at most that many bytes. It
// cuts no character in two.
func Cut(s string, most int) string {
	const end = "…"
	if len(s) <= most {
		return s
	}
	cut := max(0, most-len(end))
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + end
}

// CutLast is strings.Cut at the last of the separators.
func CutLast(s, separator string) (before, after string, found bool) {
	at := strings.LastIndex(s, separator)
	if at < 0 {
		return s, "", false
	}
	return s[:at], s[at+len(separator):], true
}
