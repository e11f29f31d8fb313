package openstack_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
	usher "usher.sh/usher/internal/system/openstack"
	"usher.sh/usher/test/httpfault"
	"usher.sh/usher/test/openstacksim"
)

const bareUUID = "00000001-0000-4000-8000-00000000bae7"

// newBare is a simulated region with the machine n1, which runs.
func newBare() *openstacksim.Cloud {
	c := openstacksim.New(0)
	c.Enroll("n1")
	c.ChangeMachine("n1", func(m *openstacksim.Machine) { m.Power, m.On = "power on", true })
	return c
}

func bareFence(c *openstacksim.Cloud, change ...func(*v1alpha1.IronicFence, *string)) (*usher.Fence, error) {
	spec, file := &v1alpha1.IronicFence{Clouds: v1alpha1.SecretKey{Name: "ironic", Key: "clouds.yaml"}}, openstacksim.CloudsYAML
	for _, f := range change {
		f(spec, &file)
	}
	secrets := map[v1alpha1.SecretKey][]byte{spec.Clouds: []byte(file)}
	return usher.NewFence(spec, system.Access{Timeout: time.Second, Transport: c.Transport(), Secrets: secrets})
}

func bareMachine(name string) system.Machine {
	return system.Machine{
		Node:       &snapshot.Node{Name: name, Labels: map[string]string{"node-restriction.kubernetes.io/ironic": "b7"}},
		ProviderID: "openstack:///" + bareUUID,
	}
}

func openBare(t *testing.T, c *openstacksim.Cloud, change ...func(*v1alpha1.IronicFence, *string)) *usher.Fence {
	t.Helper()
	f, err := bareFence(c, change...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// Only power off that nothing changes, of a machine whose power Ironic reads, proves anything.
func TestIronicState(t *testing.T) {
	type machine = openstacksim.Machine
	for name, c := range map[string]struct {
		change func(*machine)
		want   v1alpha1.PowerState
		says   string
	}{
		"off":                      {func(m *machine) { m.Power = "power off" }, v1alpha1.PowerOff, "power off"},
		"on":                       {func(*machine) {}, v1alpha1.PowerOn, "power on"},
		"on, and could not be off": {func(m *machine) { m.LastError = "IPMI\nfailed" }, v1alpha1.PowerOn, "its last error: IPMI failed"},
		"off, and then an error": {
			func(m *machine) { m.Power, m.LastError = "power off", "no BMC" }, v1alpha1.PowerUnknown, "not whether it was read since; its last error: no BMC",
		},
		"going off":                {func(m *machine) { m.Target = "power off" }, v1alpha1.PowerUnknown, "on its way to power off"},
		"off, and being turned on": {func(m *machine) { m.Power, m.Target = "power off", "power on" }, v1alpha1.PowerUnknown, "on its way to power on"},
		"off, and going off":       {func(m *machine) { m.Power, m.Target = "power off", "power off" }, v1alpha1.PowerUnknown, "on its way"},
		"nothing is known":         {func(m *machine) { m.Power = "" }, v1alpha1.PowerUnknown, "its power is not known"},
		"an error":                 {func(m *machine) { m.Power, m.LastError = "error", "no BMC" }, v1alpha1.PowerUnknown, "its last error: no BMC"},
		"rebooting":                {func(m *machine) { m.Power = "rebooting" }, v1alpha1.PowerUnknown, "not known"},
		"off in maintenance":       {func(m *machine) { m.Power, m.Maintenance = "power off", true }, v1alpha1.PowerUnknown, "baremetal node maintenance unset"},
		"its node is an instance":  {func(m *machine) { m.Power, m.Instance = "power off", "N1" }, v1alpha1.PowerOff, ""},
		"another node's machine":   {func(m *machine) { m.Power, m.Instance = "power off", "n2" }, v1alpha1.PowerUnknown, "carries the instance"},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := newBare()
			cloud.ChangeMachine("n1", c.change)
			if got, said := openBare(t, cloud).State(t.Context(), bareMachine("n1")); got != c.want || !strings.Contains(said, c.says) {
				t.Errorf("%s: %s", got, said)
			}
		})
	}
}

