// Package summary answers: what does a kubelet's /stats/summary say of its node and of the pods on it?
package summary

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// Summary is what a kubelet measured.
type Summary struct{ stats stats.Summary }

// Parse reads the answer of a kubelet to GET /stats/summary. The error says what the text is instead, where that can be
// determined: cut short, something else's answer, no JSON.
func Parse(text []byte) (*Summary, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, errors.New("the summary is empty: nothing was written or sent")
	}
	s := &Summary{}
	if err := json.Unmarshal(text, &s.stats); err != nil {
		return nil, unreadable(text, err)
	}
	if s.stats.Node.NodeName == "" {
		return nil, foreign(text)
	}
	return s, nil
}

func unreadable(text []byte, err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		if strings.Contains(syntax.Error(), "unexpected end") {
			return fmt.Errorf("the summary breaks off after %d bytes: it was cut short while it was sent or written, so get it again: %w", len(text), err)
		}
		return fmt.Errorf("this is no summary of a kubelet: it is no JSON at byte %d of %d, and begins with %q: %w", syntax.Offset, len(text), start(text), err)
	}
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		where := kind.Field
		if where == "" {
			where = "all of it"
		}
		return fmt.Errorf("this is no summary of a kubelet: %s cannot be %s", where, article(kind.Value))
	}
	return fmt.Errorf("reading the summary: %w", err)
}

// foreign says what a JSON object is that names no node.
func foreign(text []byte) error {
	var other struct {
		Kind    string `json:"kind"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal(text, &other); err == nil && other.Kind != "" {
		said := ""
		if other.Message != "" {
			said = ", which says: " + other.Message
		}
		return fmt.Errorf("this is no summary of a kubelet, but an object of kind %s%s", other.Kind, said)
	}
	return errors.New("this is no summary of a kubelet: it has no node.nodeName")
}

func start(text []byte) string {
	const most = 40
	text = bytes.TrimSpace(text)
	if len(text) > most {
		text = text[:most]
	}
	return string(text)
}

func article(value string) string {
	if strings.IndexAny(value, "aeiou") == 0 {
		return "an " + value
	}
	return "a " + value
}
