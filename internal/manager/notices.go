package manager

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"

	"usher.sh/usher/internal/act"
	noticecontroller "usher.sh/usher/internal/controller/notice"
	"usher.sh/usher/internal/controller/wiring"
	"usher.sh/usher/internal/observe"
)

// noticesService is the Service under which alerts are taken, as config/notices names it.
const noticesService = "usher-notices"

// alertHosts are the names under which alerts are taken; none where they are not.
func alertHosts(o Options) []string {
	if o.NoticesAddress == "" {
		return nil
	}
	return []string{noticesService + "." + o.Namespace + ".svc"}
}

// newNotices has alerts taken on every replica, and returns the controller that follows notices; none where the options name no address.
func newNotices(mgr ctrl.Manager, p *parts, o Options) ([]wiring.Controller, error) {
	if o.NoticesAddress == "" {
		return nil, nil
	}
	host, err := os.Hostname()
	if err != nil {
		host = Lease
	}
	options := noticecontroller.Options{
		Act: &act.Notices{Client: mgr.GetClient(), Instance: host, Now: o.Clock.Now}, Namespace: o.Namespace, Now: o.Clock.Now, Log: o.Log,
	}
	if options.Machines, err = machinesOf(mgr, o); err != nil {
		return nil, err
	}
	taken := &alertServer{address: o.NoticesAddress, handler: noticecontroller.NewReceiver(mgr, reviewer{p.act.Writer.Client}, options)}
	if s, ok := mgr.GetWebhookServer().(*server); ok && s.certificates != nil {
		taken.certificate = s.certificates.get
	} else if taken.files, err = certwatcher.New(filepath.Join(o.Certificates, "tls.crt"), filepath.Join(o.Certificates, "tls.key")); err != nil {
		return nil, fmt.Errorf("reading the certificate by which alerts are taken: %w", err)
	}
	if err := register([]prometheus.Collector{&noticecontroller.Collector{Client: mgr.GetClient(), Now: o.Clock.Now}}); err != nil {
		return nil, err
	}
	if err := mgr.Add(taken); err != nil {
		return nil, fmt.Errorf("adding what takes alerts: %w", err)
	}
	return []wiring.Controller{noticecontroller.Controller(mgr, options)}, nil
}

// machinesOf reads the Machines of Cluster API; nil where that is not wanted, or the cluster has none.
func machinesOf(mgr ctrl.Manager, o Options) (*observe.Machines, error) {
	if !o.ClusterAPI {
		return nil, nil
	}
	mapping, err := mgr.GetRESTMapper().RESTMapping(observe.MachineKind)
	switch {
	case meta.IsNoMatchError(err):
		o.Log.Warn("the cluster has no Machines of Cluster API: those that are being deleted are no notices until the manager is started anew", "kind", observe.MachineKind.String())
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("finding the version of Machines of Cluster API: %w", err)
	}
	return &observe.Machines{Client: mgr.GetCache(), Kind: mapping.GroupVersionKind}, nil
}

// alertServer takes alerts, by TLS with the webhook's certificate.
type alertServer struct {
	address     string
	handler     http.Handler
	certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	files       *certwatcher.CertWatcher // certificate's, where it comes from a directory
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: each replica takes alerts.
func (*alertServer) NeedLeaderElection() bool { return false }

var _ ctrlmanager.LeaderElectionRunnable = (*alertServer)(nil)

// Start implements manager.Runnable. Requests that are in work when ctx ends have the time that the manager has to end.
func (s *alertServer) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("listening for alerts: %w", err)
	}
	certificate := s.certificate
	if s.files != nil {
		certificate = s.files.GetCertificate
		go func() { _ = s.files.Start(ctx) }()
	}
	web := &http.Server{
		Handler:           s.handler,
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: certificate},
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	ended := make(chan error, 1)
	go func() { //nolint:gosec // ctx has ended by then
		<-ctx.Done()
		patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), gracePeriod)
		defer cancel()
		ended <- web.Shutdown(patient)
	}()
	if err := web.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("taking alerts: %w", err)
	}
	return <-ended
}
