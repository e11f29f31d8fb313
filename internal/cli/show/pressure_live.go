package show

// Screenful is the page for a terminal of that size, with a line below it that says what became of the last look; "":
// nothing to say. What does not fit is left out, what matters least first.
func (p Pressure) Screenful(width, height int, banner string, paint Paint) []string {
	room := height - 1 // the cursor's own line
	var below []string
	if banner != "" {
		below = wrap(clean(banner), width)
		below = below[:min(len(below), max(0, room))]
		room -= len(below)
	}
	var lines []string
	for _, e := range p.extents() {
		if lines = p.lines(width, e, paint); len(lines) <= room {
			break
		}
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

// extents are the ways to show the page, from all of it to the least.
func (p Pressure) extents() []extent {
	e := extent{cut(len(p.Forecast.Ranking), mostRanked), cut(len(p.Forecast.OOM), mostScored), true, true}
	all := []extent{{len(p.Forecast.Ranking), len(p.Forecast.OOM), true, true}, e}
	shrink := func(number *int, least int) {
		for *number > least {
			*number--
			all = append(all, e)
		}
	}
	const few = 3
	shrink(&e.scored, few)
	shrink(&e.ranked, 2*few)
	e.notes = false
	all = append(all, e)
	shrink(&e.scored, 0)
	e.others = false
	all = append(all, e)
	shrink(&e.ranked, 0)
	return all
}
