package cluster

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"

	"usher.sh/usher/lab/port"
)

// ports are those of one lab, all on 127.0.0.1. The controller-manager and the scheduler serve none.
type ports struct {
	EtcdClient int `json:"etcdClient"`
	EtcdPeer   int `json:"etcdPeer"`
	APIServer  int `json:"apiserver"`
}

// keepPorts finds ports for the lab, and keeps them for as long as this program runs or until it ends the lab: also while
// the apiserver is down for a restart.
func (c *Cluster) keepPorts() error {
	for _, number := range []*int{&c.ports.EtcdClient, &c.ports.EtcdPeer, &c.ports.APIServer} {
		p, err := port.Keep()
		if err != nil {
			return err
		}
		c.kept = append(c.kept, p)
		*number = p.Number
	}
	return nil
}

func (c *Cluster) releasePorts() error {
	var errs []error
	for _, p := range c.kept {
		errs = append(errs, p.Release())
	}
	c.kept = nil
	return errors.Join(errs...)
}

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
