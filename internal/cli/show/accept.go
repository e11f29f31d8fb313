package show

// Accept is how to drain in spite of objections.
type Accept struct {
	Command string // the whole command, with the flags that accept them; shown on one line, so that it can be copied
	Enough  bool   // nothing has to be mended first
}

// Title stands above the command.
func (a Accept) Title() string {
	if a.Enough {
		return "To drain all the same"
	}
	return "To drain all the same, once what no flag accepts is mended"
}
