package rest

import (
	"errors"
	"fmt"
	neturl "net/url"
	"slices"
	"strings"

	"usher.sh/usher/internal/expression"
)

// maxURL is how many characters a URL may have once its values are in it.
const maxURL = 8 << 10

// address is a URL with expressions in it: a path below an endpoint, or a whole URL.
type address struct {
	text *expression.Template
}

func newAddress(l *expression.Language, text string) (*address, error) {
	if !strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "http://") && !strings.HasPrefix(text, "https://") {
		return nil, fmt.Errorf("url %q must begin with /, http:// or https://", text)
	}
	template, err := l.Template(text)
	if err != nil {
		return nil, fmt.Errorf("url %q: %w", text, err)
	}
	return &address{text: template}, nil
}

// at returns the URLs to try, in order.
func (a *address) at(endpoints []string, scope *expression.Scope) ([]string, error) {
	text, err := a.text.Expand(scope, escape)
	if err != nil {
		return nil, fmt.Errorf("url %q: %w", a.text.Text, err)
	}
	if !strings.HasPrefix(text, "/") {
		endpoints, text = []string{text}, ""
	}
	var urls []string
	for _, e := range endpoints {
		if err := check(e + text); err != nil {
			return nil, fmt.Errorf("url %q: %w", a.text.Text, err)
		}
		urls = append(urls, e+text)
	}
	return urls, nil
}

// escape makes a value safe in every part of a URL. A colon stays: it separates no parts there, and IPv6
// addresses need it.
func escape(value string) string {
	return strings.NewReplacer("+", "%20", "%3A", ":").Replace(neturl.QueryEscape(value))
}

// check refuses what a value may have made of a URL.
func check(text string) error {
	if len(text) > maxURL {
		return fmt.Errorf("it has more than %d characters", maxURL)
	}
	u, err := neturl.Parse(text)
	if err != nil {
		return err
	}
	if u.Host == "" {
		return errors.New("no host")
	}
	if slices.ContainsFunc(strings.Split(u.Path, "/"), func(s string) bool { return s == "." || s == ".." }) {
		return errors.New("a part of the path is one dot or two")
	}
	return nil
}
