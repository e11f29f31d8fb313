package realnode

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// Slot is the place of a node among all real nodes of the machine, whatever lab they belong to: its number gives the
// names of bridge and cgroup, and the subnet.
type Slot int

const slots = 254

// Name names the bridge, the network and the cgroup.
func (s Slot) Name() string { return fmt.Sprintf("usher%d", int(s)) }

// Subnet is where pods get their addresses from. It is outside what simulated pods (10.128.0.0/9) and services
// (10.96.0.0 to 10.119.255.255) use.
func (s Slot) Subnet() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 127, byte(s), 0}), 24)
}

// Gateway is the bridge's address, and the node's.
func (s Slot) Gateway() netip.Addr { return s.Subnet().Addr().Next() }

// host is the host's address on the link of a node with a network of its own. Slots begin with 1, so it is in no subnet.
func (s Slot) host() netip.Addr { return netip.AddrFrom4([4]byte{10, 127, 0, byte(s)}) }

var errSlotTaken = errors.New("taken by another node")

// claim takes the slot for as long as the returned file, or a copy of it in another process, is open. A name in the
// abstract socket namespace is a lock that the kernel keeps per network, as it does for bridges, and lets go of when
// its holder ends in whatever way.
func (s Slot) claim() (*os.File, error) {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: "@usher-lab/" + s.Name(), Net: "unix"})
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, errSlotTaken
	}
	if err != nil {
		return nil, fmt.Errorf("claiming %s: %w", s.Name(), err)
	}
	defer listener.Close()
	return listener.File()
}

// claimFree claims the first free slot whose subnet nothing else on the machine uses, and clears away what a node that
// could not be stopped in order has left there. A slot that cannot be cleared is passed over: the processes of a node that
// was killed end some time after its claim, and are in its cgroup until then.
func claimFree() (Slot, *os.File, error) {
	var unclear error // the last cause
	for s := Slot(1); s <= slots; s++ {
		claim, err := s.claim()
		if errors.Is(err, errSlotTaken) {
			continue
		}
		if err != nil {
			return 0, nil, err
		}
		usable, err := s.usable()
		if usable && err == nil {
			return s, claim, nil
		}
		claim.Close()
		if err != nil {
			unclear = err
		}
	}
	return 0, nil, errors.Join(errors.New("no free subnet in 10.127.0.0/16: the machine's own network or other nodes use all of it"), unclear)
}

func (s Slot) usable() (bool, error) {
	if err := s.clear(); err != nil {
		return false, err
	}
	used, err := subnetUsed(s.Subnet())
	return !used, err
}

// build makes what the node needs outside its namespaces. A network of its own the node makes itself.
func (s Slot) build(ownNetwork bool) error {
	if ownNetwork {
		return makeCgroup(s.Name())
	}
	if err := makeBridge(s.Name(), netip.PrefixFrom(s.Gateway(), s.Subnet().Bits())); err != nil {
		return err
	}
	return makeCgroup(s.Name())
}

// clear removes what build made. The slot must be claimed, and its node must have ended.
func (s Slot) clear() error {
	return errors.Join(removeBridge(s.Name()), removeCgroup(s.Name()))
}
