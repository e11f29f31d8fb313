package nodepressure

import (
	"strings"
	"testing"
)

func TestGlass(t *testing.T) {
	long := GlassOf("a", strings.Repeat("ä", mostGlass))
	for value, want := range map[string]bool{
		GlassOf("a", "memory is used up"): true, long: true, long + "ab": false,
		GlassOf("ab", "memory is used up"): false, GlassOf("b", "memory"): false, "fire": false, "": false,
	} {
		if got := IsGlassOf("a", value); got != want {
			t.Errorf("%.60q: %t", value, got)
		}
	}
}
