package manager

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"usher.sh/usher/internal/certificate"
)

// configurations is the name of both webhook configurations.
const configurations = "usher"

// certificates is where the webhook server's certificate comes from; it is known only after the manager is made, which
// needs the server.
type certificates struct {
	keeper atomic.Pointer[certificate.Keeper]
}

func (c *certificates) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	keeper := c.keeper.Load()
	if keeper == nil {
		return nil, errors.New("no serving certificate yet")
	}
	return keeper.GetCertificate(hello)
}

// server is the webhook server with its certificates.
type server struct {
	webhook.Server
	certificates *certificates // nil: from a directory
}

func newServer(o Options) (*server, error) {
	host, port, err := splitAddress(o.WebhookAddress)
	if err != nil {
		return nil, err
	}
	options := webhook.Options{Host: host, Port: port}
	if o.Certificates != CertificatesFromSecret {
		options.CertDir = o.Certificates
		return &server{Server: webhook.NewServer(options)}, nil
	}
	own := &certificates{}
	options.TLSOpts = []func(*tls.Config){func(c *tls.Config) { c.GetCertificate = own.get }}
	return &server{webhook.NewServer(options), own}, nil
}

func splitAddress(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("reading the webhook's address: %w", err)
	}
	port, err = strconv.Atoi(text)
	if err != nil || port < 1 || port > 65535 {
		return "", 0, fmt.Errorf("reading the webhook's address: %q is no port", text)
	}
	return host, port, nil
}

// serveCertificates starts what keeps the certificate, and makes the manager ready only with one.
func serveCertificates(mgr ctrl.Manager, o Options) error {
	s, ok := mgr.GetWebhookServer().(*server)
	if !ok || s.certificates == nil {
		return nil // from a directory; the server does not start without one
	}
	keeper, err := certificate.Setup(mgr, o.Namespace, configurations, alertHosts(o)...)
	if err != nil {
		return err
	}
	s.certificates.keeper.Store(keeper)
	return checks(mgr.AddReadyzCheck("certificate", keeper.Ready))
}

// syncPatience is how long a readiness check waits for the caches.
const syncPatience = time.Second

// addChecks makes health and readiness mean something: alive while the process answers, ready when the caches are filled
// and a connection to the webhook server meets a certificate.
func addChecks(mgr ctrl.Manager) error {
	return checks(
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("webhook", mgr.GetWebhookServer().StartedChecker()),
		mgr.AddReadyzCheck("caches", func(r *http.Request) error {
			ctx, cancel := context.WithTimeout(r.Context(), syncPatience)
			defer cancel()
			if !mgr.GetCache().WaitForCacheSync(ctx) {
				return errors.New("the caches are not filled yet")
			}
			return nil
		}),
	)
}

func checks(errs ...error) error {
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("adding health checks: %w", err)
	}
	return nil
}
