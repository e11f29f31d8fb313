package text

import "testing"

func TestShellWord(t *testing.T) {
	for word, want := range map[string]string{
		"":          "''",
		"node-1":    "node-1",
		"a=b,c:d/e": "a=b,c:d/e",
		"Jane Doe":  "'Jane Doe'",
		"$(id)":     "'$(id)'",
		"it's":      `'it'\''s'`,
	} {
		if got := ShellWord(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}