// What Ironic would not answer proves nothing either.
func TestIronicAnswersOfAnotherForm(t *testing.T) {
	for name, c := range map[string]struct{ body, says string }{
		"another machine": {`{"uuid": "` + bareUUID + `", "name": "n2", "power_state": "power off"}`, "answers with"},
		"no machine":      {`{"uuid": "", "name": "n1", "power_state": "power off"}`, "answers with"},
		"another form":    {`{"uuid": "` + bareUUID + `", "name": "n1", "power_state": ["power off"]}`, "is not what OpenStack says there"},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := newBare()
			cloud.Inject(httpfault.Fault{Path: "/v1/nodes/", Status: http.StatusOK, Body: c.body})
			if got, said := openBare(t, cloud).State(t.Context(), bareMachine("n1")); got != v1alpha1.PowerUnknown || !strings.Contains(said, c.says) {
				t.Errorf("%s: %s", got, said)
			}
		})
	}
}

// What may have been received is Unknown, and nothing else is.
func TestIronicOff(t *testing.T) {
	type cloud = openstacksim.Cloud
	put := func(f httpfault.Fault) func(*cloud) {
		f.Method, f.Path = http.MethodPut, "/states/power"
		return func(c *cloud) { c.Inject(f) }
	}
	fault := func(f httpfault.Fault) func(*cloud) { return func(c *cloud) { c.Inject(f) } }
	for name, c := range map[string]struct {
		change func(*cloud)
		want   v1alpha1.RequestResult
		says   string
		goes   bool // off
	}{
		"accepted": {func(*cloud) {}, v1alpha1.RequestAccepted, bareUUID, true},
		"locked": {
			func(c *cloud) { c.ChangeMachine("n1", func(m *openstacksim.Machine) { m.Locked = "c1" }) }, v1alpha1.RequestRefused, "is locked by host c1", false,
		},
		"forbidden": {put(httpfault.Fault{Status: http.StatusForbidden}), v1alpha1.RequestRefused, "baremetal:node:set_power_state", false},
		"it is too old": {fault(httpfault.Fault{
			Method: http.MethodGet, Status: http.StatusNotAcceptable, Body: `{"error_message": "{\"code\": 406, \"title\": \"Not Acceptable\", \"description\": \"Version 1.10 was requested.\"}"}`,
		}), v1alpha1.RequestNotSent, "Version 1.10 was requested (406): Ironic must speak microversion 1.10", false},
		"an error":        {put(httpfault.Fault{Status: http.StatusInternalServerError}), v1alpha1.RequestUnknown, "500", false},
		"no conductor":    {put(httpfault.Fault{Status: http.StatusServiceUnavailable}), v1alpha1.RequestUnknown, "503", false},
		"cut off":         {put(httpfault.Fault{Lost: true}), v1alpha1.RequestUnknown, "", true},
		"it hangs":        {put(httpfault.Fault{Silent: true}), v1alpha1.RequestUnknown, "did not answer within 1s", false},
		"it is not there": {put(httpfault.Fault{Refuse: true}), v1alpha1.RequestNotSent, "connection refused", false},
		"it is not found": {
			func(c *cloud) { c.ChangeMachine("n1", func(m *openstacksim.Machine) { m.Name = "n2" }) }, v1alpha1.RequestNotSent, "baremetal node list", false,
		},
		"it cannot be looked at": {fault(httpfault.Fault{Method: http.MethodGet, Status: http.StatusInternalServerError}), v1alpha1.RequestNotSent, "asking for node", false},
		"looking at it hangs":    {fault(httpfault.Fault{Method: http.MethodGet, Silent: true}), v1alpha1.RequestNotSent, "did not answer within 1s", false},
		"another's machine": {
			func(c *cloud) { c.ChangeMachine("n1", func(m *openstacksim.Machine) { m.Instance = "n2" }) }, v1alpha1.RequestNotSent, "not node n1", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := newBare()
			c.change(cloud)
			got, said := openBare(t, cloud).Off(t.Context(), bareMachine("n1"))
			if got != c.want || !strings.Contains(said, c.says) || strings.Contains(said, "right") {
				t.Errorf("%s: %s", got, said)
			}
			cloud.Advance(time.Second)
			if off := !cloud.Machine(bareUUID).On; off != c.goes {
				t.Errorf("it is off: %t", off)
			}
		})
	}
	if got, said := openBare(t, openstacksim.New(0)).Off(t.Context(), bareMachine("n1")); got != v1alpha1.RequestNotSent || !strings.Contains(said, "no service of type baremetal") {
		t.Errorf("without Ironic: %s: %s", got, said)
	}
}

