package openstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/openstack/compute"
	"usher.sh/usher/internal/text"
)

// deadReason is why a dead host is disabled for a policy, and before begins what was said of that by others. By the reason any process knows that it has marked the
// service as down, too.
func deadReason(owner string) string { return ushers + owner + dead }

const (
	ushers = "Usher (policy "
	dead   = "): its node is proven off, its servers are evacuated"
)

// parseDead reads the reason of a dead host: for which policy it is disabled, and why it was before; "": it was not.
func parseDead(reason string) (owner, was string, is bool) {
	rest, is := strings.CutPrefix(reason, ushers)
	owner, was, died := strings.Cut(rest, dead)
	return owner, strings.TrimPrefix(was, before), is && died
}

// before begins what was there before; unsaid stands for a service that was disabled without a reason.
const (
	before = "; before: "
	unsaid = "disabled, and no reason was given"
)

// mostReason is how long a reason may be in Nova.
const mostReason = 255

// forced reports whether Usher has marked a service as down, and why it was disabled before; "": it was not.
func (r *region) forced(h *compute.Hypervisor) (was string, ours bool) {
	owner, was, died := parseDead(h.Reason)
	return was, died && h.Forced && owner == r.owner
}

// afterwards is the reason of a dead host without one of Usher's own that was there before, whichever policy evacuates it: what was begun with that
// is taken back by now, and the host is not given back to it. begun is false where there is none.
func afterwards(reason, own string) (rest string, begun bool) {
	outer, inner, begun := strings.Cut(reason, before+own)
	_, _, evacuated := strings.Cut(outer, dead)
	return outer + inner, begun && evacuated && strings.HasPrefix(outer, ushers)
}

// taken says that another policy evacuates the host already: of two that look at the same time each would ask for a server, which Nova accepts.
func (r *region) taken(h *compute.Hypervisor) error {
	owner, others := r.others(h)
	if !others {
		return nil
	}
	return fmt.Errorf("host %s is evacuated for policy %s already: have one policy be for it; where that one is gone, openstack compute service set --up %s nova-compute has this one go on",
		text.Name(h.Host), text.Line(owner), text.ShellWord(h.Host))
}

// others reports whether another policy has marked a service as down, and which.
func (r *region) others(h *compute.Hypervisor) (owner string, is bool) {
	owner, _, died := parseDead(h.Reason)
	return owner, died && h.Forced && owner != r.owner
}

// evacuateServers marks a dead host's service as down and returns the job, which the calls that bring it back go on with: servers are evacuated, each once.
func (r *region) evacuateServers(ctx context.Context, step eviction.Preparation) (eviction.Job, error) {
	began := time.Now()
	n, l, err := r.lookAtDead(ctx, step.Member.ID)
	if err != nil {
		return eviction.Job{}, err
	}
	job := step.Job
	if !job.Own() {
		job = jobAfter(l)
	}
	last, _ := after(job)
	e := l.Evacuate(last)
	switch {
	case e.Problem != "":
		return eviction.Job{}, errors.New(e.Problem)
	case e.Up:
		return eviction.Job{}, errors.New("its nova-compute reports to Nova, although its node is proven off: nothing is evacuated until Nova takes it for down")
	case e.Force:
		return job, r.force(ctx, n, l)
	case !step.Job.Own():
		return job, nil
	}
	if err := r.taken(l.Own()); err != nil {
		return job, err
	}
	return job, r.sendEach(ctx, n, l, e.Next, began)
}

