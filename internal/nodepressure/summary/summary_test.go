package summary

import (
	"strings"
	"testing"
)

const small = `{"node":{"nodeName":"worker-1","startTime":null,"memory":{"time":"2026-11-21T09:00:00Z","availableBytes":1000,"workingSetBytes":500}},"pods":[]}`

func TestParseSaysWhatATextIsInstead(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"empty", "", "is empty"},
		{"blank", " \n", "is empty"},
		{"cut short", small[:len(small)-20], "breaks off after"},
		{"cut in a name", small[:20], "breaks off after 20 bytes"},
		{"page", "<html><body>502 Bad Gateway</body></html>", `it is no JSON at byte 1 of 41, and begins with "<html><body>502`},
		{"two answers", small + small, "it is no JSON at byte"},
		{"status", `{"kind":"Status","message":"nodes is forbidden"}`, "an object of kind Status, which says: nodes is forbidden"},
		{"nodes", `{"kind":"NodeList","items":[]}`, "an object of kind NodeList"},
		{"other object", `{}`, "it has no node.nodeName"},
		{"list", `[]`, "all of it cannot be an array"},
		{"null", `null`, "it has no node.nodeName"},
		{"text for a number", `{"node":{"nodeName":"a","memory":{"availableBytes":"12"}}}`, "node.memory.availableBytes cannot be a string"},
		{"negative", `{"node":{"nodeName":"a","memory":{"availableBytes":-12}}}`, "node.memory.availableBytes cannot be a number -12"},
		{"no time", `{"node":{"nodeName":"a","memory":{"time":"noon"}}}`, "reading the summary"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Parse([]byte(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, %v; want an error with %q", s, err, tt.want)
			}
		})
	}
}

func TestParse(t *testing.T) {
	s, err := Parse([]byte(small))
	if err != nil || s.stats.Node.NodeName != "worker-1" {
		t.Errorf("got %v, %v", s, err)
	}
}
