package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// smaps is cut from that of a program that is linked dynamically; the last range but one is what the loader has filled in.
const smaps = `00400000-014c4000 r--p 00000000 fe:00 247026                     /usher
Size:              17168 kB
Anonymous:             0 kB
VmFlags: rd mr mw me
014c4000-034f9000 r-xp 010c4000 fe:00 247026                     /usher
Anonymous:             0 kB
05a90000-05a91000 r--p 05690000 fe:00 247026                     /usher
Anonymous:             4 kB
05a91000-05c15000 rw-p 05691000 fe:00 247026                     /usher
Anonymous:             0 kB
05c15000-07c68000 rw-p 00000000 00:00 0
Anonymous:             0 kB
7fd994e00000-7fd994e28000 r--p 00000000 fe:00 1840               /lib/libc.so.6
Anonymous:             0 kB
`

func TestUnchangedLeavesOutWhatTheLoaderHasWritten(t *testing.T) {
	want := []string{"00400000-014c4000", "014c4000-034f9000"}
	if diff := cmp.Diff(want, unchanged(smaps, "/usher")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