// sendEach asks for one server after the other, each unless it was evacuated since the look: the requests before it take their time, and another client may have
// asked meanwhile.
func (r *region) sendEach(ctx context.Context, n *nova, l *compute.Look, next []compute.Call, began time.Time) error {
	var newest int64
	for i := range l.Migrations {
		newest = max(newest, l.Migrations[i].ID)
	}
	for i := range next {
		if late(ctx, began) {
			return nil
		}
		now, err := n.listMigrations(ctx, url.Values{"instance_uuid": {next[i].Server}, "migration_type": {compute.KindEvacuation}})
		if err != nil {
			return err
		}
		asked := func(m compute.Migration) bool {
			return m.Server == next[i].Server && m.Source == l.Host && m.ID > newest // one off another host has brought it here
		}
		if slices.ContainsFunc(now, asked) {
			continue
		}
		if err := r.send(ctx, n, next[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// lookAtDead looks at one host, as Nova has it that takes it for down.
func (r *region) lookAtDead(ctx context.Context, host string) (*nova, *compute.Look, error) {
	n, err := r.session.compute(ctx)
	if err != nil {
		return nil, nil, err
	}
	all, err := n.hypervisors(ctx)
	if err != nil {
		return nil, nil, err
	}
	l := &compute.Look{Now: r.now(), Host: host, Hypervisors: all, Listed: true, User: n.user, Asked: r.known(), Modes: r.modes, AtOnce: r.atOnce}
	if err := n.addForced(ctx, l.Hypervisors, host); err != nil {
		return nil, nil, err
	}
	// Evacuations come last: a server that was seen there is seen on its way then, if it has begun to leave.
	if l.Servers, err = n.servers(ctx, host); err != nil {
		return nil, nil, err
	}
	live, err := n.arriving(ctx, host)
	if err != nil {
		return nil, nil, err
	}
	l.Migrations, err = n.listMigrations(ctx, url.Values{"source_compute": {host}, "migration_type": {compute.KindEvacuation}})
	l.Migrations = append(l.Migrations, live...)
	return n, l, err
}

// force marks a host's service as down and disables it.
func (r *region) force(ctx context.Context, n *nova, l *compute.Look) error {
	h := l.Own()
	_, was, died := parseDead(h.Reason) // another client has taken the mark alone off
	if !died {
		was = cmp.Or(text.Line(h.Reason), unsaid)
	}
	reason := deadReason(r.owner)
	if !h.Enabled && was != "" {
		reason = text.Cut(reason+before+was, mostReason)
	}
	return r.final(n.forceDown(ctx, h.Service, reason))
}

// final tells what asking again will not change.
func (*region) final(err error) error {
	if system.Final(statusOf(err)) {
		return fmt.Errorf("%w: %w", system.ErrTerminal, err)
	}
	return err
}

// giveBack takes back that a host was marked as down, once it is there again: its agents come first, so that what Nova puts there has a network, and its own
// nova-compute has to have cleaned up.
func (r *region) giveBack(ctx context.Context, step eviction.Preparation) (eviction.Undone, error) {
	n, l, err := r.lookAtDead(ctx, step.Member.ID)
	if err != nil {
		return eviction.Undone{}, err
	}
	last, _ := after(step.Job)
	back := l.Return(last)
	h := l.Own()
	if h == nil {
		return eviction.Undone{Done: true}, nil
	}
	was, ours := r.forced(h)
	if reason, begun := afterwards(h.Reason, deadReason(r.owner)); begun && !ours {
		return eviction.Undone{}, r.set(ctx, n, h.Service, reason)
	}
	if !ours {
		return r.opened(ctx, n, h, back.Left)
	}
	waits := back.Runs
	if silent, err := r.silentAgents(ctx, l.Host); err != nil {
		return eviction.Undone{}, err
	} else if len(silent) > 0 {
		waits = append([]string{"Neutron does not hear of its agents (openstack network agent delete ID takes one off that is not there any more): " + text.List(silent, 5)}, waits...)
	}
	if len(waits) > 0 {
		return eviction.Undone{}, fmt.Errorf("host %s stays marked as down: %s", text.Name(l.Host), text.List(waits, 5))
	}
	return eviction.Undone{}, r.final(n.forceUp(ctx, h.Service, was))
}

// opened enables a service that Usher does not have marked as down any more, and that it alone has disabled.
func (r *region) opened(ctx context.Context, n *nova, h *compute.Hypervisor, left string) (eviction.Undone, error) {
	_, others := r.others(h)
	switch {
	case others: // that policy gives it back
		return eviction.Undone{Done: true, Left: left}, nil
	case h.Forced:
		kept := "its service stays marked as down, as another client has it: openstack compute service set --up " + text.ShellWord(h.Host) + " nova-compute"
		return eviction.Undone{Done: true, Left: strings.TrimPrefix(left+"; "+kept, "; ")}, nil
	case h.Enabled || h.Reason != deadReason(r.owner):
		return eviction.Undone{Done: true, Left: left}, nil
	}
	return eviction.Undone{}, r.set(ctx, n, h.Service, "")
}

// silentAgents are the agents of a host that Neutron has and does not hear of. A region without Neutron has none.
func (r *region) silentAgents(ctx context.Context, host string) (silent []string, err error) {
	if offers, err := r.session.offers(ctx, "network"); err != nil || !offers {
		return nil, err
	}
	n, err := r.session.network(ctx)
	if err != nil {
		return nil, err
	}
	all, err := n.agents(ctx)
	for i := range all {
		if a := &all[i]; a.Host == host && !a.Alive {
			silent = append(silent, a.Type)
		}
	}
	return silent, err
}

// addForced notes whether a host that is not up is marked as down.
func (n *nova) addForced(ctx context.Context, all []compute.Hypervisor, host string) error {
	at := slices.IndexFunc(all, func(h compute.Hypervisor) bool { return h.Host == host && !h.Up })
	if at < 0 {
		return nil
	}
	var answer struct {
		Services []struct {
			ID     string `json:"id"`
			Forced bool   `json:"forced_down"`
		} `json:"services"`
	}
	query := url.Values{"binary": {"nova-compute"}, "host": {host}}
	if _, err := n.client.Get(ctx, n.client.ServiceURL("os-services")+"?"+query.Encode(), &answer, nil); err != nil {
		return n.failed("listing its services", err)
	}
	for _, s := range answer.Services {
		if s.ID == all[at].Service {
			all[at].Forced = s.Forced
		}
	}
	return nil
}

// downed is what a service that is marked as down is sent. gophercloud's options cannot say that it no longer is.
type downed struct {
	Forced bool   `json:"forced_down"`
	Status string `json:"status,omitempty"`
	Reason string `json:"disabled_reason,omitempty"`
}

func (n *nova) forceDown(ctx context.Context, service, reason string) error {
	return n.putService(ctx, service, downed{Forced: true, Status: "disabled", Reason: reason})
}

// forceUp takes the mark off. A service that was disabled before stays so, for its former reason.
func (n *nova) forceUp(ctx context.Context, service, was string) error {
	if was != "" {
		return n.putService(ctx, service, downed{Status: "disabled", Reason: was})
	}
	return n.putService(ctx, service, downed{})
}

func (n *nova) putService(ctx context.Context, service string, body downed) error {
	_, err := n.client.Put(ctx, n.client.ServiceURL("os-services", url.PathEscape(service)), body, nil, &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}})
	if err != nil {
		return n.failed("changing its service", err)
	}
	return nil
}
