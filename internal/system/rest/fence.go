package rest

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	nethttp "net/http"
	"strings"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/system"
)

// Fence turns machines off by requests that a LostNodePolicy declares, and looks whether they are.
type Fence struct {
	web   *web
	call  call
	look  *address
	until *expression.Expression
}

// FenceSecrets are the entries of Secrets that a fence refers to.
func FenceSecrets(spec *v1alpha1.HTTPFence) []v1alpha1.SecretKey {
	var keys []v1alpha1.SecretKey
	if spec.CA != nil {
		keys = append(keys, *spec.CA)
	}
	for i := range spec.Headers {
		if secret := spec.Headers[i].Secret; secret != nil {
			keys = append(keys, *secret)
		}
	}
	return keys
}

// NewFence compiles a fence. It does not connect. Without the values of its Secrets it says what is wrong with the rest, and must not be
// used.
func NewFence(spec *v1alpha1.HTTPFence, access system.Access) (*Fence, error) {
	l, err := expression.NewLanguage(expression.Schema{Fence: true})
	if err != nil {
		return nil, err
	}
	f := &Fence{web: &web{timeout: access.Timeout, client: newClient(access)}}
	if f.call, err = newCall(l, v1alpha1.Call{Method: spec.Method, URL: spec.URL, Body: spec.Body}); err != nil {
		return nil, fmt.Errorf("fence.http: %w", err)
	}
	if f.look, err = newAddress(l, spec.Observe.URL); err != nil {
		return nil, fmt.Errorf("fence.http.observe: %w", err)
	}
	if f.until, err = l.Expression(spec.Observe.Until, expression.Bool); err != nil {
		return nil, fmt.Errorf("fence.http.observe.until: %w", err)
	}
	if access.Secrets != nil {
		if f.web.headers, err = headers(spec.Headers, access); err != nil {
			return nil, err
		}
	}
	return f, f.scoped()
}

// scoped refuses what can never be evaluated here: there is no member, and an answer to the observation alone.
func (f *Fence) scoped() error {
	for field, template := range map[string]*expression.Template{"fence.http.url": f.call.url.text, "fence.http.body": f.call.body, "fence.http.observe.url": f.look.text} {
		if template == nil {
			continue
		}
		if strings.HasPrefix(template.Text, "/") && field != "fence.http.body" {
			return fmt.Errorf("%s %q must begin with http:// or https://", field, template.Text)
		}
		for _, e := range template.Expressions() {
			if e.Names(expression.AnswerVariable) || !e.NamesOnly(expression.NodeVariable) {
				return fmt.Errorf("%s: {{%s}} may speak of node alone", field, e.Text)
			}
		}
	}
	if !f.until.NamesOnly(expression.NodeVariable) || !f.until.Names(expression.AnswerVariable) {
		return fmt.Errorf("fence.http.observe.until: %q must speak of answer, and beside it of node alone", f.until.Text)
	}
	return nil
}

// Close lets go of connections.
func (f *Fence) Close() { f.web.client.CloseIdleConnections() }

// Off asks for a machine to be turned off, once. It says what became of the request: what may have been received is Unknown.
func (f *Fence) Off(ctx context.Context, machine system.Machine) (v1alpha1.RequestResult, string) {
	scope := machine.Scope(nil)
	urls, err := f.call.url.at(nil, scope)
	if err != nil {
		return v1alpha1.RequestNotSent, err.Error()
	}
	r := request{method: f.call.method}
	if f.call.body != nil {
		if r.body, err = f.call.body.ExpandJSON(scope); err != nil {
			return v1alpha1.RequestNotSent, fmt.Sprintf("body: %v", err)
		}
		if !json.Valid([]byte(r.body)) {
			return v1alpha1.RequestNotSent, "body is not JSON: " + excerpt([]byte(r.body))
		}
	}
	if _, err = f.web.sendTo(ctx, newIntake(ctx, maxReply), r, urls[0], 1); err != nil {
		return resultOf(err), r.failed(urls[0], err).Error()
	}
	return v1alpha1.RequestAccepted, r.method + " " + redacted(urls[0])
}

// resultOf says whether a request that failed may have been received.
func resultOf(err error) v1alpha1.RequestResult {
	if said, ok := errors.AsType[*statusError](err); ok {
		if said.code < nethttp.StatusInternalServerError {
			return v1alpha1.RequestRefused
		}
		return v1alpha1.RequestUnknown
	}
	if dialled, ok := errors.AsType[*net.OpError](err); ok && dialled.Op == "dial" {
		return v1alpha1.RequestNotSent
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return v1alpha1.RequestNotSent
	}
	return v1alpha1.RequestUnknown
}

// State says whether a machine is off, and what says so. Whatever is no answer, or an answer of which the expression has no value, is
// Unknown.
func (f *Fence) State(ctx context.Context, machine system.Machine) (v1alpha1.PowerState, string) {
	urls, err := f.look.at(nil, machine.Scope(nil))
	if err != nil {
		return v1alpha1.PowerUnknown, err.Error()
	}
	answer, err := f.web.get(ctx, newIntake(ctx, maxReply), urls)
	if err != nil {
		return v1alpha1.PowerUnknown, err.Error()
	}
	value, err := f.until.Eval(machine.Scope(answer))
	if err != nil {
		return v1alpha1.PowerUnknown, fmt.Sprintf("GET %s: until: %v", redacted(urls[0]), err)
	}
	off, _ := value.(bool)
	if off {
		return v1alpha1.PowerOff, fmt.Sprintf("GET %s: %s is true", redacted(urls[0]), f.until.Text)
	}
	return v1alpha1.PowerOn, fmt.Sprintf("GET %s: %s is false", redacted(urls[0]), f.until.Text)
}
