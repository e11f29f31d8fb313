package openstack_test

import (
	"strings"
	"testing"
	"time"

	"usher.sh/usher/api/v1alpha1"
	usher "usher.sh/usher/internal/system/openstack"
)

// untilPower waits until the fence says so of a machine.
func untilPower(t *testing.T, r racks, f *usher.Fence, name string, want v1alpha1.PowerState, says string) {
	t.Helper()
	end := time.Now().Add(time.Minute)
	for {
		got, said := f.State(t.Context(), bareMachine(name))
		if got == want && strings.Contains(said, says) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %s, want %s: %s", got, said, want, says)
		}
		r.pass(t.Context())
	}
}

// expect fails the test where the fence says something else of a machine.
func expect(t *testing.T, f *usher.Fence, name string, want v1alpha1.PowerState, says string) {
	t.Helper()
	if got, said := f.State(t.Context(), bareMachine(name)); got != want || !strings.Contains(said, says) {
		t.Errorf("%s: %s, want %s: %s", got, said, want, says)
	}
}

// ask asks for a machine to be turned off.
func ask(t *testing.T, f *usher.Fence, name string, want v1alpha1.RequestResult, says string) {
	t.Helper()
	if got, said := f.Off(t.Context(), bareMachine(name)); got != want || !strings.Contains(said, says) {
		t.Errorf("%s: %s, want %s: %s", got, said, want, says)
	}
}

// turnOff has a machine be turned off, and waits until the fence says that it is.
func turnOff(t *testing.T, r racks, f *usher.Fence, name string) {
	t.Helper()
	ask(t, f, name, v1alpha1.RequestAccepted, "")
	untilPower(t, r, f, name, v1alpha1.PowerOff, "power off")
}

func TestIronicPowersAMachineOff(t *testing.T) {
	onRacks(t, func(t *testing.T, r racks) {
		plain, wired := r.enroll(t, "plain", false), r.enroll(t, "wired", true)
		r.power(t, plain, "power on")
		r.power(t, wired, "power on")
		f := fenceOf(t, r, r.clouds(), "")
		for _, name := range []string{"plain", "wired"} {
			expect(t, f, name, v1alpha1.PowerOn, "power on")
			turnOff(t, r, f, name)
			// It stays so when it is asked for once more.
			turnOff(t, r, f, name)
		}
		if r.runs(wired) {
			t.Error("it runs")
		}
	})
}

// The power of a machine that was enrolled and no more is never read but for a request.
func TestIronicHasNeverReadThePower(t *testing.T) {
	onRacks(t, func(t *testing.T, r racks) {
		r.enroll(t, "fresh", true)
		f := fenceOf(t, r, r.clouds(), "")
		expect(t, f, "fresh", v1alpha1.PowerUnknown, "its power is not known")
		turnOff(t, r, f, "fresh")
	})
}

// Ironic says of a machine that runs that it is off, where it was so when its power was read last. A request that is accepted has it read anew.
func TestIronicRepeatsWhatItHasReadLast(t *testing.T) {
	onRacks(t, func(t *testing.T, r racks) {
		id := r.enroll(t, "stale", true)
		r.power(t, id, "power off")
		r.press(id, true)
		f := fenceOf(t, r, r.clouds(), "")
		expect(t, f, "stale", v1alpha1.PowerOff, "power off")
		turnOff(t, r, f, "stale")
		if r.runs(id) {
			t.Error("it runs")
		}
	})
}

// A request that was accepted and failed leaves what was read before, beside an error.
func TestIronicCannotCarryOutARequest(t *testing.T) {
	onRacks(t, func(t *testing.T, r racks) {
		id := r.enroll(t, "spoilt", true)
		r.power(t, id, "power off")
		r.press(id, true)
		r.spoil(id)
		f := fenceOf(t, r, r.clouds(), "")
		ask(t, f, "spoilt", v1alpha1.RequestAccepted, "")
		untilPower(t, r, f, "spoilt", v1alpha1.PowerUnknown, "its last error: Failed to change power state to 'power off'")
		if !r.runs(id) {
			t.Error("it is off")
		}
	})
}

// Of a machine that is powering off, by its BMC, Ironic says that it is off, and turns nothing off. docs/lost-nodes.md says so: no client of Ironic can tell.
func TestIronicTakesPoweringOffForOff(t *testing.T) {
	onRacks(t, func(t *testing.T, r racks) {
		id := r.enroll(t, "ending", true)
		r.end(id)
		f := fenceOf(t, r, r.clouds(), "")
		turnOff(t, r, f, "ending")
		if !r.runs(id) {
			t.Error("it is off: take the sentence on PoweringOff out of docs/lost-nodes.md")
		}
	})
}

