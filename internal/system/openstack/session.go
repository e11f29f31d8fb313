package openstack

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/text"
)

const (
	// defaultTimeout is that of one call where the policy has none.
	defaultTimeout = 5 * time.Second
	// answerLimit is how many bytes an answer may have.
	answerLimit = 8 << 20
	// parsedBytes is about how many times as much memory as an answer has bytes it takes to read and to understand it.
	parsedBytes = 3
)

// session is Usher's being logged in.
type session struct {
	account account
	http    http.Client
	timeout time.Duration

	mu      sync.Mutex
	token   *login // nil: not logged in yet
	nova    *nova
	neutron *neutron
}

// login is a token with what it says. It is renewed by the client, once for each request, when it has expired.
type login struct {
	client  *gophercloud.ProviderClient
	catalog *tokens.ServiceCatalog
	user    string
}

func newSession(a account, access system.Access, ca []byte) (*session, error) {
	if ca != nil {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(ca) {
			return nil, errors.New("it holds no certificate in PEM")
		}
		access.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	}
	access.Timeout = cmp.Or(access.Timeout, defaultTimeout)
	return &session{
		account: a, timeout: access.Timeout,
		http: http.Client{
			Transport: limited{access.HTTP()}, Timeout: access.Timeout,
			// A token is sent nowhere but to what the catalog names.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

func (s *session) close() { s.http.CloseIdleConnections() }

// login logs in, where that was not done before. The session is locked.
func (s *session) login(ctx context.Context) (*login, error) {
	if s.token != nil {
		return s.token, nil
	}
	client, err := openstack.NewClient(s.account.options.IdentityEndpoint)
	if err != nil {
		return nil, errors.New("auth_url cannot be used")
	}
	client.HTTPClient = s.http
	options := s.account.options
	if err := openstack.AuthenticateV3(ctx, client, &options, gophercloud.EndpointOpts{}); err != nil {
		return nil, s.keystone(err)
	}
	token, ok := client.GetAuthResult().(tokens.CreateResult)
	if !ok {
		return nil, s.keystone(errors.New("it gave no token"))
	}
	catalog, err := token.ExtractServiceCatalog()
	user, userErr := token.ExtractUser()
	if err = errors.Join(err, userErr); err != nil || user == nil || user.ID == "" {
		return nil, s.keystone(errors.New("its token does not say what there is and whose it is"))
	}
	return &login{client: client, catalog: catalog, user: user.ID}, nil
}

// service finds a service of the region.
func (s *session) service(ctx context.Context, name string) (l *login, client *gophercloud.ServiceClient, region string, err error) {
	if l, err = s.login(ctx); err != nil {
		return nil, nil, "", err
	}
	endpoint, region, err := endpointOf(l.catalog, name, &s.account)
	if err != nil {
		return nil, nil, "", s.keystone(err)
	}
	return l, &gophercloud.ServiceClient{ProviderClient: l.client, Endpoint: endpoint, Type: name}, region, nil
}

// offers reports whether the cloud has a service, in whatever region.
func (s *session) offers(ctx context.Context, service string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, err := s.login(ctx)
	if err != nil {
		return false, err
	}
	s.token = l
	return len(urlsOf(l.catalog, service)) > 0, nil
}

// compute returns Nova, logged in.
func (s *session) compute(ctx context.Context) (*nova, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nova != nil {
		return s.nova, nil
	}
	l, client, region, err := s.service(ctx, "compute")
	if err != nil {
		return nil, err
	}
	n := &nova{client: client, user: l.user, region: region, session: s}
	if err := n.negotiate(ctx); err != nil {
		return nil, err
	}
	s.token, s.nova = l, n
	return n, nil
}

// network returns Neutron, logged in.
func (s *session) network(ctx context.Context) (*neutron, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.neutron != nil {
		return s.neutron, nil
	}
	l, client, region, err := s.service(ctx, "network")
	if err != nil {
		return nil, err
	}
	client.ResourceBase = strings.TrimSuffix(client.Endpoint, "v2.0/") + "v2.0/"
	s.token, s.neutron = l, &neutron{client: client, region: region, session: s}
	return s.neutron, nil
}

// keystone says what is wrong with logging in.
func (s *session) keystone(err error) error {
	where := "identity API at " + address(s.account.options.IdentityEndpoint)
	if status := statusOf(err); status == http.StatusUnauthorized {
		return fmt.Errorf("%s refuses the credentials (401): correct user, password, domain and project in the Secret's clouds.yaml", where)
	}
	return fmt.Errorf("%s: %w", where, s.sentence(err))
}

// address is a URL without what may be secret in it.
func address(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "its address"
	}
	return u.Scheme + "://" + u.Host
}

// refusal is an answer that is not a success.
type refusal struct {
	status int
	said   string // OpenStack's own words, "" where it has none
}

func (r *refusal) Error() string {
	if r.said == "" {
		return fmt.Sprintf("it answered %d", r.status)
	}
	return fmt.Sprintf("%s (%d)", r.said, r.status)
}

// statusOf is the HTTP status of an answer that is an error; 0: there is none.
func statusOf(err error) int {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.status
	}
	if again, ok := errors.AsType[*gophercloud.ErrUnableToReauthenticate](err); ok {
		return statusOf(again.ErrReauth)
	}
	if answer, ok := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err); ok {
		return answer.Actual
	}
	return 0
}

