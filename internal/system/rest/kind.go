package rest

import (
	"embed"
	"fmt"
	"io/fs"
	nethttp "net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/replacement"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
)

// Kind describes systems that speak HTTP. It has no roles and no steps of its own.
func Kind() system.Kind {
	return system.Kind{
		Name:       "http",
		Declared:   func(spec *v1alpha1.System) bool { return spec.HTTP != nil },
		Extend:     extend,
		Roles:      fs.FS(embed.FS{}),
		References: references,
		Succession: succession,
		Open:       Open,
	}
}

// succession: a policy that says what is asked of the system, if only that nothing is, has its members replaced by that.
func succession(spec *v1alpha1.System) system.Succession {
	if spec.HTTP.Replace == nil {
		return system.Succession{}
	}
	return system.Succession{Order: replacement.BySteps}
}

func references(spec *v1alpha1.System) system.References {
	refers := system.References{Access: &spec.HTTP.Access}
	for i := range spec.HTTP.Headers {
		if secret := spec.HTTP.Headers[i].Secret; secret != nil {
			refers.Secrets = append(refers.Secrets, *secret)
		}
	}
	return refers
}

// web is a System of questions and steps.
type web struct {
	endpoints []string
	client    *nethttp.Client
	timeout   time.Duration
	headers   nethttp.Header

	facts, memberFacts []question
	steps              map[string]step
	leave, join        []replaceStep
	summary            *expression.Expression // nil: none

	mu   sync.Mutex
	pods map[types.UID]*snapshot.Pod // members as they were observed last
}

// question is a GET whose answer becomes a fact.
type question struct {
	name string
	url  *address
}

// Open compiles the policy's questions and steps.
func Open(spec *v1alpha1.System, access system.Access) (system.System, error) {
	l, err := expression.NewLanguage(expression.Schema{})
	if err != nil {
		return nil, err
	}
	w := &web{timeout: access.Timeout, steps: map[string]step{}, client: newClient(access)}
	for _, e := range access.Endpoints {
		if !strings.HasPrefix(e, "http://") && !strings.HasPrefix(e, "https://") {
			return nil, fmt.Errorf("endpoint %q is no URL: it has to begin with http:// or https://", e)
		}
		w.endpoints = append(w.endpoints, strings.TrimRight(e, "/"))
	}
	if w.headers, err = headers(spec.HTTP.Headers, access); err != nil {
		return nil, err
	}
	if w.facts, err = questions(l, "facts", spec.HTTP.Facts); err != nil {
		return nil, err
	}
	if w.memberFacts, err = questions(l, "memberFacts", spec.HTTP.MemberFacts); err != nil {
		return nil, err
	}
	if err := w.addSteps(l, spec.HTTP); err != nil {
		return nil, err
	}
	if spec.HTTP.Summary != "" {
		if w.summary, err = summary(spec.HTTP.Summary); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *web) addSteps(l *expression.Language, spec *v1alpha1.HTTP) (err error) {
	for _, s := range spec.Steps {
		if w.steps[s.Name], err = newStep(l, s); err != nil {
			return fmt.Errorf("step %s: %w", s.Name, err)
		}
	}
	if spec.Replace == nil {
		return nil
	}
	if w.leave, err = replaceSteps(l, "leave", spec.Replace.Leave); err != nil {
		return err
	}
	w.join, err = replaceSteps(l, "join", spec.Replace.Join)
	return err
}

func (w *web) Close() { w.client.CloseIdleConnections() }

func newClient(access system.Access) *nethttp.Client {
	return &nethttp.Client{
		Transport:     access.HTTP(),
		CheckRedirect: func(*nethttp.Request, []*nethttp.Request) error { return nethttp.ErrUseLastResponse },
	}
}

func headers(spec []v1alpha1.Header, access system.Access) (nethttp.Header, error) {
	all := nethttp.Header{}
	all.Set("Accept", "application/json")
	for _, h := range spec {
		value := h.Value
		if h.Secret != nil {
			secret, ok := access.Secrets[*h.Secret]
			if !ok {
				return nil, fmt.Errorf("header %s: secret %s has no %s", h.Name, h.Secret.Name, h.Secret.Key)
			}
			value = strings.TrimRight(string(secret), "\r\n") // as editors leave it
		}
		all.Set(h.Name, value)
	}
	return all, nil
}

func questions(l *expression.Language, field string, spec []v1alpha1.Get) ([]question, error) {
	var all []question
	for _, g := range spec {
		url, err := newAddress(l, g.URL)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", field, g.Name, err)
		}
		all = append(all, question{name: g.Name, url: url})
	}
	return all, nil
}

func summary(text string) (*expression.Expression, error) {
	l, err := expression.NewLanguage(expression.Schema{Open: true})
	if err != nil {
		return nil, err
	}
	e, err := l.Expression(text, expression.Dynamic)
	if err != nil {
		return nil, fmt.Errorf("summary: %w", err)
	}
	return e, nil
}
