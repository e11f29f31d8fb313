package realnode

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// makeBridge makes the bridge that a node's pods hang on.
func makeBridge(name string, address netip.Prefix) error {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = name
	// A bridge without an address that was set takes the lowest of its ports': with each pod that comes or goes, all
	// others might lose their gateway until they ask for it again. It has it from the beginning, or the machine's udev may
	// give it another.
	attributes.HardwareAddr = hardwareAddress(address.Addr())
	bridge := &netlink.Bridge{LinkAttrs: attributes}
	if err := netlink.LinkAdd(bridge); err != nil {
		return fmt.Errorf("making bridge %s: %w", name, err)
	}
	ip := &netlink.Addr{IPNet: &net.IPNet{
		IP:   address.Addr().AsSlice(),
		Mask: net.CIDRMask(address.Bits(), address.Addr().BitLen()),
	}}
	if err := netlink.AddrAdd(bridge, ip); err != nil {
		return fmt.Errorf("giving bridge %s its address: %w", name, err)
	}
	if err := netlink.LinkSetUp(bridge); err != nil {
		return fmt.Errorf("setting bridge %s up: %w", name, err)
	}
	return forward(name)
}

// hardwareAddress is a locally administered address, as unique as the IP address.
func hardwareAddress(ip netip.Addr) net.HardwareAddr {
	return append(net.HardwareAddr{2, 0}, ip.AsSlice()...)
}

// removeBridge removes what has the name: the bridge, or the host's end of the link of a node with a network of its own.
func removeBridge(name string) error {
	link, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("finding bridge %s: %w", name, err)
	}
	if err := removePorts(link); err != nil {
		return err
	}
	if err := netlink.LinkDel(link); err != nil {
		return fmt.Errorf("removing bridge %s: %w", name, err)
	}
	return nil
}

// removePorts removes the host's ends of the pods' links. They would go with the pods' network namespaces, but the
// kernel takes those down at some time after their last process.
func removePorts(bridge netlink.Link) error {
	links, err := whole(netlink.LinkList)
	if err != nil {
		return fmt.Errorf("listing network links: %w", err)
	}
	for _, link := range links {
		if link.Attrs().MasterIndex != bridge.Attrs().Index {
			continue
		}
		if err := netlink.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("removing %s from %s: %w", link.Attrs().Name, bridge.Attrs().Name, err)
		}
	}
	return nil
}

// whole lists again when something has changed in the middle of it, as pods of other nodes come and go.
func whole[T any](list func() ([]T, error)) ([]T, error) {
	var all []T
	err := retry(time.Minute, func() (bool, error) {
		var err error
		all, err = list()
		return errors.Is(err, netlink.ErrDumpInterrupted), err
	})
	return all, err
}

// subnetUsed reports whether an address of the machine lies in the subnet.
func subnetUsed(subnet netip.Prefix) (bool, error) {
	addresses, err := whole(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return false, fmt.Errorf("listing the machine's addresses: %w", err)
	}
	for _, address := range addresses {
		ip, ok := netip.AddrFromSlice(address.IP.To4())
		bits, _ := address.Mask.Size()
		if ok && netip.PrefixFrom(ip, bits).Overlaps(subnet) {
			return true, nil
		}
	}
	return false, nil
}
