package rest

import (
	"context"
	"errors"
	"fmt"
	nethttp "net/http"
	neturl "net/url"
	"strings"
	"time"
	"unicode"

	"usher.sh/usher/internal/system"
)

// maxExcerpt is how many characters of an answer are shown.
const maxExcerpt = 200

type request struct {
	method string
	body   string
}

// statusError is an answer whose status is not one of success.
type statusError struct {
	code int
	said string // with what leads to it
}

func (e *statusError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("answered %d %s", e.code, nethttp.StatusText(e.code))) + e.said
}

// get asks the URLs in their order, each with its share of the time that is left, until one gives a good answer. The error
// names every URL that was tried and what it answered.
func (w *web) get(ctx context.Context, in *intake, urls []string) (any, error) {
	var failures lines
	for i, url := range urls {
		r := request{method: nethttp.MethodGet}
		body, err := w.sendTo(ctx, in, r, url, len(urls)-i)
		var value any
		if err == nil {
			value, err = in.decode(body)
		}
		if err == nil {
			return value, nil
		}
		failures = append(failures, r.failed(url, err))
	}
	return nil, failures
}

// do is get for a request that changes something. What one URL has refused for good is not tried at the next, and the
// error wraps system.ErrTerminal. Nor is what one URL says is not there.
func (w *web) do(ctx context.Context, r request, urls []string) error {
	var failures lines
	for i, url := range urls {
		_, err := w.sendTo(ctx, newIntake(ctx, maxBody), r, url, len(urls)-i)
		if err == nil {
			return nil
		}
		failures = append(failures, r.failed(url, err))
		if said, ok := errors.AsType[*statusError](err); ok && (system.Final(said.code) || said.code == nethttp.StatusNotFound) {
			return &refusal{lines: failures, code: said.code}
		}
	}
	return failures
}

// refusal is an answer that holds for every endpoint.
type refusal struct {
	lines
	code int
}

func (r *refusal) Is(err error) bool { return err == system.ErrTerminal && system.Final(r.code) }

func (r request) failed(url string, err error) error {
	return fmt.Errorf("%s %s: %w", r.method, redacted(url), err)
}

func (w *web) sendTo(ctx context.Context, in *intake, r request, url string, left int) ([]byte, error) {
	timeout := w.timeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline)/time.Duration(left))
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := nethttp.NewRequestWithContext(ctx, r.method, url, strings.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	req.Header = w.headers.Clone()
	if r.body != "" && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	answer, err := w.client.Do(req)
	if err != nil {
		return nil, plain(err)
	}
	defer func() { _ = answer.Body.Close() }()
	return in.read(answer)
}

// excerpt is the beginning of an answer in one line.
func excerpt(body []byte) string {
	text := strings.ToValidUTF8(string(body[:min(len(body), 4*maxExcerpt)]), "")
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) > maxExcerpt {
		return strings.TrimRight(string(runes[:maxExcerpt]), " ") + "…"
	}
	return string(runes)
}

// plain takes the method and URL out of an error, which the caller names, and says it in words.
func plain(err error) error {
	if u, ok := errors.AsType[*neturl.Error](err); ok {
		err = u.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer in time (%w)", err)
	}
	return system.Unquoted(err)
}

// redacted hides a password in a URL.
func redacted(url string) string {
	if u, err := neturl.Parse(url); err == nil {
		return u.Redacted()
	}
	return url
}

// lines is several errors in one line.
type lines []error

func (l lines) Error() string {
	texts := make([]string, len(l))
	for i, err := range l {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (l lines) Unwrap() []error { return l }
