package show

// Screenful is the page for a terminal of that size, with a line below it that says what became of the last look; "":
// nothing to say. What does not fit is left out from the end, pods first.
func (p Pressure) Screenful(width, height int, banner string, paint Paint) []string {
	room := height - 1 // the cursor's own line
	var below []string
	if banner != "" {
		below = wrap(clean(banner), width)
		room -= len(below)
	}
	ranked, scored := len(p.Forecast.Ranking), len(p.Forecast.OOM)
	lines := p.lines(width, ranked, scored, paint)
	for len(lines) > room && (ranked > 1 || scored > 1) {
		// Two lines of the scores are worth less than one of the order: they go first.
		over := len(lines) - room
		switch {
		case scored > mostScored:
			scored = max(mostScored, scored-over-3)
		case ranked > mostRanked:
			ranked = max(mostRanked, ranked-over-3)
		case scored > 1:
			scored--
		default:
			ranked--
		}
		lines = p.lines(width, ranked, scored, paint)
	}
	lines = lines[:min(len(lines), max(0, room))]
	for i := range lines {
		lines[i] = fit(lines[i], width)
	}
	for i := range below {
		below[i] = paint.wait(fit(below[i], width))
	}
	return append(lines, below...)
}
