package notices

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"usher.sh/usher/internal/notice/metadata"
)

const (
	// ec2Patience is how long an answer is waited for. A hop limit of 1 swallows the token on its way to a pod with a network of its own.
	ec2Patience = 5 * time.Second
	// ec2Pause is how often AWS recommends to look for an interruption, ec2ScheduledPause for events that are announced days before.
	ec2Pause          = 5 * time.Second
	ec2ScheduledPause = time.Minute
	// ec2TokenTTL is the longest time that a token can be had for; ec2TokenSpare is how long before its end there is a new one.
	ec2TokenTTL   = 21600 * time.Second
	ec2TokenSpare = time.Minute
	// mostToken is how long a token may be, in bytes.
	mostToken = 4 << 10
)

const ec2Data = "/latest/meta-data/"

// ec2 asks the instance metadata service of AWS, in its version 2. It never falls back to version 1, which any request forged on the node's
// behalf would reach.
type ec2 struct {
	source

	tokens chan token // has the one token in it, unless a question uses or renews it
}

// token is none where its text is empty.
type token struct {
	text  string
	renew time.Time // when there is to be another
}

func newEC2(s source) *ec2 {
	e := &ec2{source: s, tokens: make(chan token, 1)}
	e.tokens <- token{}
	return e
}

func (e *ec2) questions() []question {
	return []question{
		{name: "ec2 spot", ask: e.spot, pause: ec2Pause},
		{name: "ec2 rebalance", ask: e.of("events/recommendations/rebalance", metadata.EC2Rebalance), pause: ec2Pause},
		{name: "ec2 lifecycle", ask: e.of("autoscaling/target-lifecycle-state", metadata.EC2Lifecycle), pause: ec2Pause},
		{name: "ec2 scheduled", ask: e.of("events/maintenance/scheduled", metadata.EC2Scheduled), pause: ec2ScheduledPause},
	}
}

// spot asks for the interruption, and for its older name where there is none: the two are one event.
func (e *ec2) spot(ctx context.Context) (metadata.Answer, error) {
	found, answer, err := e.read(ctx, "spot/instance-action", metadata.EC2SpotAction)
	if err != nil || found {
		return answer, err
	}
	_, answer, err = e.read(ctx, "spot/termination-time", metadata.EC2TerminationTime)
	return answer, err
}

type reading func(metadata.Asked, []byte) (metadata.Answer, error)

func (e *ec2) of(path string, as reading) func(context.Context) (metadata.Answer, error) {
	return func(ctx context.Context) (metadata.Answer, error) {
		_, answer, err := e.read(ctx, path, as)
		return answer, err
	}
}

// read reads a path; where nothing is found there, nothing is announced.
func (e *ec2) read(ctx context.Context, path string, as reading) (found bool, _ metadata.Answer, _ error) {
	a, err := e.get(ctx, ec2Data+path)
	switch {
	case err != nil:
		return false, metadata.Answer{}, err
	case a.status == http.StatusNotFound:
		return false, metadata.None(), nil
	case a.status != http.StatusOK:
		return false, metadata.Answer{}, a.unexpected(http.MethodGet, ec2Data+path)
	}
	answer, err := as(e.asked(), a.body)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return true, answer, err
}

// get asks with a token, and once more with a new one where it is not accepted.
func (e *ec2) get(ctx context.Context, path string) (answer, error) {
	for try := 0; ; try++ {
		token, err := e.current(ctx)
		if err != nil {
			return answer{}, err
		}
		a, err := e.client.call(ctx, ec2Patience, http.MethodGet, path, map[string]string{"X-Aws-Ec2-Metadata-Token": token}, nil)
		if err != nil || a.status != http.StatusUnauthorized || try > 0 {
			return a, err
		}
		e.forget(ctx, token)
	}
}

// current returns the token, and fetches one where there is none or it is about to end. The other questions wait for it: they need it as well.
func (e *ec2) current(ctx context.Context) (string, error) {
	var t token
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case t = <-e.tokens:
	}
	var err error
	if t.text == "" || !time.Now().Before(t.renew) {
		t, err = e.fetch(ctx)
	}
	e.tokens <- t
	return t.text, err
}

// fetch fetches a token.
func (e *ec2) fetch(ctx context.Context) (token, error) {
	const path = "/latest/api/token"
	asked := strconv.Itoa(int(ec2TokenTTL.Seconds()))
	began := time.Now()
	a, err := e.client.call(ctx, ec2Patience, http.MethodPut, path, map[string]string{"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": asked}, nil)
	switch {
	case err != nil:
		return token{}, fmt.Errorf("fetching a token (in a pod without the host's network, the instance's hop limit has to be 2 or more): %w", err)
	case a.status == http.StatusForbidden:
		return token{}, errors.New("the metadata service is turned off for this instance: turn it on (aws ec2 modify-instance-metadata-options --http-endpoint enabled)")
	case a.status != http.StatusOK:
		return token{}, fmt.Errorf("fetching a token: %w", a.unexpected(http.MethodPut, path))
	}
	text, ttl, err := tokenOf(&a)
	if err != nil {
		return token{}, fmt.Errorf("fetching a token: %w", err)
	}
	return token{text, began.Add(max(ttl-ec2TokenSpare, ttl/2))}, nil
}

// tokenOf reads a token and how long it is good for.
func tokenOf(a *answer) (string, time.Duration, error) {
	token := strings.TrimSpace(string(a.body))
	if token == "" || len(token) > mostToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' || r == '<' }) {
		return "", 0, fmt.Errorf("the answer of %d bytes is no token", len(a.body))
	}
	seconds, err := strconv.ParseUint(a.header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds"), 10, 31)
	if err != nil || seconds == 0 {
		return "", 0, errors.New("the answer does not say how long the token is good for")
	}
	return token, min(time.Duration(seconds)*time.Second, ec2TokenTTL), nil
}

// forget drops a token that was not accepted, unless there is another already.
func (e *ec2) forget(ctx context.Context, text string) {
	select {
	case <-ctx.Done():
	case t := <-e.tokens:
		if t.text == text {
			t = token{}
		}
		e.tokens <- t
	}
}
