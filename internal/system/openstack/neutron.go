package openstack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"usher.sh/usher/internal/system/openstack/network"
	"usher.sh/usher/internal/text"
)

// neutron is the network service.
type neutron struct {
	client  *gophercloud.ServiceClient
	session *session
	region  string
}

// paths are where Neutron has what an agent of a kind has, what it is asked to have by, and where it says which agents have one.
type paths struct {
	extension         string
	things, key, body string
	one, holders      string
}

var pathsOf = map[network.Kind]paths{
	network.Routers:  {"l3_agent_scheduler", "l3-routers", "routers", "router_id", "routers", "l3-agents"},
	network.Networks: {"dhcp_agent_scheduler", "dhcp-networks", "networks", "network_id", "networks", "dhcp-agents"},
	network.Speakers: {"bgp_dragent_scheduler", "bgp-drinstances", "bgp_speakers", "bgp_speaker_id", "bgp-speakers", "bgp-dragents"},
}

// errNoExtension is wrapped by errors of calls that Neutron does not know, because what they belong to is not loaded, as its own list of extensions shows.
var errNoExtension = errors.New("is not loaded in neutron-server")

// errShape is that an answer is JSON and has not what was asked for.
var errShape = errors.New("its answer is not what OpenStack says there")

// failed is an error of a call.
func (n *neutron) failed(doing string, err error) error {
	err = n.session.sentence(err)
	if statusOf(err) == http.StatusForbidden {
		err = fmt.Errorf("%w: the account needs the role admin in its project", err)
	}
	return fmt.Errorf("network API at %s, %s: %w", address(n.client.Endpoint), doing, err)
}

// unknownCall reports whether an answer says that there is no such call, and not that what it is about is not there: that is said in Neutron's own form.
func (n *neutron) unknownCall(err error) bool {
	refused, ok := errors.AsType[*refusal](n.session.sentence(err))
	return ok && refused.status == http.StatusNotFound && refused.said == ""
}

// uncalled is the error of a call that belongs to an extension. Neutron has no words of its own where there is no such call, and neither has a proxy that stands
// before it and finds nothing there: Neutron is asked what it has loaded.
func (n *neutron) uncalled(ctx context.Context, extension, doing string, err error) error {
	if !n.unknownCall(err) {
		return n.failed(doing, err)
	}
	var answer struct {
		Extensions []struct {
			Alias string `json:"alias"`
		} `json:"extensions"`
	}
	_, failed := n.client.Get(ctx, n.client.ServiceURL("extensions"), &answer, nil)
	for _, e := range answer.Extensions {
		if e.Alias == extension {
			return n.failed(doing, err)
		}
	}
	if failed != nil || answer.Extensions == nil {
		return n.failed(doing, err)
	}
	return fmt.Errorf("network API at %s, %s: its extension %s %w", address(n.client.Endpoint), doing, extension, errNoExtension)
}

type agentPage struct {
	Agents []struct {
		ID            string `json:"id"`
		Type          string `json:"agent_type"`
		Host          string `json:"host"`
		Alive         bool   `json:"alive"`
		Up            bool   `json:"admin_state_up"`
		Description   string `json:"description"`
		Zone          string `json:"availability_zone"`
		HA            string `json:"ha_state"`
		Configuration struct {
			Mode string `json:"agent_mode"`
		} `json:"configurations"`
	} `json:"agents"`
	Links []struct {
		Rel string `json:"rel"`
	} `json:"agents_links"`
}

// more reports whether there is a next page.
func (p *agentPage) more() bool {
	for _, link := range p.Links {
		if link.Rel == "next" {
			return len(p.Agents) > 0
		}
	}
	return false
}

// agents lists all of the region. No page is asked for: Neutron has its own limit, if it has one.
func (n *neutron) agents(ctx context.Context) (all []network.Agent, err error) {
	const doing = "listing agents"
	query := url.Values{}
	for range maxPages {
		var page agentPage
		if _, err := n.client.Get(ctx, strings.TrimSuffix(n.client.ServiceURL("agents")+"?"+query.Encode(), "?"), &page, nil); err != nil {
			return nil, n.uncalled(ctx, "agent", doing, err)
		}
		if page.Agents == nil {
			return nil, n.failed(doing, errShape)
		}
		for _, a := range page.Agents {
			all = append(all, network.Agent{
				ID: a.ID, Type: a.Type, Host: a.Host, Alive: a.Alive, Up: a.Up, Description: a.Description, Zone: a.Zone, Mode: a.Configuration.Mode,
			})
		}
		if !page.more() {
			return all, nil
		}
		query.Set("marker", page.Agents[len(page.Agents)-1].ID)
	}
	return nil, fmt.Errorf("network API at %s, %s: there are more than %d pages of them", address(n.client.Endpoint), doing, maxPages)
}

