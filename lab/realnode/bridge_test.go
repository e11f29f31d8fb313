package realnode

import (
	"net"
	"testing"

	"github.com/vishvananda/netlink"
)

// TestBridgeKeepsItsHardwareAddress adds a port with a lower address than the bridge's, as one of a pod may have.
func TestBridgeKeepsItsHardwareAddress(t *testing.T) {
	needRealNodes(t)
	slot, claim, err := claimFree()
	if err != nil {
		t.Fatal(err)
	}
	defer claim.Close()
	defer func() {
		if err := slot.clear(); err != nil {
			t.Error(err)
		}
	}()
	if err := slot.build(false); err != nil {
		t.Fatal(err)
	}
	before, err := net.InterfaceByName(slot.Name())
	if err != nil {
		t.Fatal(err)
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.MasterIndex = slot.Name()+"port", before.Index
	attributes.HardwareAddr = net.HardwareAddr{0, 0, 0, 0, 0, 1}
	port := &netlink.Veth{LinkAttrs: attributes, PeerName: slot.Name() + "peer"}
	if err := netlink.LinkAdd(port); err != nil {
		t.Fatal(err)
	}
	after, err := net.InterfaceByName(slot.Name())
	if err != nil {
		t.Fatal(err)
	}
	if before.HardwareAddr.String() != after.HardwareAddr.String() {
		t.Errorf("the bridge's hardware address changed from %s to %s with a new port", before.HardwareAddr, after.HardwareAddr)
	}
}
