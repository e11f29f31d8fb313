package openstack_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/openstack"
	"usher.sh/usher/test/httpfault"
	"usher.sh/usher/test/openstacksim"
)

// lying answers what ends with a path by itself.
type lying struct {
	http.RoundTripper
	answers map[string]string
}

func (l lying) RoundTrip(r *http.Request) (*http.Response, error) {
	for path, answer := range l.answers {
		if strings.HasSuffix(r.URL.Path, path) {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(answer)), Request: r}, nil
		}
	}
	return l.RoundTripper.RoundTrip(r)
}

// many is a JSON list of so many entries, each with its number.
func many(entries int, each string) string {
	all := make([]string, entries)
	for i := range all {
		all[i] = fmt.Sprintf(each, i)
	}
	return "[" + strings.Join(all, ",") + "]"
}

// What a server that answers for Nova or Neutron sends costs no more time than it has entries: a decision is not broken off.
func TestHostileListings(t *testing.T) {
	const entries = 60000
	cloud := openstacksim.New(3)
	cloud.ChangeHost("compute-1", func(h *openstacksim.Host) { h.Enabled = false })
	agent := `{"id":"own","agent_type":"L3 agent","host":"compute-1","alive":true,"admin_state_up":true},`
	others := many(entries, `{"id":"%d","agent_type":"L3 agent","host":"x","alive":true,"admin_state_up":true,"availability_zone":"z"}`)
	for role, answers := range map[string]map[string]string{
		"nova-compute": {
			"/servers/detail": `{"servers":` + many(entries, `{"id":"%d","OS-EXT-STS:vm_state":"active","OS-EXT-SRV-ATTR:host":"compute-1"}`) + "}",
			"/os-migrations":  `{"migrations":` + many(entries, `{"id":%d,"instance_uuid":"x","source_compute":"compute-1","status":"running"}`) + "}",
		},
		"neutron-l3-agent": {
			"/l3-routers": `{"routers":` + many(entries, `{"id":"%d","availability_zone_hints":["y"]}`) + "}",
			"/agents":     `{"agents":[` + agent + others[1:] + "}",
		},
	} {
		access := system.Access{
			Namespace: "cloud", Timeout: time.Minute, Loopback: true, Transport: lying{cloud.Transport(), answers},
			Secrets: map[v1alpha1.SecretKey][]byte{cloudsKey: []byte(openstacksim.CloudsYAML)},
		}
		opened, err := openstack.OpenAt(&v1alpha1.System{OpenStack: &v1alpha1.OpenStack{Clouds: cloudsKey}}, access, cloud.Now)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		evidence, err := opened.Observe(t.Context(), []system.Member{{MemberRef: v1alpha1.MemberRef{Role: role, ID: "compute-1"}}})
		if err != nil || evidence.Members["compute-1"] == nil {
			t.Errorf("%s: %v", role, err)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s: it took %s", role, took)
		}
	}
}

// padded has each server come with so much that its owner has given it.
type padded struct {
	http.RoundTripper
	with string
}

func (p padded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := p.RoundTripper.RoundTrip(r)
	if err != nil || !strings.HasSuffix(r.URL.Path, "/servers/detail") {
		return answer, err
	}
	whole, err := io.ReadAll(answer.Body)
	whole = bytes.ReplaceAll(whole, []byte(`{"OS-EXT`), []byte(`{"OS-EXT-SRV-ATTR:user_data":`+strconv.Quote(p.with)+`,"OS-EXT`))
	answer.Body = io.NopCloser(bytes.NewReader(whole))
	return answer, err
}

// Owners of servers give them as much as Nova takes: 64 KiB of user data, and metadata.
func TestServersWithMuchMetadata(t *testing.T) {
	cloud := openstacksim.New(3)
	for i := range 30 {
		cloud.Boot(fmt.Sprintf("s%d", i), "compute-1", "active")
	}
	cloud.ChangeHost("compute-1", func(h *openstacksim.Host) { h.Enabled = false })
	access := system.Access{
		Namespace: "cloud", Timeout: time.Minute, Loopback: true, Transport: padded{cloud.Transport(), strings.Repeat("x", 460<<10)},
		Secrets: map[v1alpha1.SecretKey][]byte{cloudsKey: []byte(openstacksim.CloudsYAML)},
	}
	opened, err := openstack.OpenAt(&v1alpha1.System{OpenStack: &v1alpha1.OpenStack{Clouds: cloudsKey}}, access, cloud.Now)
	if err != nil {
		t.Fatal(err)
	}
	evidence, err := opened.Observe(t.Context(), []system.Member{{MemberRef: v1alpha1.MemberRef{Role: "nova-compute", ID: "compute-1"}}})
	if err != nil {
		t.Fatal(err)
	}
	if left := evidence.Members["compute-1"]["left"]; left != int64(30) {
		t.Errorf("%v servers are left", left)
	}
}

// JSON that has not what was asked for does not say that there is nothing: a server would be evacuated a second time.
func TestJSONWithoutAList(t *testing.T) {
	for _, path := range []string{"/os-hypervisors/detail", "/servers/detail", "/os-migrations", "/l3-routers"} {
		for _, body := range []string{"{}", `{"status": "maintenance"}`, `{"routers": null, "migrations": null, "servers": null, "hypervisors": null}`} {
			cloud := openstacksim.New(2)
			cloud.AddAgents("compute-1=l3")
			cloud.ChangeHost("compute-1", func(h *openstacksim.Host) { h.Enabled = false })
			cloud.Inject(httpfault.Fault{Path: path, Status: http.StatusOK, Body: body})
			b := simulatedBench(t, cloud)
			var members []system.Member
			for _, role := range []string{"nova-compute", "neutron-l3-agent"} {
				members = append(members, system.Member{MemberRef: v1alpha1.MemberRef{Role: role, ID: "compute-1"}})
			}
			if evidence, err := b.system.Observe(t.Context(), members); err == nil || !strings.Contains(err.Error(), "its answer is not what OpenStack says there") {
				t.Errorf("%s %s: %v, %v", path, body, evidence, err)
			}
		}
	}
}