// A fence asks for its own machine alone, with a new token where the old one has expired.
func TestIronicAsksForItsOwnMachine(t *testing.T) {
	cloud := newBare()
	want := []string{bareUUID, cloud.Enroll("n2"), cloud.Enroll("b7")}
	f := openBare(t, cloud)
	for _, name := range []string{"n1", "n2"} {
		cloud.ExpireTokens()
		if got, said := f.Off(t.Context(), bareMachine(name)); got != v1alpha1.RequestAccepted {
			t.Errorf("%s: %s: %s", name, got, said)
		}
	}
	labelled := openBare(t, cloud, func(s *v1alpha1.IronicFence, _ *string) {
		s.Node = `{{node.labels["node-restriction.kubernetes.io/ironic"]}}`
	})
	labelled.Off(t.Context(), bareMachine("n3"))
	byUUID := openBare(t, cloud, func(s *v1alpha1.IronicFence, _ *string) { s.Node = strings.ToUpper(bareUUID) })
	if got, said := byUUID.State(t.Context(), bareMachine("n1")); got != v1alpha1.PowerUnknown || !strings.Contains(said, "on its way to power off") {
		t.Errorf("%s: %s", got, said)
	}
	var asked []string
	for _, request := range cloud.TakeRequests() {
		if id, ok := strings.CutPrefix(request, "PUT /v1/nodes/"); ok {
			asked = append(asked, strings.TrimSuffix(id, "/states/power"))
		}
	}
	if asked = slices.Compact(asked); !slices.Equal(asked, want) { // one with a token that has expired is sent twice
		t.Errorf("asked for %s, want %s", asked, want)
	}
}

func TestIronicFencesThatCannotBeUsed(t *testing.T) {
	cloud := newBare()
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
		if _, err := bareFence(cloud, change); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "right") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for want, change := range map[string]func(*v1alpha1.IronicFence, *string){
		"refuses the credentials (401)":    func(_ *v1alpha1.IronicFence, file *string) { *file = strings.Replace(*file, "right", "wrong", 1) },
		"correct spec.fence.ironic.region": func(s *v1alpha1.IronicFence, _ *string) { s.Region = "two" },
	} {
		got, said := openBare(t, cloud, change).State(t.Context(), bareMachine("n1"))
		if got != v1alpha1.PowerUnknown || !strings.Contains(said, want) {
			t.Errorf("%s: %s, want %q", got, said, want)
		}
	}
	cloud.Inject(httpfault.Fault{Path: "/auth/tokens", Refuse: true})
	if got, said := openBare(t, cloud).State(t.Context(), bareMachine("n1")); got != v1alpha1.PowerUnknown || !strings.Contains(said, "it cannot be reached") {
		t.Errorf("%s: %s", got, said)
	}
	if _, err := usher.NewFence(&v1alpha1.IronicFence{}, system.Access{}); err != nil {
		t.Errorf("before its Secrets are read: %v", err)
	}
}
