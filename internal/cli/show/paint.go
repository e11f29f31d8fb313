package show

import "github.com/charmbracelet/x/ansi"

// Paint colours words. The zero value leaves them as they are.
type Paint struct{ On bool }

func (p Paint) in(style ansi.Style, s string) string {
	if !p.On || s == "" {
		return s
	}
	return style.Styled(s)
}

func (p Paint) bad(s string) string  { return p.in(ansi.NewStyle().ForegroundColor(ansi.Red), s) }
func (p Paint) wait(s string) string { return p.in(ansi.NewStyle().ForegroundColor(ansi.Yellow), s) }

func (p Paint) good(s string) string { return p.in(ansi.NewStyle().ForegroundColor(ansi.Green), s) }

func (p Paint) move(s string) string { return p.in(ansi.NewStyle().ForegroundColor(ansi.Cyan), s) }

func (p Paint) dim(s string) string {
	return p.in(ansi.NewStyle().ForegroundColor(ansi.BrightBlack), s)
}
func (p Paint) strong(s string) string { return p.in(ansi.NewStyle().Bold(), s) }
