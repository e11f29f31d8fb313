package serviceproxy

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// apply opens and closes what has to be by what was seen last.
func (p *Proxy) apply(ctx context.Context) {
	wanted, err := p.wanted()
	if err != nil {
		p.report(err)
		return
	}
	for at, f := range p.open {
		if len(wanted[at]) == 0 {
			f.stop()
			delete(p.open, at)
		}
	}
	for at, endpoints := range wanted {
		if f := p.open[at]; f != nil {
			f.lead(endpoints)
			continue
		}
		f, err := listen(ctx, at, endpoints)
		if err != nil {
			p.report(err)
			continue
		}
		p.open[at] = f
	}
}

// wanted is where connections to each port of each Service lead; ports without a ready endpoint are not in it.
func (p *Proxy) wanted() (map[netip.AddrPort][]string, error) {
	services, err := p.services.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("listing Services: %w", err)
	}
	wanted := map[netip.AddrPort][]string{}
	for _, service := range services {
		ip, err := netip.ParseAddr(service.Spec.ClusterIP)
		if err != nil || !p.config.Services.Contains(ip) {
			continue // headless, or of another kind
		}
		for _, port := range service.Spec.Ports {
			endpoints, err := p.endpoints(service, port)
			if err != nil {
				return nil, err
			}
			if len(endpoints) > 0 && port.Protocol == corev1.ProtocolTCP {
				wanted[netip.AddrPortFrom(ip, uint16(port.Port))] = endpoints
			}
		}
	}
	return wanted, nil
}

// endpoints are the ready ones behind a port, as host:port, sorted.
func (p *Proxy) endpoints(service *corev1.Service, port corev1.ServicePort) ([]string, error) {
	if service.Namespace == metav1.NamespaceDefault && service.Name == "kubernetes" {
		return []string{p.config.APIServer}, nil
	}
	all, err := p.slices.EndpointSlices(service.Namespace).List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service.Name}))
	if err != nil {
		return nil, fmt.Errorf("listing the endpoints of %s: %w", service.Name, err)
	}
	var found []string
	for _, slice := range all {
		for _, there := range slice.Ports {
			if there.Port == nil || there.Name == nil || *there.Name != port.Name {
				continue
			}
			for _, ip := range ready(slice.Endpoints) {
				found = append(found, net.JoinHostPort(ip, strconv.Itoa(int(*there.Port))))
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// ready are the addresses of those that may get connections. One that does not say whether it is ready is.
func ready(endpoints []discoveryv1.Endpoint) []string {
	var found []string
	for _, e := range endpoints {
		if e.Conditions.Ready == nil || *e.Conditions.Ready {
			found = append(found, e.Addresses...)
		}
	}
	return found
}
