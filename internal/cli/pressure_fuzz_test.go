package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/nodepressure/record"
)

const smallRecord = `{"record":1,"at":"2026-11-21T09:00:00Z","node":{"name":"a","memory":9,"readings":{"memory.available":{"available":3,"capacity":9}}},
"pods":[{"namespace":"shop","name":"web","uid":"u","qos":"Burstable","requests":{"memory":2},"containers":[{"name":"c","usage":1}],"usage":{"memory":4}}],
"config":{"evictionHard":{"memory.available":"5"},"evictionSoft":{"memory.available":"50%"},"evictionSoftGracePeriod":{"memory.available":"9s"}},"order":"qos"}`

// FuzzPressure feeds files to usher pressure -f: whatever they are, there is a page without anything that could rewrite a
// terminal and JSON that is a record again, or an error.
func FuzzPressure(f *testing.F) {
	f.Add([]byte(smallRecord))
	f.Add([]byte(smallRecord[:len(smallRecord)/2]))
	f.Add([]byte(`{"record":1,"node":{"name":"a","readings":{"pid.available":{"available":-9223372036854775808,"capacity":-1}}},"config":{"evictionHard":{"pid.available":"10%"}}}`))
	f.Add([]byte(`{"node":{"nodeName":"a\u001b[2J","fs":{"availableBytes":18446744073709551615,"capacityBytes":1}},"pods":[{"podRef":{"name":"b\u001b[1A"}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		seen, err := understand(text)
		if err != nil {
			return
		}
		page, err := (&pressureOptions{}).page(seen)
		if err != nil {
			return
		}
		for _, lines := range [][]string{page.Lines(0, show.Paint{}), page.Lines(80, show.Paint{}), page.Screenful(40, 12, "", show.Paint{})} {
			if strings.ContainsAny(strings.Join(lines, ""), "\x1b\r\n\b") {
				t.Errorf("rewrites the terminal: %q", lines)
			}
		}
		written, err := page.JSON()
		if err != nil {
			t.Fatal(err)
		}
		if !record.Is(written) || !json.Valid(written) {
			t.Errorf("no record: %s", written)
		}
	})
}
