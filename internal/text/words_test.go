package text

import "testing"

func TestCount(t *testing.T) {
	for n, want := range map[int32]string{0: "0 pods", 1: "1 pod", 3: "3 pods"} {
		if got := Count(n, "pod"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestList(t *testing.T) {
	for want, names := range map[string][]string{"": nil, "a": {"a"}, "a, b": {"a", "b"}, "a, b and 2 more": {"a", "b", "c", "d"}} {
		if got := List(names, 2); got != want {
			t.Errorf("%v: %q, want %q", names, got, want)
		}
	}
}

func TestJoin(t *testing.T) {
	type word string
	if got := Join([]word{"a", "b"}, " or "); got != "a or b" {
		t.Errorf("%q", got)
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"abcdef", 6, "abcdef"},
		{"abcdefg", 6, "abc…"},
		{"abé…defg", 6, "ab…"}, // no half of a character
		{"abcdef", 2, "…"},
	} {
		if got := Cut(c.text, c.most); got != c.want {
			t.Errorf("%q in %d: %q, want %q", c.text, c.most, got, c.want)
		}
	}
}

func TestCutLast(t *testing.T) {
	if before, after, found := CutLast("a/b/c", "/"); before != "a/b" || after != "c" || !found {
		t.Errorf("%q, %q, %t", before, after, found)
	}
	if before, after, found := CutLast("abc", "/"); before != "abc" || after != "" || found {
		t.Errorf("%q, %q, %t", before, after, found)
	}
}
