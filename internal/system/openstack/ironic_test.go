package openstack_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
	usher "usher.sh/usher/internal/system/openstack"
)

const bareUUID = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"

// bare is a Keystone and an Ironic with machines, by name.
type bare struct {
	*httptest.Server
	mu       sync.Mutex
	machines map[string]map[string]any
	token    int            // the only one that is valid
	answers  map[string]int // what is answered to a method on machines, in place of what is right
	asked    []string       // changes
	hangs    string         // a method that is never answered
	kind     string         // of the service in the catalog
	done     chan struct{}
}

func newBare(t *testing.T) *bare {
	t.Helper()
	b := &bare{machines: map[string]map[string]any{}, answers: map[string]int{}, kind: "baremetal", done: make(chan struct{})}
	b.Server = httptest.NewServer(b)
	t.Cleanup(func() { close(b.done); b.Close() })
	b.add("n1", bareUUID)
	return b
}

func (b *bare) add(name, uuid string) map[string]any {
	b.machines[name] = map[string]any{
		"uuid": uuid, "name": name, "power_state": "power on", "target_power_state": nil, "maintenance": false, "last_error": nil, "instance_info": map[string]any{},
	}
	return b.machines[name]
}

func (b *bare) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.URL.Path == "/v3/auth/tokens" {
		b.login(w, r)
		return
	}
	if r.Method == b.hangs {
		b.mu.Unlock()
		select {
		case <-r.Context().Done():
		case <-b.done:
		}
		b.mu.Lock()
		return
	}
	rest, ours := strings.CutPrefix(r.URL.Path, "/v1/nodes/")
	id, power := strings.CutSuffix(rest, "/states/power")
	code := b.answers[r.Method]
	m := b.machines[id]
	for _, other := range b.machines {
		if other["uuid"] == id {
			m = other
		}
	}
	switch {
	case r.Header.Get("X-Auth-Token") != fmt.Sprint("t", b.token):
		b.fault(w, http.StatusUnauthorized, "no token")
	case r.Header.Get("X-OpenStack-Ironic-API-Version") != "1.5":
		b.fault(w, http.StatusNotFound, "names need 1.5")
	case code == 999:
		panic(http.ErrAbortHandler) // the connection is cut
	case code == http.StatusConflict:
		b.fault(w, code, "Node n1 is locked by host c1, please retry after the current operation is completed.")
	case code != 0:
		b.fault(w, code, "as it was told")
	case !ours || m == nil:
		b.fault(w, http.StatusNotFound, "Node "+id+" could not be found.")
	case power:
		body, _ := io.ReadAll(r.Body)
		b.asked = append(b.asked, r.Method+" "+id+" "+string(body))
		m["target_power_state"] = "power off"
		w.WriteHeader(http.StatusAccepted)
	default:
		_ = json.NewEncoder(w).Encode(m)
	}
}

