package show

import (
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestCleanTakesOutWhatMovesTheCursor(t *testing.T) {
	tests := []struct{ in, want string }{
		{"plain", "plain"},
		{"two\nlines\tand\r\nmore", "two lines and more"},
		{"\x1b[2Jwiped \x1b]0;title\x07clean", "wiped clean"},
		{"bell\aring", "bell ring"},
		{"turned \u202egnp.exe", "turned gnp.exe"},
		{"", ""},
	}
	for _, tt := range tests {
		if got := clean(tt.in); got != tt.want {
			t.Errorf("clean(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestPadIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, width := clean(rapid.String().Draw(t, "text")), rapid.IntRange(1, 60).Draw(t, "width")
		if got := ansi.StringWidth(pad(text, width)); got != width {
			t.Fatalf("pad(%q, %d) is %d cells wide", text, width, got)
		}
	})
}

// TestPadAfterALetterThatJoins: this one shares its cell with the letter after it, or with a space.
func TestPadAfterALetterThatJoins(t *testing.T) {
	if got := ansi.StringWidth(pad("a\u0d4e", 5)); got != 5 {
		t.Errorf("%d cells wide, want 5", got)
	}
}

func TestSpan(t *testing.T) {
	tests := []struct {
		in   time.Duration
		want string
	}{
		{0, "0s"},
		{-time.Second, "0s"},
		{400 * time.Millisecond, "0s"},
		{4 * time.Second, "4s"},
		{time.Minute, "1m"},
		{130 * time.Second, "2m10s"},
		{3*time.Hour + 5*time.Minute + 4*time.Second, "3h5m"},
		{52 * time.Hour, "2d4h"},
	}
	for _, tt := range tests {
		if got := Span(tt.in); got != tt.want {
			t.Errorf("Span(%s) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestWrapKeepsNamesWhole(t *testing.T) {
	got := wrap("shop/a-name-that-is-long, shop/b then words", 12)
	want := []string{"shop/a-name-that-is-long,", "shop/b then", "words"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
