package show

import "usher.sh/usher/internal/drain"

// LeftoverLines says what killed drains have left, and how it is undone.
func LeftoverLines(found []drain.Leftover) []string {
	lines := make([]string, 0, len(found))
	for _, l := range found {
		lines = append(lines, "a killed drain left: "+clean(l.What)+"; undo with: "+l.Remedy)
	}
	return lines
}
