package show

import (
	"image/color"

	"charm.land/lipgloss/v2"
)

// Paint colours words. The zero value leaves them as they are.
type Paint struct{ On bool }

func (p Paint) in(c color.Color, s string) string {
	if !p.On {
		return s
	}
	return lipgloss.NewStyle().Foreground(c).Render(s)
}

func (p Paint) bad(s string) string  { return p.in(lipgloss.Red, s) }
func (p Paint) wait(s string) string { return p.in(lipgloss.Yellow, s) }
func (p Paint) good(s string) string { return p.in(lipgloss.Green, s) }
func (p Paint) move(s string) string { return p.in(lipgloss.Cyan, s) }
func (p Paint) dim(s string) string  { return p.in(lipgloss.BrightBlack, s) }

func (p Paint) strong(s string) string {
	if !p.On {
		return s
	}
	return lipgloss.NewStyle().Bold(true).Render(s)
}
