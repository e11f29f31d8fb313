package realnode

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// machineLink is what a node with a network of its own has its link to the host as. The host's end has the name of the slot.
const machineLink = "eth0"

// ownNetwork has the calling thread, and with it the programs that it starts, be in a network namespace of its own, in which pods have their bridge,
// with a link to the host. All other threads stay where they are. The apiserver listens on the host's loopback: connections to that address in the
// node are carried there.
func (p plan) ownNetwork() error {
	// Before the namespace is another one: threads that begin later are copies of one that began before.
	runtime.LockOSThread()
	host, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return fmt.Errorf("finding the host's network: %w", err)
	}
	defer host.Close()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("leaving the host's network: %w", err)
	}
	if err := p.inside(host); err != nil {
		return fmt.Errorf("making the node's network: %w", err)
	}
	outside := make(chan error)
	go func() { outside <- p.outside() }()
	if err := <-outside; err != nil {
		return fmt.Errorf("linking the node's network to the host's: %w", err)
	}
	listener, err := net.Listen("tcp", p.APIServer) //nolint:noctx // until the node ends
	if err != nil {
		return fmt.Errorf("leading the node to the apiserver: %w", err)
	}
	go carry(listener, p.APIServer)
	return nil
}

// inside makes what is in the node's network.
func (p plan) inside(host *os.File) error {
	if err := setUp("lo"); err != nil {
		return err
	}
	if err := makeBridge(p.Slot.Name(), netip.PrefixFrom(p.Slot.Gateway(), p.Slot.Subnet().Bits())); err != nil {
		return err
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name = machineLink
	link := &netlink.Veth{LinkAttrs: attributes, PeerName: p.Slot.Name(), PeerNamespace: netlink.NsFd(int(host.Fd()))} //nolint:gosec // a file descriptor
	if err := netlink.LinkAdd(link); err != nil {
		return fmt.Errorf("making %s: %w", machineLink, err)
	}
	if err := setUp(machineLink); err != nil {
		return err
	}
	if err := forward(machineLink); err != nil {
		return err
	}
	to := single(p.Slot.host())
	own := p.Slot.Gateway().AsSlice()
	return errors.Join(
		route(machineLink, netlink.Route{Dst: to, Scope: netlink.SCOPE_LINK, Src: own}),
		route(machineLink, netlink.Route{Gw: to.IP, Src: own}),
	)
}

// outside makes what is in the host's network. It runs on a thread that is there.
func (p plan) outside() error {
	name := p.Slot.Name()
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	host := single(p.Slot.host())
	if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: host}); err != nil {
		return fmt.Errorf("giving %s its address: %w", name, err)
	}
	if err := setUp(name); err != nil {
		return err
	}
	if err := forward(name); err != nil {
		return err
	}
	subnet := p.Slot.Subnet()
	return route(name, netlink.Route{
		Dst: &net.IPNet{IP: subnet.Addr().AsSlice(), Mask: net.CIDRMask(subnet.Bits(), subnet.Addr().BitLen())},
		Gw:  p.Slot.Gateway().AsSlice(), Flags: int(netlink.FLAG_ONLINK), Src: host.IP,
	})
}

func single(ip netip.Addr) *net.IPNet {
	return &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(ip.BitLen(), ip.BitLen())}
}

func setUp(name string) error {
	link, err := netlink.LinkByName(name)
	if err == nil {
		err = netlink.LinkSetUp(link)
	}
	if err != nil {
		return fmt.Errorf("setting %s up: %w", name, err)
	}
	return nil
}

func route(name string, r netlink.Route) error {
	link, err := netlink.LinkByName(name)
	if err == nil {
		r.LinkIndex = link.Attrs().Index
		err = netlink.RouteAdd(&r)
	}
	if err != nil {
		return fmt.Errorf("making a route of %s: %w", name, err)
	}
	return nil
}

// forward lets one device forward to others that do, so that the machine as a whole does not become a router, and nothing is to be set back later.
func forward(name string) error {
	if err := os.WriteFile(filepath.Join("/proc/sys/net/ipv4/conf", name, "forwarding"), []byte("1"), 0o644); err != nil {
		return fmt.Errorf("letting %s forward: %w", name, err)
	}
	return nil
}

// carry carries connections to where the same address leads on the host, until the node ends.
func carry(listener net.Listener, address string) {
	for {
		from, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer from.Close()
			to, err := net.Dial("tcp", address) //nolint:noctx // until the node ends
			if err != nil {
				return
			}
			defer to.Close()
			join(from, to)
		}()
	}
}

// join copies both ways until both ends have ended.
func join(a, b net.Conn) {
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			_, _ = io.Copy(way[1], way[0]) // a connection that breaks ends
			_ = way[1].(*net.TCPConn).CloseWrite()
		})
	}
	both.Wait()
}

// Listen has an address be one of the node's, and listens there, as what is beside the machine does on its link. The node needs a network of its
// own, which stays until the listener is closed.
func (n *Node) Listen(at netip.AddrPort) (net.Listener, error) {
	if !n.OwnNetwork {
		return nil, fmt.Errorf("real node %s is on the host's network, whose address %s would be", n.Name, at.Addr())
	}
	type answer struct {
		listener net.Listener
		err      error
	}
	answers := make(chan answer)
	go func() {
		runtime.LockOSThread() // until the end of the thread, which is in the wrong place then
		listener, err := n.listen(at)
		answers <- answer{listener, err}
	}()
	a := <-answers
	if a.err != nil {
		return nil, fmt.Errorf("listening at %s in real node %s: %w", at, n.Name, a.err)
	}
	return a.listener, nil
}

func (n *Node) listen(at netip.AddrPort) (net.Listener, error) {
	network, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", n.PID()))
	if err != nil {
		return nil, err
	}
	defer network.Close()
	if err := unix.Setns(int(network.Fd()), unix.CLONE_NEWNET); err != nil { //nolint:gosec // a file descriptor
		return nil, err
	}
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return nil, err
	}
	if err := netlink.AddrAdd(loopback, &netlink.Addr{IPNet: single(at.Addr())}); err != nil {
		return nil, err
	}
	return net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
}