type thing struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Zones       []string `json:"availability_zone_hints"`
	HA          bool     `json:"ha"`
	Distributed bool     `json:"distributed"`
}

func (t *thing) known() network.Thing {
	return network.Thing{ID: t.ID, Name: t.Name, Zones: t.Zones, HA: t.HA, Distributed: t.Distributed}
}

// errAgentGone is that Neutron has no such agent any more. One that was deleted while it lives comes back under another id, and serves what it had until then.
var errAgentGone = errors.New("its agent is one that Neutron has forgotten a moment ago, and may come back under another id")

// things lists what an agent has.
func (n *neutron) things(ctx context.Context, kind network.Kind, agent string) ([]network.Thing, error) {
	at := pathsOf[kind]
	doing := fmt.Sprintf("listing the %ss of an agent", kind.Thing)
	var answer map[string][]thing
	_, err := n.client.Get(ctx, n.client.ServiceURL("agents", url.PathEscape(agent), at.things), &answer, nil)
	switch {
	case err == nil:
	case isStatus(err, http.StatusNotFound) && !n.unknownCall(err):
		return nil, errAgentGone
	default:
		return nil, n.uncalled(ctx, at.extension, doing, err)
	}
	listed := answer[at.key]
	if listed == nil {
		return nil, n.failed(doing, errShape)
	}
	all := make([]network.Thing, 0, len(listed))
	for i := range listed {
		all = append(all, listed[i].known())
	}
	return all, nil
}

func isStatus(err error, status int) bool { return statusOf(err) == status }

// holders lists the agents that have a thing; known is false where it does not exist any more.
func (n *neutron) holders(ctx context.Context, kind network.Kind, id string) (all []network.Holder, known bool, err error) {
	at := pathsOf[kind]
	var page agentPage
	_, err = n.client.Get(ctx, n.client.ServiceURL(at.one, url.PathEscape(id), at.holders), &page, nil)
	if isStatus(err, http.StatusNotFound) && !n.unknownCall(err) {
		return nil, false, nil
	}
	if err == nil && page.Agents == nil {
		err = errShape
	}
	if err != nil {
		return nil, false, n.failed(fmt.Sprintf("listing the agents that have %s %s", kind.Thing, text.Name(id)), err)
	}
	all = []network.Holder{}
	for _, a := range page.Agents {
		all = append(all, network.Holder{Agent: a.ID, State: a.HA})
	}
	return all, true, nil
}

// thing reads one; nil: it does not exist any more.
func (n *neutron) thing(ctx context.Context, kind network.Kind, id string) (*network.Thing, error) {
	var answer map[string]thing
	_, err := n.client.Get(ctx, n.client.ServiceURL(pathsOf[kind].one, url.PathEscape(id)), &answer, nil)
	if isStatus(err, http.StatusNotFound) && !n.unknownCall(err) {
		return nil, nil //nolint:nilnil // it is not there
	}
	for _, t := range answer {
		if found := t.known(); err == nil && found.ID == id {
			return &found, nil
		}
	}
	if err == nil {
		err = errShape
	}
	return nil, n.failed(fmt.Sprintf("looking at %s %s", kind.Thing, text.Name(id)), err)
}

// set changes an agent.
func (n *neutron) set(ctx context.Context, s *network.Setting) error {
	var body struct {
		Agent struct {
			Description string `json:"description"`
			Up          *bool  `json:"admin_state_up,omitempty"`
		} `json:"agent"`
	}
	body.Agent.Description, body.Agent.Up = s.Description, s.Up
	_, err := n.client.Put(ctx, n.client.ServiceURL("agents", url.PathEscape(s.Agent)), body, nil, &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}})
	if err != nil {
		return n.failed("changing an agent", err)
	}
	return nil
}

// add asks an agent to have a thing. An L3 agent that does not answer has Neutron wait for minutes.
func (n *neutron) add(ctx context.Context, kind network.Kind, agent, id string) error {
	at := pathsOf[kind]
	body := map[string]string{at.body: id}
	_, err := n.client.Post(ctx, n.client.ServiceURL("agents", url.PathEscape(agent), at.things), body, nil, &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK, http.StatusCreated}})
	if err != nil {
		return n.session.sentence(err)
	}
	return nil
}

// remove asks an agent to let a thing go.
func (n *neutron) remove(ctx context.Context, kind network.Kind, agent, id string) error {
	_, err := n.client.Delete(ctx, n.client.ServiceURL("agents", url.PathEscape(agent), pathsOf[kind].things, url.PathEscape(id)), nil)
	if err != nil {
		return n.session.sentence(err)
	}
	return nil
}