func (b *bare) login(w http.ResponseWriter, r *http.Request) {
	if body, _ := io.ReadAll(r.Body); !strings.Contains(string(body), `"right"`) {
		b.fault(w, http.StatusUnauthorized, "wrong")
		return
	}
	b.token++
	w.Header().Set("X-Subject-Token", fmt.Sprint("t", b.token))
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"token":{"expires_at":"2099-01-01T00:00:00.000000Z","user":{"id":"u","name":"usher"},"catalog":[
		{"type":%q,"endpoints":[{"interface":"public","region_id":"one","url":%q}]}]}}`, b.kind, b.URL)
}

// fault is an error as Ironic has it: a message that is JSON in a string.
func (b *bare) fault(w http.ResponseWriter, code int, message string) {
	inner, _ := json.Marshal(map[string]string{"faultcode": "Client", "faultstring": message})
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"error_message": string(inner)})
}

func (b *bare) set(name string, change map[string]any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.Copy(b.machines[name], change)
}

func (b *bare) clouds() string {
	return fmt.Sprintf(`clouds: {c: {region_name: one, auth: {auth_url: %s/v3, username: usher, password: right, project_name: admin, user_domain_id: default}}}`, b.URL)
}

func (b *bare) fence(t *testing.T, change ...func(*v1alpha1.IronicFence, *string)) (*usher.Fence, error) {
	t.Helper()
	spec, file := &v1alpha1.IronicFence{Clouds: v1alpha1.SecretKey{Name: "ironic", Key: "clouds.yaml"}}, b.clouds()
	for _, f := range change {
		f(spec, &file)
	}
	secrets := map[v1alpha1.SecretKey][]byte{spec.Clouds: []byte(file)}
	return usher.NewFence(spec, system.Access{Timeout: 5 * time.Second, Loopback: true, Secrets: secrets})
}

func bareMachine(name string) system.Machine {
	return system.Machine{
		Node:       &snapshot.Node{Name: name, Labels: map[string]string{"node-restriction.kubernetes.io/ironic": "b7"}},
		ProviderID: "openstack:///" + bareUUID,
	}
}

func (b *bare) open(t *testing.T, change ...func(*v1alpha1.IronicFence, *string)) *usher.Fence {
	t.Helper()
	f, err := b.fence(t, change...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// Only power off that nothing changes, of a machine whose power Ironic reads, proves anything.
func TestIronicState(t *testing.T) {
	for name, c := range map[string]struct {
		machine map[string]any
		want    v1alpha1.PowerState
		says    string
	}{
		"off":                         {map[string]any{"power_state": "power off"}, v1alpha1.PowerOff, "power off"},
		"on":                          {nil, v1alpha1.PowerOn, "power on"},
		"on, and could not be ended":  {map[string]any{"last_error": "IPMI\nfailed"}, v1alpha1.PowerOn, "its last error: IPMI failed"},
		"going off":                   {map[string]any{"target_power_state": "power off"}, v1alpha1.PowerUnknown, "on its way to power off"},
		"off, and being turned on":    {map[string]any{"power_state": "power off", "target_power_state": "power on"}, v1alpha1.PowerUnknown, "on its way to power on"},
		"off, and going off":          {map[string]any{"power_state": "power off", "target_power_state": "power off"}, v1alpha1.PowerUnknown, "on its way"},
		"nothing is known":            {map[string]any{"power_state": nil}, v1alpha1.PowerUnknown, "its power is not known"},
		"an error":                    {map[string]any{"power_state": "error", "last_error": "no BMC"}, v1alpha1.PowerUnknown, "its last error: no BMC"},
		"rebooting":                   {map[string]any{"power_state": "rebooting"}, v1alpha1.PowerUnknown, "not known"},
		"off in maintenance":          {map[string]any{"power_state": "power off", "maintenance": true}, v1alpha1.PowerUnknown, "baremetal node maintenance unset"},
		"another machine":             {map[string]any{"power_state": "power off", "name": "n2"}, v1alpha1.PowerUnknown, "answers with"},
		"no machine":                  {map[string]any{"uuid": ""}, v1alpha1.PowerUnknown, "answers with"},
		"its node is an instance":     {map[string]any{"power_state": "power off", "instance_info": map[string]any{"display_name": "N1"}}, v1alpha1.PowerOff, ""},
		"another node's machine":      {map[string]any{"power_state": "power off", "instance_info": map[string]any{"display_name": "n2"}}, v1alpha1.PowerUnknown, "carries the instance"},
		"its answer is of other form": {map[string]any{"power_state": []string{"power off"}}, v1alpha1.PowerUnknown, "is not what OpenStack says there"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBare(t)
			b.set("n1", c.machine)
			if got, said := b.open(t).State(t.Context(), bareMachine("n1")); got != c.want || !strings.Contains(said, c.says) {
				t.Errorf("%s: %s", got, said)
			}
		})
	}
}

// What may have been received is Unknown, and nothing else is.
func TestIronicOff(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*bare)
		want   v1alpha1.RequestResult
		says   string
	}{
		"accepted":               {func(*bare) {}, v1alpha1.RequestAccepted, bareUUID},
		"locked":                 {func(b *bare) { b.answers["PUT"] = 409 }, v1alpha1.RequestRefused, "is locked by host c1"},
		"forbidden":              {func(b *bare) { b.answers["PUT"] = 403 }, v1alpha1.RequestRefused, "baremetal:node:set_power_state"},
		"an error":               {func(b *bare) { b.answers["PUT"] = 500 }, v1alpha1.RequestUnknown, "as it was told"},
		"no conductor":           {func(b *bare) { b.answers["PUT"] = 503 }, v1alpha1.RequestUnknown, ""},
		"cut off":                {func(b *bare) { b.answers["PUT"] = 999 }, v1alpha1.RequestUnknown, ""},
		"it is not found":        {func(b *bare) { delete(b.machines, "n1") }, v1alpha1.RequestNotSent, "baremetal node list"},
		"it cannot be looked at": {func(b *bare) { b.answers["GET"] = 500 }, v1alpha1.RequestNotSent, "asking for node"},
		"another's machine": {
			func(b *bare) { b.machines["n1"]["instance_info"] = map[string]any{"display_name": "n2"} }, v1alpha1.RequestNotSent, "not node n1",
		},
		"no service": {func(b *bare) { b.kind = "compute" }, v1alpha1.RequestNotSent, "no service of type baremetal"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBare(t)
			c.change(b)
			got, said := b.open(t).Off(t.Context(), bareMachine("n1"))
			if got != c.want || !strings.Contains(said, c.says) || strings.Contains(said, "right") {
				t.Errorf("%s: %s", got, said)
			}
			if sent := len(b.asked) > 0; sent != (c.want == v1alpha1.RequestAccepted) {
				t.Errorf("asked %v", b.asked)
			}
		})
	}
}

// A fence asks for its own machine alone, with a new token where the old one has expired.
func TestIronicAsksForItsOwnMachine(t *testing.T) {
	b := newBare(t)
	b.add("n2", "2be26c0b-03f2-4d2e-ae87-c02d7f33c123")
	b.add("b7", "7be26c0b-03f2-4d2e-ae87-c02d7f33c123")
	f := b.open(t)
	for _, name := range []string{"n1", "n2"} {
		b.mu.Lock()
		b.token++ // what was given out before has expired
		b.mu.Unlock()
		if got, said := f.Off(t.Context(), bareMachine(name)); got != v1alpha1.RequestAccepted {
			t.Errorf("%s: %s: %s", name, got, said)
		}
	}
	labelled := b.open(t, func(s *v1alpha1.IronicFence, _ *string) {
		s.Node = `{{node.labels["node-restriction.kubernetes.io/ironic"]}}`
	})
	labelled.Off(t.Context(), bareMachine("n3"))
	byUUID := b.open(t, func(s *v1alpha1.IronicFence, _ *string) { s.Node = strings.ToUpper(bareUUID) })
	if got, said := byUUID.State(t.Context(), bareMachine("n1")); got != v1alpha1.PowerUnknown || !strings.Contains(said, "baremetal node list") {
		t.Errorf("%s: %s", got, said)
	}
	want := []string{
		`PUT ` + bareUUID + ` {"target":"power off"}`, `PUT 2be26c0b-03f2-4d2e-ae87-c02d7f33c123 {"target":"power off"}`,
		`PUT 7be26c0b-03f2-4d2e-ae87-c02d7f33c123 {"target":"power off"}`,
	}
	if strings.Join(b.asked, "\n") != strings.Join(want, "\n") {
		t.Errorf("asked %s", strings.Join(b.asked, "\n"))
	}
}

func TestIronicThatHangs(t *testing.T) {
	for method, want := range map[string]v1alpha1.RequestResult{"GET": v1alpha1.RequestNotSent, "PUT": v1alpha1.RequestUnknown} {
		b := newBare(t)
		spec := &v1alpha1.IronicFence{Clouds: v1alpha1.SecretKey{Name: "ironic", Key: "clouds.yaml"}}
		f, err := usher.NewFence(spec, system.Access{Timeout: time.Second, Loopback: true, Secrets: map[v1alpha1.SecretKey][]byte{spec.Clouds: []byte(b.clouds())}})
		if err != nil {
			t.Fatal(err)
		}
		b.hangs = method
		if got, said := f.Off(t.Context(), bareMachine("n1")); got != want || !strings.Contains(said, "did not answer within 1s") {
			t.Errorf("%s: %s: %s", method, got, said)
		}
		f.Close()
	}
}

func TestIronicFencesThatCannotBeUsed(t *testing.T) {
	b := newBare(t)
	for want, change := range map[string]func(*v1alpha1.IronicFence, *string){
		"fence.ironic.node: ":                  func(s *v1alpha1.IronicFence, _ *string) { s.Node = "{{node.nme}}" },
		"may speak of node alone":              func(s *v1alpha1.IronicFence, _ *string) { s.Node = "{{answer}}" },
		"say in spec.fence.ironic.cloud which": func(_ *v1alpha1.IronicFence, file *string) { *file = "clouds: {a: {}, b: {}}" },
		"correct spec.fence.ironic.cloud":      func(s *v1alpha1.IronicFence, _ *string) { s.Cloud = "d" },
		"it is no clouds.yaml":                 func(_ *v1alpha1.IronicFence, file *string) { *file = "password: right" },
		"certificate authority in spec.fence.ironic.ca": func(_ *v1alpha1.IronicFence, file *string) {
			*file = "clouds: {a: {verify: false, auth: {auth_url: http://k/v3}}}"
		},
	} {
		if _, err := b.fence(t, change); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "right") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for want, change := range map[string]func(*v1alpha1.IronicFence, *string){
		"refuses the credentials (401)":    func(_ *v1alpha1.IronicFence, file *string) { *file = strings.Replace(*file, "right", "wrong", 1) },
		"correct spec.fence.ironic.region": func(s *v1alpha1.IronicFence, _ *string) { s.Region = "two" },
		"it cannot be reached": func(_ *v1alpha1.IronicFence, file *string) {
			*file = strings.Replace(*file, b.URL, "http://127.0.0.1:1", 1)
		},
	} {
		got, said := b.open(t, change).State(t.Context(), bareMachine("n1"))
		if got != v1alpha1.PowerUnknown || !strings.Contains(said, want) {
			t.Errorf("%s: %s, want %q", got, said, want)
		}
	}
	if _, err := usher.NewFence(&v1alpha1.IronicFence{}, system.Access{}); err != nil {
		t.Errorf("before its Secrets are read: %v", err)
	}
}
