package main

import (
	"bytes"
	"flag"
	"fmt"
	"html"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the picture of the README anew")

// The README's picture is what the demo shows after some seconds. make generate writes it.
func TestPicture(t *testing.T) {
	const file, after, width = "../../docs/drain.svg", 3 * time.Second, 150
	var drawn []byte
	synctest.Test(t, func(t *testing.T) {
		s := &screen{live: true, colour: true}
		begun := time.Now()
		c := begin(t.Context(), begun)
		c.run(t.Context(), func(now time.Time) bool { return now.Sub(begun) >= after })
		synctest.Wait()
		drawn = started.ReplaceAll(svg(s.picture(c.usher, c.kubectl, time.Now(), width, 24), width), []byte("-00001"))
		c.run(t.Context(), func(now time.Time) bool {
			_, _, over := c.usher.now(now)
			return over
		})
		c.end()
	})
	if *update {
		if err := os.WriteFile(file, drawn, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(drawn)); diff != "" {
		t.Errorf("make generate writes another picture (-file +drawn):\n%s", diff)
	}
}

// The measures of a picture, in pixels.
const (
	cell, line, margin = 8, 18, 16
	foreground         = "#d0d7de"
)

var colours = map[string]string{"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "36": "#76e3ea", "90": "#8b949e"}

var (
	escape = regexp.MustCompile(`\x1b\[([0-9;]*)m`)
	words  = regexp.MustCompile(`[^ ]+(?: [^ ]+)*| +`)
	// started are pods that the simulated controllers make: which of them is the first makes no difference but for their names.
	started = regexp.MustCompile(`-0000[0-9a-z]\b`)
)

// svg draws lines of a terminal. Each run of words has its own place, since fonts differ in width.
func svg(lines []string, width int) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="13" fill="%s">`+"\n",
		width*cell+2*margin, len(lines)*line+2*margin, foreground)
	fmt.Fprintln(&out, `<rect width="100%" height="100%" rx="8" fill="#0d1117"/>`)
	for i, text := range lines {
		for _, run := range runs(text) {
			fmt.Fprintf(&out, `<text xml:space="preserve" x="%d" y="%d" textLength="%d"%s>%s</text>`+"\n",
				margin+run.from*cell, margin+(i+1)*line-5, ansi.StringWidth(run.text)*cell, run.style, html.EscapeString(run.text))
		}
	}
	fmt.Fprintln(&out, "</svg>")
	return out.Bytes()
}

// run is text of one style, and the cell in which it begins.
type run struct {
	from        int
	text, style string
}

// runs splits a line where its style changes, and at spaces that are more than one.
func runs(text string) []run {
	var all []run
	at, style := 0, ""
	add := func(part string) {
		for _, some := range words.FindAllString(part, -1) {
			if strings.TrimSpace(some) != "" {
				all = append(all, run{at, some, style})
			}
			at += ansi.StringWidth(some)
		}
	}
	for {
		code := escape.FindStringSubmatchIndex(text)
		if code == nil {
			add(text)
			return all
		}
		add(text[:code[0]])
		style = styleOf(text[code[2]:code[3]])
		text = text[code[1]:]
	}
}

func styleOf(codes string) string {
	style := ""
	for code := range strings.SplitSeq(codes, ";") {
		if colour, ok := colours[code]; ok {
			style += ` fill="` + colour + `"`
		}
		if code == "1" {
			style += ` font-weight="bold"`
		}
	}
	return style
}
