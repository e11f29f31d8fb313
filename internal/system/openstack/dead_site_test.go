package openstack_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"testing"

	"github.com/gophercloud/gophercloud/v2"

	"usher.sh/usher/test/openstacksim"
)

// power is how the machines of sites are turned off and on again, and what Nova says of that.
type power interface {
	// off takes the power of a host, and on gives it back, after the test at the latest.
	off(t *testing.T, host string)
	on(t *testing.T, host string)
	// service is a host's nova-compute.
	service(t *testing.T, host string) (enabled, forced bool, reason string)
	disable(t *testing.T, host, reason string)
	// evacuations are the statuses of a server's.
	evacuations(t *testing.T, id string) []string
}

func (s simulated) off(_ *testing.T, host string) {
	s.Die(host)
	s.alive(host, false)
}

func (s simulated) on(_ *testing.T, host string) {
	s.Start(host)
	s.alive(host, true)
}

func (s simulated) alive(host string, alive bool) {
	for _, short := range []string{"ovs", "l3", "dhcp", "bgp"} {
		s.ChangeAgent(short, host, func(a *openstacksim.Agent) { a.Alive = alive })
	}
}

func (s simulated) service(_ *testing.T, host string) (enabled, forced bool, reason string) {
	h := s.Host(host)
	return h.Enabled, h.Forced, h.Reason
}

func (s simulated) disable(_ *testing.T, host, reason string) {
	s.ChangeHost(host, func(h *openstacksim.Host) { h.Enabled, h.Reason = false, reason })
}

func (s simulated) evacuations(_ *testing.T, id string) (statuses []string) {
	for _, m := range s.Migrations() {
		if m.Server == id && m.Kind == "evacuation" {
			statuses = append(statuses, m.Status)
		}
	}
	return statuses
}

// turn has who has made the region turn a host off or on: POST to USHER_OPENSTACK_POWER/HOST/off or on returns when that is done, agents of Neutron included.
func (*realSite) turn(ctx context.Context, host, how string) error {
	at := os.Getenv("USHER_OPENSTACK_POWER")
	if at == "" {
		return fmt.Errorf("turning %s %s: USHER_OPENSTACK_POWER names no address for that", host, how)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at+"/"+host+"/"+how, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if said, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusOK {
		return fmt.Errorf("turning %s %s: %d: %s", host, how, response.StatusCode, said)
	}
	return nil
}

func (s *realSite) off(t *testing.T, host string) {
	t.Helper()
	t.Cleanup(func() { _ = s.turn(context.Background(), host, "on") })
	if err := s.turn(t.Context(), host, "off"); err != nil {
		t.Fatal(err)
	}
}

func (s *realSite) on(t *testing.T, host string) {
	t.Helper()
	if err := s.turn(t.Context(), host, "on"); err != nil {
		t.Fatal(err)
	}
}

// realService is a nova-compute as Nova has it.
type realService struct {
	ID     string
	Status string
	Forced bool   `json:"forced_down"`
	Reason string `json:"disabled_reason"`
}

func (s *realSite) compute(t *testing.T, host string) realService {
	t.Helper()
	var found struct{ Services []realService }
	if _, err := s.client.Get(t.Context(), s.client.ServiceURL("os-services")+"?binary=nova-compute&host="+host, &found, nil); err != nil || len(found.Services) != 1 {
		t.Fatalf("services of %s: %+v, %v", host, found, err)
	}
	return found.Services[0]
}

func (s *realSite) service(t *testing.T, host string) (enabled, forced bool, reason string) {
	t.Helper()
	found := s.compute(t, host)
	return found.Status == "enabled", found.Forced, found.Reason
}

func (s *realSite) change(t *testing.T, host string, to map[string]any) error {
	t.Helper()
	_, err := s.client.Put(t.Context(), s.client.ServiceURL("os-services", s.compute(t, host).ID), to, nil, &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}})
	return err
}

func (s *realSite) disable(t *testing.T, host, reason string) {
	t.Helper()
	if err := s.change(t, host, map[string]any{"status": "disabled", "disabled_reason": reason}); err != nil {
		t.Fatal(err)
	}
}

// open has a host get servers, also after a test that has failed with the host marked as down.
func (s *realSite) open(t *testing.T, host string) {
	t.Helper()
	if s.compute(t, host).Forced {
		_ = s.change(t, host, map[string]any{"forced_down": false})
	}
	if err := s.change(t, host, map[string]any{"status": "enabled"}); err != nil {
		t.Fatal(err)
	}
}

func (s *realSite) evacuations(t *testing.T, id string) (statuses []string) {
	t.Helper()
	var found struct{ Migrations []struct{ Status string } }
	query := url.Values{"instance_uuid": {id}, "migration_type": {"evacuation"}}
	if _, err := s.client.Get(t.Context(), s.client.ServiceURL("os-migrations")+"?"+query.Encode(), &found, nil); err != nil {
		t.Fatal(err)
	}
	for _, m := range found.Migrations {
		statuses = append(statuses, m.Status)
	}
	return statuses
}
