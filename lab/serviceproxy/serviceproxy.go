// Package serviceproxy answers: where do the addresses of Services lead, for the apiserver and for pods of real nodes?
//
// It stands where kube-proxy stands elsewhere. kube-proxy rewrites packets, and would need iptables or nftables of the
// machine and the machine as a router; it would have to be built (the largest part of a minute) and cleaned up after.
// All real nodes of a lab share the host's network, so it is enough that the host itself takes all addresses of the
// lab's Services for its own, and that the proxy listens there. What that has in common with kube-proxy is what counts
// here: a connection goes to one of the endpoints that are ready when it begins and stays with it until one end closes
// it, and a Service without ready endpoints refuses connections. Other than there, endpoints see the host as the peer,
// and only TCP is forwarded.
package serviceproxy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"
)

// Config says whose Services are served.
type Config struct {
	// Services is the range of their addresses. No other lab may have it.
	Services netip.Prefix
	// APIServer is where the service "kubernetes" leads, as host:port: it has no endpoints in a lab.
	APIServer string
}

// Proxy serves the Services of one lab.
type Proxy struct {
	config   Config
	claim    *claim
	services corelisters.ServiceLister
	slices   discoverylisters.EndpointSliceLister

	cancel  context.CancelFunc
	changed chan struct{}
	running sync.WaitGroup
	open    map[netip.AddrPort]*forward // only of the goroutine that runs
	report  func(error)
}

// Start starts a proxy and returns when the Services that are there are served. It needs root. report is called with ports that
// could not be opened; they are tried again when something changes.
func Start(ctx context.Context, client kubernetes.Interface, config Config, report func(error)) (*Proxy, error) {
	claim, err := take(config.Services)
	if err != nil {
		return nil, fmt.Errorf("serving Services: %w", err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	p := &Proxy{
		config: config, claim: claim, report: report,
		services: factory.Core().V1().Services().Lister(),
		slices:   factory.Discovery().V1().EndpointSlices().Lister(),
		changed:  make(chan struct{}, 1),
		open:     map[netip.AddrPort]*forward{},
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p.cancel = cancel
	if err := p.watch(ctx, running, factory); err != nil {
		return nil, errors.Join(fmt.Errorf("serving Services: %w", err), p.Stop())
	}
	p.apply(running)
	p.running.Go(func() { p.run(running) })
	return p, nil
}

// watch returns when what is there was seen.
func (p *Proxy) watch(ctx, running context.Context, factory informers.SharedInformerFactory) error {
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { p.wake() },
		UpdateFunc: func(any, any) { p.wake() },
		DeleteFunc: func(any) { p.wake() },
	}
	for _, informer := range []cache.SharedIndexInformer{
		factory.Core().V1().Services().Informer(), factory.Discovery().V1().EndpointSlices().Informer(),
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	factory.StartWithContext(running)
	p.running.Go(func() {
		<-running.Done()
		factory.Shutdown()
	})
	if err := factory.WaitForCacheSyncWithContext(ctx).AsError(); err != nil {
		return fmt.Errorf("listing them: %w", err)
	}
	return nil
}

func (p *Proxy) wake() {
	select {
	case p.changed <- struct{}{}:
	default: // a look is already due
	}
}

func (p *Proxy) run(ctx context.Context) {
	for {
		select {
		case <-p.changed:
			p.apply(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// Stop ends the proxy with all connections through it, and removes the route to its addresses.
func (p *Proxy) Stop() error {
	p.cancel()
	p.running.Wait()
	for at, f := range p.open {
		f.stop()
		delete(p.open, at)
	}
	if err := p.claim.release(); err != nil {
		return fmt.Errorf("ending the serving of Services: %w", err)
	}
	return nil
}
