package serviceproxy

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// protocol marks this proxy's routes among all of the machine. The number means nothing to the kernel and belongs to no other program.
const protocol = 117

// claim is a range that this process serves: a route that makes its addresses the machine's own, and a name in the
// abstract socket namespace, which the kernel lets go of with the process. So a range whose route is there and whose name
// is free was left behind.
type claim struct {
	name  net.Listener
	route *netlink.Route
}

func take(services netip.Prefix) (*claim, error) {
	if err := sweep(); err != nil {
		return nil, err
	}
	name, err := reserve(services)
	if err != nil {
		return nil, err
	}
	route, err := routeTo(services)
	if err == nil {
		err = netlink.RouteAdd(route)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("taking %s for the machine's own addresses: %w", services, err), name.Close())
	}
	return &claim{name: name, route: route}, nil
}

func (c *claim) release() error {
	err := netlink.RouteDel(c.route)
	if errors.Is(err, unix.ESRCH) {
		err = nil // already gone
	}
	return errors.Join(err, c.name.Close())
}

func reserve(services netip.Prefix) (net.Listener, error) {
	name, err := net.ListenUnix("unix", &net.UnixAddr{Name: "@usher-lab/services/" + services.String(), Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("claiming %s: %w", services, err)
	}
	return name, nil
}

func routeTo(services netip.Prefix) (*netlink.Route, error) {
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return nil, err
	}
	return &netlink.Route{
		Dst:       &net.IPNet{IP: services.Addr().AsSlice(), Mask: net.CIDRMask(services.Bits(), 32)},
		LinkIndex: loopback.Attrs().Index,
		Table:     unix.RT_TABLE_LOCAL,
		Type:      unix.RTN_LOCAL,
		Scope:     netlink.SCOPE_HOST,
		Protocol:  protocol,
	}, nil
}

// sweep removes the routes of programs that were killed.
func sweep() error {
	routes, err := ours()
	if err != nil {
		return err
	}
	for _, route := range routes {
		services, ok := prefixOf(route.Dst)
		if !ok {
			continue
		}
		name, err := reserve(services)
		if errors.Is(err, unix.EADDRINUSE) {
			continue // it is served
		}
		if err != nil {
			return err
		}
		if err := (&claim{name: name, route: &route}).release(); err != nil {
			return fmt.Errorf("removing the route to %s, which was left behind: %w", services, err)
		}
	}
	return nil
}

func ours() ([]netlink.Route, error) {
	filter := &netlink.Route{Table: unix.RT_TABLE_LOCAL, Protocol: protocol}
	for {
		routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, filter, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_PROTOCOL)
		if errors.Is(err, netlink.ErrDumpInterrupted) {
			continue // something has changed in the middle of it, as pods come and go
		}
		if err != nil {
			return nil, fmt.Errorf("listing the machine's routes: %w", err)
		}
		return routes, nil
	}
}

func prefixOf(network *net.IPNet) (netip.Prefix, bool) {
	if network == nil {
		return netip.Prefix{}, false
	}
	ip, ok := netip.AddrFromSlice(network.IP.To4())
	bits, _ := network.Mask.Size()
	return netip.PrefixFrom(ip, bits), ok
}
