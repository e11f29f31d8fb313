package openstack_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/system"
	usher "usher.sh/usher/internal/system/openstack"
	"usher.sh/usher/test/openstacksim"
)

// racks are an Ironic, simulated or real, and what may be done to its machines beside Usher's back.
type racks interface {
	clouds() string
	transport() http.RoundTripper // nil: the real one
	// enroll makes a machine whose power was never read, and returns its UUID. A wired one has a BMC of its own, which the calls below are for.
	enroll(t *testing.T, name string, wired bool) string
	// power asks for power on or power off, as another client, and returns when that has ended.
	power(t *testing.T, id, target string)
	maintain(t *testing.T, id string)
	// carry names the instance on a machine.
	carry(t *testing.T, id, name string)
	// press is the machine's button, of which nothing says a word to Ironic.
	press(id string, on bool)
	runs(id string) bool
	// mute keeps the BMC from answering until it is loud, and begins to have the machine powered on, or looked at: a conductor has it locked until then.
	mute(t *testing.T, id string, on bool)
	loud(id string)
	// end has the BMC say that the machine, which runs, is powering off.
	end(id string)
	// spoil has the BMC answer with errors alone.
	spoil(id string)
	// stranger is the clouds.yaml of an account of a project that has no machines.
	stranger(t *testing.T) string
	// settle waits until no conductor has a machine locked.
	settle(t *testing.T, id string)
	// pass lets a moment go by.
	pass(ctx context.Context)
}

// onRacks runs a case against a simulated Ironic, and against the real one whose clouds.yaml USHER_IRONIC_CLOUDS names: machines are made and deleted there.
func onRacks(t *testing.T, test func(*testing.T, racks)) {
	t.Helper()
	t.Run("simulated", func(t *testing.T) { test(t, simulatedRacks{openstacksim.New(0)}) })
	if path := os.Getenv("USHER_IRONIC_CLOUDS"); path != "" {
		t.Run("real", func(t *testing.T) { test(t, newRealRacks(t, path)) })
	}
}

