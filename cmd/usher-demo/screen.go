package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"usher.sh/usher/internal/cli/show"
)

// screen shows both drains beside each other, or where there is no terminal, or one that is narrow, below each other.
type screen struct {
	out          io.Writer
	live, colour bool
	size         func() (width, height int)

	block *show.Screen
	shown time.Time // when a pipe got its last picture
}

const (
	beside = 110 // cells from which there is room for two
	gap    = " │ "
	// pipeEvery is how often a pipe gets a picture.
	pipeEvery = 5 * time.Second
)

func (s *screen) draw(u *usher, k *kubectl, now time.Time) {
	width, height := s.size()
	if !s.live {
		if now.Sub(s.shown) >= pipeEvery {
			s.shown = now
			fmt.Fprintln(s.out, strings.Join(s.picture(u, k, now, width, 1000), "\n")+"\n")
		}
		return
	}
	if s.block == nil {
		s.block = show.NewScreen(s.out)
	}
	s.block.Draw(s.picture(u, k, now, width, height-1), width)
}

func (s *screen) picture(u *usher, k *kubectl, now time.Time, width, height int) []string {
	if width < beside || !s.live {
		each := (height - 1) / 2
		return append(append(s.usherLines(u, now, width, each), ""), s.kubectlLines(k, now, width, each)...)
	}
	each := (width - ansi.StringWidth(gap)) / 2
	left, right := s.usherLines(u, now, each, height), s.kubectlLines(k, now, each, height)
	lines := make([]string, max(len(left), len(right)))
	for i := range lines {
		lines[i] = fill(at(left, i), each) + gap + at(right, i)
	}
	return lines
}

func (s *screen) usherLines(u *usher, now time.Time, width, height int) []string {
	decision, until, _ := u.now(now)
	paint := show.Paint{On: s.colour}
	lines := []string{fit("$ usher drain "+drained+" --ignore-daemonsets --force --deadline 1m", width), fit(health(u.cluster), width), ""}
	picture := show.Picture{Now: until, Started: u.started, Deadline: u.started.Add(deadline), Decision: decision}
	return append(lines, show.Table(picture, width, height-len(lines), paint)...)
}

func (s *screen) kubectlLines(k *kubectl, now time.Time, width, height int) []string {
	lines := []string{"$ kubectl drain " + drained + " --ignore-daemonsets --force --timeout 1m", health(k.cluster), ""}
	for _, line := range k.lines(now) {
		lines = append(lines, strings.Split(ansi.Wrap(line, width, ""), "\n")...)
	}
	lines = lines[:min(len(lines), height)]
	for i := range lines {
		lines[i] = fit(lines[i], width)
	}
	return lines
}

// conclude says how both have ended.
func (s *screen) conclude(u *usher, k *kubectl) {
	decision, until, _ := u.now(time.Now())
	fmt.Fprintf(s.out, "\nusher:   %s after %s\nkubectl: %s after %s\n",
		decision.Outcome, seconds(until.Sub(u.started)), k.state(), seconds(k.until(time.Now()).Sub(k.started)))
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

func fit(line string, width int) string { return ansi.Truncate(line, width, "…") }

func fill(line string, width int) string {
	return line + strings.Repeat(" ", max(0, width-ansi.StringWidth(line)))
}
