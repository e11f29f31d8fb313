package notice

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"usher.sh/usher/internal/text"
)

// Matcher compares a label of an alert as Alertmanager does: a regular expression has to match the whole value, and a label that an alert does not have
// is empty.
type Matcher struct {
	Label   string
	Value   string
	pattern *regexp.Regexp // nil: compared as it is
	not     bool
}

var (
	labelName     = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	matcherSyntax = regexp.MustCompile(`^\s*([^=!~\s]+)\s*(=~|!~|!=|=)\s*(.*?)\s*$`)
)

// parseMatcher reads a matcher as Alertmanager writes it: severity="page", pool=~"spot-.*". The quotes may be left out around a plain word.
func parseMatcher(s string) (Matcher, error) {
	parts := matcherSyntax.FindStringSubmatch(s)
	if parts == nil {
		return Matcher{}, fmt.Errorf(`%q is no matcher: write LABEL="VALUE", or !=, =~ or !~ in place of =`, text.Cut(s, mostName))
	}
	m := Matcher{Label: parts[1], not: strings.HasPrefix(parts[2], "!")}
	if !labelName.MatchString(m.Label) {
		return Matcher{}, fmt.Errorf("%q is not the name of a label: that has letters, digits and underscores", text.Cut(m.Label, mostName))
	}
	var err error
	if m.Value, err = unquote(parts[3]); err != nil {
		return Matcher{}, err
	}
	if strings.HasSuffix(parts[2], "~") {
		if m.pattern, err = anchored(m.Value); err != nil {
			return Matcher{}, err
		}
	}
	return m, nil
}

func unquote(value string) (string, error) {
	if !strings.HasPrefix(value, `"`) {
		if strings.ContainsAny(value, "\"',{}") {
			return "", fmt.Errorf("the value %s has to stand in double quotes", text.Name(value))
		}
		return value, nil
	}
	plain, err := strconv.Unquote(value)
	if err != nil {
		return "", fmt.Errorf("the value %s does not end with its quote, or has an escape that there is not", text.Name(value))
	}
	return plain, nil
}

func anchored(pattern string) (*regexp.Regexp, error) {
	if len(pattern) > mostPattern {
		return nil, fmt.Errorf("the regular expression has %d bytes, and may have %d", len(pattern), mostPattern)
	}
	if _, err := regexp.Compile(pattern); err != nil {
		return nil, errors.New("it is no regular expression (RE2): " + text.Line(err.Error()))
	}
	return regexp.Compile("^(?s:" + pattern + ")$")
}

// matches reports whether a value of the label matches.
func (m *Matcher) matches(value string) bool {
	same := value == m.Value
	if m.pattern != nil {
		same = m.pattern.MatchString(value)
	}
	return same != m.not
}
