package maintenance

import (
	"encoding/json"
	"unicode/utf8"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/text"
)

// What a status may have, in bytes of JSON: what does not fit into an object is refused as a whole, and some of its words are tenants'.
const (
	// mostStatus is how much it has in all, and mostObject how much with the rest of its object, of the 1.5 MiB that etcd takes.
	mostStatus, mostObject = 1 << 20, 1400 << 10
	// mostSelected is how much the names have that a selector selects: they may stand in it twice, as selected and as done.
	mostSelected = 384 << 10
	// conditionsSize bounds its conditions and counts, and entrySize an entry without blockers.
	conditionsSize, entrySize = 16 << 10, 1 << 10
	// mostText is how much a blocker's message, its remedy, and a condition's message have.
	mostText = 768
	// mostTexts is how much its blockers have before an entry has only the first one, in brief; leastTexts is kept free for them. Where there is no
	// room for that either an entry has none.
	mostTexts, leastTexts, briefly = 256 << 10, 64 << 10, 96
	// mostWarnings is how much its warnings have before an entry has only their reasons and counts, and mostWarning how much each of their texts. Where there is
	// no room for that either an entry has none.
	mostWarnings, mostWarning = 128 << 10, 320
	// mostID is how much of a boot id or of a kubelet's version an entry has: kubelets write them.
	mostID = 128
)

// crowded reports whether the status of a maintenance has no room for another entry.
func (w *work) crowded() bool { return w.size+entrySize+conditionsSize+leastTexts > w.most }

// mostSize is how much the status of a maintenance may have: what is left of its object.
func mostSize(m *v1alpha1.NodeMaintenance) int {
	rest, err := json.Marshal(v1alpha1.NodeMaintenance{ObjectMeta: m.ObjectMeta, Spec: m.Spec})
	if err != nil {
		return 0 // no object of the API: there is room for no entry
	}
	return min(mostStatus, mostObject-len(rest))
}

// measure reckons how much the status has, without blockers and conditions.
func (w *work) measure() {
	w.size = 0
	for _, names := range [][]string{w.status.SelectedNodes, w.status.DoneNodes} {
		w.size += sizeOfNames(names)
	}
	for i := range w.status.Nodes {
		w.size += sizeOfEntry(&w.status.Nodes[i])
	}
}

func sizeOfNames(names []string) (size int) {
	for _, name := range names {
		size += escaped(name) + len(`"",`)
	}
	return size
}

// sizeOfEntry is how much an entry has at most, whatever its step, without its blockers.
func sizeOfEntry(e *v1alpha1.MaintainedNode) int {
	const keys = len(`{"name":"","uid":"","step":"ReplacingMembers","startTime":"2026-12-01T04:00:00Z","stepTime":"2026-12-01T04:00:00Z","bootID":"","kubeletVersion":"","podCount":2147483647,"blocked":true,"blockers":[]},`)
	return keys + escaped(e.Name) + escaped(string(e.UID)) + escaped(e.BootID) + escaped(e.KubeletVersion)
}

func sizeOfBlocker(b *v1alpha1.MaintenanceBlocker) int {
	const keys = len(`{"reason":"","pod":"","message":"","remedy":""},`)
	return keys + escaped(b.Reason) + escaped(b.Pod) + escaped(b.Message) + escaped(b.Remedy)
}

// bound cuts the texts of entries, so that the status fits.
func (w *work) bound() {
	w.measure()
	room, size := w.most-w.size-conditionsSize, 0
	for i := range w.status.Nodes {
		e, own := &w.status.Nodes[i], 0
		for j := range e.Blockers {
			b := &e.Blockers[j]
			b.Message, b.Remedy = cut(text.Line(b.Message), mostText), cut(text.Line(b.Remedy), mostText)
			own += sizeOfBlocker(b)
		}
		if len(e.Blockers) > 0 && size+own > min(mostTexts, room) {
			first := v1alpha1.MaintenanceBlocker{Reason: e.Blockers[0].Reason, Pod: e.Blockers[0].Pod, Message: cut(e.Blockers[0].Message, briefly)}
			e.Blockers, own = []v1alpha1.MaintenanceBlocker{first}, sizeOfBlocker(&first)
		}
		if size+own > room {
			e.Blockers, own = nil, 0
		}
		size += own
	}
	w.boundWarnings(room - size)
}

// boundWarnings cuts the warnings of entries, so that they fit into what room the rest has left.
func (w *work) boundWarnings(room int) {
	size := 0
	for i := range w.status.Nodes {
		e := &w.status.Nodes[i]
		own := sizeOfWarnings(e.Warnings)
		if size+own > min(mostWarnings, room) {
			for j := range e.Warnings {
				e.Warnings[j].Pods = nil
			}
			own = sizeOfWarnings(e.Warnings)
		}
		if size+own > room {
			e.Warnings, own = nil, 0
		}
		size += own
	}
}

func sizeOfWarnings(all []v1alpha1.MaintenanceWarning) (size int) {
	const keys, podKeys = len(`{"reason":"","count":2147483647,"pods":[]},`), len(`{"name":"","message":"","remedy":""},`)
	for i := range all {
		size += keys + escaped(all[i].Reason)
		for j := range all[i].Pods {
			p := &all[i].Pods[j]
			size += podKeys + escaped(p.Name) + escaped(p.Message) + escaped(p.Remedy)
		}
	}
	return size
}

// cut cuts a text so that it has so many bytes at most once it is escaped.
func cut(s string, most int) string {
	if escaped(s) <= most {
		return s
	}
	size, kept := len("…"), 0
	for kept < len(s) {
		r, n := utf8.DecodeRuneInString(s[kept:])
		if size += escapedRune(r, n); size > most {
			break
		}
		kept += n
	}
	return s[:kept] + "…"
}

// escaped is how many bytes a text has in JSON as apiservers store it, without the quotes.
func escaped(s string) (size int) {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		size, i = size+escapedRune(r, n), i+n
	}
	return size
}

// escapedRune is how many bytes a rune of n bytes has there.
func escapedRune(r rune, n int) int {
	switch {
	case r == '"' || r == '\\':
		return 2
	case r < ' ', r == '<', r == '>', r == '&', r == '\u2028', r == '\u2029', r == utf8.RuneError:
		return len(`\u003c`)
	}
	return n
}