// sentence says what went wrong, and quotes nothing of the other side but the message of an error that has OpenStack's form.
func (s *session) sentence(err error) error {
	if again, ok := errors.AsType[*gophercloud.ErrUnableToReauthenticate](err); ok {
		return fmt.Errorf("the token has expired, and there is no new one: %w", s.keystone(again.ErrReauth))
	}
	if answer, ok := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err); ok {
		return &refusal{status: answer.Actual, said: message(answer.Body)}
	}
	if errors.Is(err, errTooLong) || errors.Is(err, system.ErrTooLarge) {
		return err
	}
	wrapped, isURL := errors.AsType[*url.Error](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded) || isURL && wrapped.Timeout():
		return fmt.Errorf("it did not answer within %s", s.timeout)
	case isURL:
		return fmt.Errorf("it cannot be reached: %w", system.Unquoted(wrapped.Err))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("its answer breaks off")
	case isSyntax(err):
		return errors.New("its answer is not what OpenStack says there")
	}
	return system.Unquoted(err)
}

func isSyntax(err error) bool {
	_, syntax := errors.AsType[*json.SyntaxError](err)
	_, kind := errors.AsType[*json.UnmarshalTypeError](err)
	return syntax || kind
}

// message is what an error of OpenStack says: {"NAME": {"message": "…"}}, or of Ironic: {"error_message": {"faultstring": "…"}}, where the inner one
// may be in a string, and has a description in place of a faultstring where the request came to none of its functions.
func message(body []byte) string {
	var named map[string]json.RawMessage
	if json.Unmarshal(body, &named) != nil {
		return ""
	}
	for _, raw := range named {
		var fault struct {
			Message string `json:"message"`
			Fault   string `json:"faultstring"`
			Routing string `json:"description"`
		}
		var inner string
		if json.Unmarshal(raw, &inner) == nil {
			raw = json.RawMessage(inner)
		}
		if json.Unmarshal(raw, &fault) == nil && fault.Message+fault.Fault+fault.Routing != "" {
			const most = 200
			return strings.TrimSuffix(text.Cut(text.Line(cmp.Or(fault.Message, fault.Fault, fault.Routing)), most), ".")
		}
	}
	return ""
}

// limited bounds answers, and counts them as memory of an observation.
type limited struct{ http.RoundTripper }

var errTooLong = fmt.Errorf("its answer is longer than %d MiB", answerLimit>>20)

func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := l.RoundTripper.RoundTrip(r)
	if err == nil {
		response.Body = &body{ReadCloser: response.Body, ctx: r.Context(), left: answerLimit}
	}
	return response, err
}

type body struct {
	io.ReadCloser
	ctx  context.Context //nolint:containedctx // it carries the meter of the observation
	left int64
}

func (b *body) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left+1)])
	if b.left -= int64(n); b.left < 0 {
		return n, errTooLong
	}
	if full := system.Take(b.ctx, int64(n)*parsedBytes); full != nil {
		return n, full
	}
	return n, err
}
