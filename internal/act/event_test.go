package act

import (
	"strings"
	"testing"
)

func TestEventNote(t *testing.T) {
	if got, want := EventNote("refused:\x1b[2J\n the system says \u202egnp"), "refused:\n the system says gnp"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := EventNote(strings.Repeat("ü", 1000)); len(got) > mostNote || !strings.HasSuffix(got, "ü…") {
		t.Errorf("%d bytes, which end in %q", len(got), got[len(got)-5:])
	}
}
