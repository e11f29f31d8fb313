package cluster

import (
	"encoding/binary"
	"net"
	"net/netip"

	"usher.sh/usher/lab/port"
)

// serviceBits make ranges of 126 addresses, small enough that every port can have one.
const serviceBits = 25

// Services is the range of the addresses of Services. No other lab of the machine has it, as none has the port of this
// one's apiserver; all are in 10.96.0.0 to 10.119.255.255.
func (c *Cluster) Services() netip.Prefix {
	const size = 1 << (32 - serviceBits)
	first := uint32(10<<24|96<<16) + uint32(c.ports.APIServer-port.First)*size
	return netip.PrefixFrom(netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, first))), serviceBits)
}

// serviceIP is the address of the service "kubernetes": the first.
func (c *Cluster) serviceIP() net.IP { return c.Services().Addr().Next().AsSlice() }