// fenceOf is a policy's fence at racks, with a clouds.yaml and the template of a machine's name.
func fenceOf(t *testing.T, r racks, file, node string) *usher.Fence {
	t.Helper()
	spec := &v1alpha1.IronicFence{Clouds: v1alpha1.SecretKey{Name: "ironic", Key: "clouds.yaml"}, Node: node}
	f, err := usher.NewFence(spec, system.Access{
		Timeout: 10 * time.Second, Loopback: true, Transport: r.transport(), Secrets: map[v1alpha1.SecretKey][]byte{spec.Clouds: []byte(file)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

type simulatedRacks struct{ *openstacksim.Cloud }

func (s simulatedRacks) clouds() string               { return openstacksim.CloudsYAML }
func (s simulatedRacks) transport() http.RoundTripper { return s.Transport() }
func (s simulatedRacks) pass(context.Context)         { s.Advance(time.Second) }

func (s simulatedRacks) stranger(*testing.T) string {
	s.Strange = true
	return openstacksim.CloudsYAML
}

func (s simulatedRacks) settle(*testing.T, string) { s.Advance(time.Second) }

func (s simulatedRacks) enroll(_ *testing.T, name string, _ bool) string { return s.Enroll(name) }

func (s simulatedRacks) power(_ *testing.T, id, target string) {
	s.ChangeMachine(id, func(m *openstacksim.Machine) { m.Target = target })
	s.Advance(time.Second)
}

func (s simulatedRacks) maintain(_ *testing.T, id string) {
	s.ChangeMachine(id, func(m *openstacksim.Machine) { m.Maintenance = true })
}

func (s simulatedRacks) carry(_ *testing.T, id, name string) {
	s.ChangeMachine(id, func(m *openstacksim.Machine) { m.Instance = name })
}

func (s simulatedRacks) press(id string, on bool) {
	s.ChangeMachine(id, func(m *openstacksim.Machine) { m.On = on })
}

func (s simulatedRacks) runs(id string) bool { return s.Machine(id).On }

func (s simulatedRacks) mute(_ *testing.T, id string, on bool) {
	s.ChangeMachine(id, func(m *openstacksim.Machine) {
		if m.Mute, m.Locked = true, "ironic"; on {
			m.Target = "power on"
		}
	})
}

func (s simulatedRacks) loud(id string) {
	s.ChangeMachine(id, func(m *openstacksim.Machine) {
		if m.Mute = false; m.Target == "" {
			m.Locked = ""
		}
	})
}

func (s simulatedRacks) end(id string) {
	s.ChangeMachine(id, func(m *openstacksim.Machine) { m.On, m.Ending = true, true })
}

func (s simulatedRacks) spoil(id string) {
	s.ChangeMachine(id, func(m *openstacksim.Machine) { m.Broken = true })
}

// realRacks are an Ironic with the hardware type fake-hardware, and the power interfaces fake and redfish.
type realRacks struct {
	file   string
	client *gophercloud.ServiceClient
	bmcs   map[string]*bmc
}

func newRealRacks(t *testing.T, path string) *realRacks {
	t.Helper()
	file, provider, endpoint := login(t, path)
	client, err := openstack.NewBareMetalV1(provider, endpoint)
	if err != nil {
		t.Fatal(err)
	}
	client.Microversion = "1.50"
	return &realRacks{file: string(file), client: client, bmcs: map[string]*bmc{}}
}

func (r *realRacks) clouds() string             { return r.file }
func (*realRacks) transport() http.RoundTripper { return nil }
func (*realRacks) pass(ctx context.Context)     { wait(ctx, 200*time.Millisecond) }

func (r *realRacks) enroll(t *testing.T, name string, wired bool) string {
	t.Helper()
	body := map[string]any{"driver": "fake-hardware", "name": name, "power_interface": "fake"}
	var own *bmc
	if wired {
		own = newBMC(t)
		body["power_interface"] = "redfish"
		body["driver_info"] = map[string]any{
			"redfish_address": own.URL, "redfish_system_id": "/redfish/v1/Systems/1", "redfish_username": "u", "redfish_password": "p", "redfish_auth_type": "basic",
		}
	}
	var made struct{ UUID string }
	mustCall(t, r.client, http.MethodPost, "nodes", body, &made)
	t.Cleanup(func() {
		r.loud(made.UUID)
		r.settle(t, made.UUID)
		_, _ = r.client.Delete(context.Background(), r.client.ServiceURL("nodes", made.UUID), nil)
	})
	r.bmcs[made.UUID] = own
	return made.UUID
}

func (r *realRacks) stranger(t *testing.T) string {
	t.Helper()
	identity, err := openstack.NewIdentityV3(r.client.ProviderClient, gophercloud.EndpointOpts{})
	if err != nil {
		t.Fatal(err)
	}
	var project struct{ Project struct{ ID string } }
	var user struct{ User struct{ ID string } }
	var roles struct{ Roles []struct{ ID string } }
	const name = "usher-stranger"
	mustCall(t, identity, http.MethodPost, "projects", map[string]any{"project": map[string]any{"name": name}}, &project)
	t.Cleanup(func() {
		_, _ = identity.Delete(context.Background(), identity.ServiceURL("projects", project.Project.ID), nil)
	})
	mustCall(t, identity, http.MethodPost, "users", map[string]any{"user": map[string]any{"name": name, "password": name}}, &user)
	t.Cleanup(func() { _, _ = identity.Delete(context.Background(), identity.ServiceURL("users", user.User.ID), nil) })
	mustCall(t, identity, http.MethodGet, "roles?name=member", nil, &roles)
	mustCall(t, identity, http.MethodPut, "projects/"+project.Project.ID+"/users/"+user.User.ID+"/roles/"+roles.Roles[0].ID, nil, nil)
	options, _, err := usher.Account([]byte(r.file))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("clouds: {c: {auth: {auth_url: %q, user_id: %q, password: %q, project_id: %q}}}", options.IdentityEndpoint, user.User.ID, name, project.Project.ID)
}

// settle waits until no conductor has a task for a machine, also when the test's context has ended.
func (r *realRacks) settle(t *testing.T, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		var m struct{ Reservation *string }
		if _, err := r.client.Get(ctx, r.client.ServiceURL("nodes", id), &m, nil); err != nil {
			t.Fatal(err)
		}
		if m.Reservation == nil {
			return
		}
		r.pass(ctx)
	}
}

func (r *realRacks) power(t *testing.T, id, target string) {
	t.Helper()
	mustCall(t, r.client, http.MethodPut, "nodes/"+id+"/states/power", map[string]any{"target": target}, nil)
	r.settle(t, id)
}

func (r *realRacks) maintain(t *testing.T, id string) {
	t.Helper()
	mustCall(t, r.client, http.MethodPut, "nodes/"+id+"/maintenance", map[string]any{}, nil)
}

func (r *realRacks) carry(t *testing.T, id, name string) {
	t.Helper()
	mustCall(t, r.client, http.MethodPatch, "nodes/"+id, []map[string]any{{"op": "add", "path": "/instance_info/display_name", "value": name}}, nil)
}

func (r *realRacks) press(id string, on bool) { r.bmcs[id].set(func(b *bmc) { b.on = on }) }
func (r *realRacks) end(id string)            { r.bmcs[id].set(func(b *bmc) { b.on, b.ending = true, true }) }
func (r *realRacks) spoil(id string)          { r.bmcs[id].set(func(b *bmc) { b.broken = true }) }

func (r *realRacks) runs(id string) (on bool) {
	r.bmcs[id].set(func(b *bmc) { on = b.on })
	return on
}

func (r *realRacks) mute(t *testing.T, id string, on bool) {
	t.Helper()
	r.bmcs[id].set(func(b *bmc) { b.silence = make(chan struct{}) })
	if on {
		mustCall(t, r.client, http.MethodPut, "nodes/"+id+"/states/power", map[string]any{"target": "power on"}, nil)
		return
	}
	mustCall(t, r.client, http.MethodPut, "nodes/"+id+"/states/provision", map[string]any{"target": "manage"}, nil)
}

func (r *realRacks) loud(id string) {
	if b := r.bmcs[id]; b != nil {
		b.set(func(b *bmc) {
			if b.silence != nil {
				close(b.silence)
				b.silence = nil
			}
		})
	}
}

// bmc is what controls the power of one machine, as much of Redfish as Ironic asks for.
type bmc struct {
	*httptest.Server
	mu      sync.Mutex
	on      bool
	broken  bool
	ending  bool
	silence chan struct{} // it answers when that is closed; nil: at once
}

func newBMC(t *testing.T) *bmc {
	t.Helper()
	b := &bmc{}
	b.Server = httptest.NewServer(b)
	t.Cleanup(b.Close)
	return b
}

func (b *bmc) set(change func(*bmc)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(b)
}

func (b *bmc) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var silence chan struct{}
	b.set(func(b *bmc) { silence = b.silence })
	if silence != nil {
		<-silence
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	state := map[bool]string{true: "On", false: "Off"}[b.on]
	if b.ending {
		state = "PoweringOff"
	}
	const system = "/redfish/v1/Systems/1"
	const reset = system + "/Actions/ComputerSystem.Reset"
	w.Header().Set("Content-Type", "application/json")
	switch path := strings.TrimSuffix(r.URL.Path, "/"); {
	case path == "/redfish/v1":
		_ = json.NewEncoder(w).Encode(map[string]any{"Id": "r", "Name": "r", "RedfishVersion": "1.0.2", "Systems": map[string]any{"@odata.id": "/redfish/v1/Systems"}})
	case b.broken:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodPost && path == reset:
		var asked struct{ ResetType string }
		_ = json.NewDecoder(r.Body).Decode(&asked) // what cannot be read turns it off
		b.on = asked.ResetType == "On"
		w.WriteHeader(http.StatusNoContent)
	case path == system:
		_ = json.NewEncoder(w).Encode(map[string]any{
			"@odata.id": system, "Id": "1", "Name": "s", "PowerState": state, "Boot": map[string]any{},
			"Actions": map[string]any{"#ComputerSystem.Reset": map[string]any{"target": reset, "ResetType@Redfish.AllowableValues": []string{"On", "ForceOff"}}},
		})
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}
