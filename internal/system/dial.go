package system

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The author of a policy says where its system listens, and the manager connects to it: it must not lend the author its place in
// the network. What is refused is refused when a connection is made, to the address that is really dialled. So neither a name
// that leads elsewhere the second time, nor a redirect, nor what a system says of its members gets round it.

// maxHeader is how many bytes of headers an answer may have.
const maxHeader = 64 << 10

// metadata are the addresses at which clouds give a machine its credentials, beside the link-local ones.
var metadata = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("fd00:ec2::23"), netip.MustParseAddr("fd20:ce::254"),
	netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16"), netip.MustParseAddr("192.0.0.192"),
}

// translated is where networks without IPv4 put its addresses.
var translated = netip.MustParsePrefix("64:ff9b::/96")

// Dialer makes connections to the system, except to addresses at which no system listens that others may ask for.
func (a Access) Dialer() *net.Dialer {
	return &net.Dialer{
		Timeout: a.Timeout, KeepAlive: 30 * time.Second,
		Control: func(_, address string, _ syscall.RawConn) error { return a.Admit(address) },
	}
}

// HTTP carries requests to the system: Transport, or one that dials with Dialer and knows no proxy.
func (a Access) HTTP() http.RoundTripper {
	if a.Transport != nil {
		return a.Transport
	}
	return &http.Transport{
		DialContext: a.Dialer().DialContext, TLSClientConfig: a.TLS, ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: 8, IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: a.Timeout,
		MaxResponseHeaderBytes: maxHeader,
	}
}

// Admit refuses an address IP:PORT at which no system listens that others may ask for. What cannot be read is no address.
func (a Access) Admit(address string) error {
	parsed, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%q is not an address of the network", address)
	}
	ip := parsed.Addr().WithZone("").Unmap()
	if translated.Contains(ip) {
		ip, _ = netip.AddrFromSlice(ip.AsSlice()[12:])
	}
	switch {
	case ip.IsLinkLocalUnicast(), ip.IsLinkLocalMulticast(), slices.Contains(metadata, ip):
		return fmt.Errorf("%s is an address of the machine's surroundings (link-local, or a cloud's metadata): Usher does not connect to it", ip)
	case !a.Loopback && (ip.IsLoopback() || ip.IsUnspecified() || ours(ip)):
		return fmt.Errorf("%s is the manager's own pod: Usher does not connect to it; name the system's Service or a pod", ip)
	}
	return nil
}

// ours reports whether the machine, or the pod, has the address itself. Where that cannot be found out, it may.
func ours(ip netip.Addr) bool {
	addresses, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(addresses, func(a net.Addr) bool {
		own, err := netip.ParsePrefix(a.String())
		return err == nil && own.Addr().Unmap() == ip
	})
}

// Unquoted is an error of a request without the words of the other side, which may be no HTTP at all and must not be read
// through the manager: the banner of a mail server, a line of some other protocol.
func Unquoted(err error) error {
	if err == nil {
		return nil
	}
	if text := err.Error(); strings.Contains(text, "malformed") || strings.Contains(text, unasked) {
		return errors.New("what listens there does not speak HTTP")
	}
	return err
}

// unasked is net/http's error where the other side has spoken before it was asked.
const unasked = "readLoopPeekFailLocked: %!w(<nil>)"
