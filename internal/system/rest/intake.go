package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	nethttp "net/http"
	"strings"
	"sync/atomic"

	"usher.sh/usher/internal/system"
)

const (
	maxBody   = 8 << 20  // bytes of an answer
	maxAll    = 16 << 20 // bytes of all answers to one observation, those that were of no use included
	maxReply  = 64 << 10 // bytes of an answer that is no fact
	maxText   = 256 << 10
	maxValues = 200_000 // in all answers to one observation: each takes far more memory than it has bytes
	// valueBytes is about how much memory a value takes that was decoded: an object of one entry has three, and takes 400 bytes.
	valueBytes = 130
)

// intake is what may still be read and understood for one observation: it is in memory twice while the next one is made,
// and other policies' as well. The questions that are asked at the same time share it.
type intake struct {
	ctx           context.Context //nolint:containedctx // it carries the meter of the observation
	bytes, values atomic.Int64
}

func newIntake(ctx context.Context, bytes int64) *intake {
	i := &intake{ctx: ctx}
	i.bytes.Store(bytes)
	i.values.Store(maxValues)
	return i
}

// metered is a body that ends with an error where the intake does.
type metered struct {
	io.Reader
	intake *intake
}

func (m metered) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	if m.intake.bytes.Add(-int64(n)) < 0 {
		return n, fmt.Errorf("the answers of one observation are larger than %d MiB together: ask for less", maxAll>>20)
	}
	if full := system.Take(m.intake.ctx, int64(n)); full != nil {
		return n, full
	}
	return n, err
}

func (i *intake) read(answer *nethttp.Response) ([]byte, error) {
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		body, _ := io.ReadAll(io.LimitReader(answer.Body, maxReply)) // without it the status says enough
		return nil, &statusError{code: answer.StatusCode, said: gist(answer, body)}
	}
	body, err := io.ReadAll(io.LimitReader(metered{answer.Body, i}, maxBody+1))
	if err != nil {
		return nil, fmt.Errorf("the answer was cut off: %w", plain(err))
	}
	if len(body) > maxBody {
		return nil, fmt.Errorf("the answer is larger than %d MiB", maxBody>>20)
	}
	return body, nil
}

// decode makes a fact of an answer.
func (i *intake) decode(body []byte) (any, error) {
	if len(strings.TrimSpace(string(body))) == 0 {
		return nil, errors.New("the answer is empty")
	}
	values, text := measure(body)
	if text > maxText {
		return nil, fmt.Errorf("the answer has a text of more than %d KiB", maxText>>10)
	}
	if i.values.Add(-values) < 0 {
		return nil, fmt.Errorf("the answers of one observation have more than %d values together: ask for less", maxValues)
	}
	if err := system.Take(i.ctx, values*valueBytes+int64(len(body))); err != nil {
		return nil, err
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return nil, fmt.Errorf("the answer is not JSON (%w)", err)
	}
	return value, nil
}

// measure counts the values of JSON, and the bytes of its longest text, without making any of them. Of what is not JSON it
// says something.
func measure(body []byte) (values, text int64) {
	values = 1
	quoted, began := false, 0
	for at := 0; at < len(body); at++ {
		switch c := body[at]; {
		case c == '"' && quoted:
			quoted, text = false, max(text, int64(at-began))
		case c == '"':
			quoted, began = true, at
		case quoted && c == '\\':
			at++
		case !quoted && (c == ',' || c == '[' || c == '{' || c == ':'):
			values++
		}
	}
	return values, text
}

// gist is what is shown of an answer that is none. What is no JSON is not shown: no fact could be made of it, and the author of
// a policy must not read through the manager what they cannot read themselves.
func gist(answer *nethttp.Response, body []byte) string {
	switch kind, _, _ := strings.Cut(answer.Header.Get("Content-Type"), ";"); {
	case len(body) == 0:
		return ""
	case json.Valid(body):
		return ": " + excerpt(body)
	case kind != "":
		return fmt.Sprintf(" (%d bytes of %s)", len(body), excerpt([]byte(kind)))
	}
	return fmt.Sprintf(" (%d bytes that are not JSON)", len(body))
}
