package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
)

// The demo shows what the README says of it: Usher ends long before the deadline, and kubectl waits for the dead budget until its own.
func TestRace(t *testing.T) {
	for name, s := range map[string]*screen{
		"pipe":            {size: func() (int, int) { return 100, 24 }},
		"terminal":        {live: true, colour: true, size: func() (int, int) { return 150, 40 }},
		"narrow terminal": {live: true, size: func() (int, int) { return 40, 20 }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				s.out = &out
				race(t.Context(), s)
				for _, want := range []string{"usher:   drained after ", "kubectl: failed after 60s"} {
					if !strings.Contains(out.String(), want) {
						t.Errorf("no %q in the output:\n%s", want, out.String())
					}
				}
			})
		})
	}
}