func TestIronicHasLockedAMachine(t *testing.T) {
	onRacks(t, func(t *testing.T, r racks) {
		id := r.enroll(t, "locked", true)
		r.power(t, id, "power off")
		r.mute(t, id, true)
		f := fenceOf(t, r, r.clouds(), "")
		expect(t, f, "locked", v1alpha1.PowerUnknown, "on its way to power on")
		ask(t, f, "locked", v1alpha1.RequestRefused, "is locked by host ironic, please retry")
		r.loud(id)
		untilPower(t, r, f, "locked", v1alpha1.PowerOn, "power on")
		turnOff(t, r, f, "locked")
		if r.runs(id) {
			t.Error("it runs")
		}
	})
}

// What a conductor has locked for something else than its power shows what was read last, and a request is refused.
func TestIronicHasReservedAMachine(t *testing.T) {
	onRacks(t, func(t *testing.T, r racks) {
		id := r.enroll(t, "reserved", true)
		r.power(t, id, "power off")
		r.press(id, true)
		r.mute(t, id, false)
		f := fenceOf(t, r, r.clouds(), "")
		expect(t, f, "reserved", v1alpha1.PowerOff, "power off")
		ask(t, f, "reserved", v1alpha1.RequestRefused, "is locked by host ironic, please retry")
		r.loud(id)
		r.settle(t, id)
		turnOff(t, r, f, "reserved")
		if r.runs(id) {
			t.Error("it runs")
		}
	})
}

func TestIronicOfAMachineInMaintenance(t *testing.T) {
	onRacks(t, func(t *testing.T, r racks) {
		id := r.enroll(t, "mended", false)
		r.power(t, id, "power on")
		r.maintain(t, id)
		f := fenceOf(t, r, r.clouds(), "")
		expect(t, f, "mended", v1alpha1.PowerUnknown, "baremetal node maintenance unset")
		ask(t, f, "mended", v1alpha1.RequestAccepted, "")
		expect(t, f, "mended", v1alpha1.PowerUnknown, "baremetal node maintenance unset")
	})
}

func TestIronicOfTheWrongMachine(t *testing.T) {
	onRacks(t, func(t *testing.T, r racks) {
		id := r.enroll(t, "carrier", false)
		f := fenceOf(t, r, r.clouds(), "")
		ask(t, f, "nowhere", v1alpha1.RequestNotSent, "baremetal node list")
		expect(t, f, "nowhere", v1alpha1.PowerUnknown, "baremetal node list")
		expect(t, fenceOf(t, r, r.clouds(), "{{node.providerID}}"), "carrier", v1alpha1.PowerUnknown, "Expected UUID or name for node: openstack:")
		expect(t, fenceOf(t, r, r.clouds(), "rack:1"), "carrier", v1alpha1.PowerUnknown, "Expected UUID or name for node: rack:1")
		r.carry(t, id, "carrier.example.com")
		ask(t, f, "carrier", v1alpha1.RequestAccepted, id)
		untilPower(t, r, f, "carrier", v1alpha1.PowerOff, id)
		r.carry(t, id, "another")
		ask(t, f, "carrier", v1alpha1.RequestNotSent, "carries the instance another, and not node carrier")
	})
}

func TestIronicWithWrongCredentials(t *testing.T) {
	onRacks(t, func(t *testing.T, r racks) {
		r.enroll(t, "any", false)
		wrong := strings.NewReplacer("password: right", "password: wrong", "password: secret", "password: wrong").Replace(r.clouds())
		f := fenceOf(t, r, wrong, "")
		expect(t, f, "any", v1alpha1.PowerUnknown, "refuses the credentials (401)")
		ask(t, f, "any", v1alpha1.RequestNotSent, "refuses the credentials (401)")
	})
}

// To an account that may not see a machine Ironic says that there is none.
func TestIronicOfAnAccountThatSeesNoMachine(t *testing.T) {
	onRacks(t, func(t *testing.T, r racks) {
		r.enroll(t, "unseen", false)
		f := fenceOf(t, r, r.stranger(t), "")
		expect(t, f, "unseen", v1alpha1.PowerUnknown, "unless the account may not see it")
		ask(t, f, "unseen", v1alpha1.RequestNotSent, "Node unseen could not be found")
	})
}
