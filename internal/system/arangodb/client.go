package arangodb

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/text"
)

// Limits of what is read. An agency of a hundred thousand shards says about fifty megabytes, and is asked once in an
// observation; all other answers are small, and thrown away before so many others are asked for.
const (
	answerLimit = 1 << 20
	agencyLimit = 64 << 20
	parallel    = 16
)

// client sends requests to servers. It is net/http and no driver: the driver has no agency, follows redirects without the
// token, and reads numberOfServers as zeros.
type client struct {
	http    *http.Client
	bearer  string // "" where authentication is off
	timeout time.Duration
}

// each does the same for every number below count, and for so many at a time that their answers fit into memory: how many
// servers there are is for these to say.
func each(count int, do func(i int)) {
	var wait sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for i := range count {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			do(i)
		})
	}
	wait.Wait()
}

// reply is what a server answered.
type reply struct {
	status   int
	location string
	body     []byte
}

// call sends one request and follows nothing. An answer of any status is a reply and no error.
func (c *client) call(ctx context.Context, method, address string, body []byte, limit int64) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return reply{}, fmt.Errorf("making a request: %w", err)
	}
	if c.bearer != "" {
		request.Header.Set("Authorization", "bearer "+c.bearer)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return reply{}, c.unanswered(ctx, err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(metered{ctx, response.Body}, limit+1))
	if err != nil {
		return reply{}, c.unanswered(ctx, fmt.Errorf("its answer breaks off: %w", err))
	}
	if int64(len(data)) > limit {
		return reply{}, fmt.Errorf("its answer is longer than %d bytes", limit)
	}
	return reply{response.StatusCode, response.Header.Get("Location"), data}, nil
}

// parsedBytes is about how many times as much memory as an answer has bytes it takes to read and to understand it.
const parsedBytes = 3

// metered counts what is read, and what will be made of it.
type metered struct {
	ctx context.Context //nolint:containedctx // it carries the meter of the observation
	io.Reader
}

func (m metered) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	if full := system.Take(m.ctx, int64(n)*parsedBytes); full != nil {
		return n, full
	}
	return n, err
}

// unanswered says why there is no answer.
func (c *client) unanswered(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("it did not answer within %s", c.timeout)
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	return fmt.Errorf("it cannot be reached: %w", system.Unquoted(err))
}

// get asks for JSON.
func (c *client) get(ctx context.Context, address string) ([]byte, error) {
	got, err := c.call(ctx, http.MethodGet, address, nil, answerLimit)
	if err != nil {
		return nil, err
	}
	return got.json()
}

// refusal is an answer that is not a success.
type refusal struct {
	status  int
	message string
}

func (r *refusal) Error() string { return r.message }

// json returns the body of a success. The rest become sentences.
func (r reply) json() ([]byte, error) {
	if r.status >= http.StatusMultipleChoices {
		return nil, &refusal{r.status, r.sentence()}
	}
	if !json.Valid(r.body) {
		return nil, &refusal{r.status, fmt.Sprintf("it answered %d with %d bytes that are not JSON: is it an ArangoDB server?", r.status, len(r.body))}
	}
	return r.body, nil
}

func (r reply) sentence() string {
	said := r.said()
	switch r.status {
	case http.StatusUnauthorized:
		return "it refuses the token (401" + said + "): does spec.system.arangodb.jwt name the secret that the servers use?"
	case http.StatusForbidden:
		return "it does not allow this (403" + said + ")"
	case http.StatusServiceUnavailable:
		return "it is not ready (503" + said + ")"
	}
	return fmt.Sprintf("it answered %d%s", r.status, said)
}

// said is the server's own word on an error, if it is an ArangoDB server: whatever else answers is not read out.
func (r reply) said() string {
	var envelope struct {
		Number  int    `json:"errorNum"`
		Message string `json:"errorMessage"`
		Agent   string `json:"message"`
	}
	if json.Unmarshal(r.body, &envelope) != nil {
		if len(r.body) == 0 {
			return ""
		}
		return fmt.Sprintf(", with %d bytes that are not JSON", len(r.body))
	}
	message := short(cmp.Or(envelope.Message, envelope.Agent))
	switch {
	case envelope.Number != 0:
		return fmt.Sprintf(", error %d: %s", envelope.Number, message)
	case message != "":
		return ": " + message
	}
	return ""
}

// short is the beginning of a text, on one line.
func short(said string) string {
	const most = 160
	return text.Cut(strings.Join(strings.Fields(strings.ToValidUTF8(said, "?")), " "), most+len("…"))
}

// unsent reports whether a request has certainly not reached the server: sending it elsewhere cannot do the same thing twice.
func unsent(err error) bool {
	failed, ok := errors.AsType[*net.OpError](err)
	return ok && failed.Op == "dial"
}

// decode reads JSON of a shape.
func decode[T any](data []byte) (T, error) {
	var value T
	if err := json.Unmarshal(data, &value); err != nil {
		return value, fmt.Errorf("understanding its answer: %w", err)
	}
	return value, nil
}

// secretSize is how much of a secret servers use.
const secretSize = 64

// token makes the token of a superuser: HS256 over two constants, which is too little to need a library. It does not expire.
func token(secret []byte) (string, error) {
	secret = bytes.TrimSpace(secret)
	if len(secret) == 0 {
		return "", errors.New("the secret with which tokens are signed is empty")
	}
	secret = secret[:min(len(secret), secretSize)]
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + encode([]byte(`{"iss":"arangodb","server_id":"usher"}`))
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(signed))
	return signed + "." + encode(mac.Sum(nil)), nil
}
