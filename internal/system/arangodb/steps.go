package arangodb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/arangodb/agency"
)

// jobs are the supervision's jobs behind the steps, and the calls that start them.
var jobs = map[string]struct{ kind, path string }{
	CleanOut:         {agency.CleanOutServer, "/_admin/cluster/cleanOutServer"},
	ResignLeadership: {agency.ResignLeadership, "/_admin/cluster/resignLeadership"},
}

// Prepare implements system.System. Whether the step is under way is looked up in the agency, every time: what was asked
// for and not answered may have been begun. A job carries no mark of the client that began it (its creator is the
// coordinator), so only the answer that names its id makes it the step's own.
func (d *deployment) Prepare(ctx context.Context, step eviction.Preparation) (eviction.Job, error) {
	if step.Name == StepDown {
		return eviction.Job{}, d.stepDown(ctx, step.Member.ID)
	}
	seen, server, err := d.find(ctx, step)
	if err != nil {
		return eviction.Job{}, fmt.Errorf("asking for %s of %s: %w", step.Name, step.Member.ID, err)
	}
	job := jobs[step.Name]
	if running := seen.state.Job(job.kind, server); running.Running() && !step.Job.Own() {
		return eviction.Job{ID: running.ID, Found: true}, nil
	}
	if seen.underWay(job.kind, server) || seen.done(step.Name, server) {
		return step.Job, nil
	}
	id, err := d.submit(ctx, job.path, server)
	if err != nil {
		return eviction.Job{}, fmt.Errorf("asking for %s of %s: %w", step.Name, server, err)
	}
	return eviction.Job{ID: id}, nil
}

// submit begins a job about a server and returns its id.
func (d *deployment) submit(ctx context.Context, path, server string) (string, error) {
	body, err := json.Marshal(map[string]string{"server": server})
	if err != nil {
		return "", fmt.Errorf("making a request: %w", err)
	}
	data, err := d.ask(ctx, http.MethodPost, path, body)
	if err != nil {
		return "", err
	}
	answer, err := decode[struct{ ID string }](data)
	return answer.ID, err
}

// underWay reports whether a second job of the kind would be one too many. A server stays among those that are to be cleaned
// until its job has ended, also where the job itself is not in the answer.
func (s *clusterView) underWay(kind, server string) bool {
	return s.state.Job(kind, server).Running() || slices.Contains(s.state.ToBeCleaned, server)
}

// done reports whether the step's effect is there.
func (s *clusterView) done(step, server string) bool {
	if step == CleanOut {
		return slices.Contains(s.state.Cleaned, server)
	}
	return s.state.PlanKnown && s.state.CurrentKnown && len(s.state.Usage(server).Leads) == 0
}

// Undo implements system.System. A clean-out that runs is cancelled; a server that is cleaned out may hold shards again. Each
// call does one of these and looks at the effect when it is called again. What is not known to be the step's own is left as it
// is: another client that takes a server out of service would get it back in the middle of that.
func (d *deployment) Undo(ctx context.Context, step eviction.Preparation) (eviction.Undone, error) {
	if step.Name == StepDown {
		return eviction.Undone{Done: d.leadership.settled()}, nil // a restart leaves nothing behind, once it has happened
	}
	seen, server, err := d.find(ctx, step)
	if errors.Is(err, errUnknownServer) {
		return eviction.Undone{Done: true}, nil // it was removed from the deployment, and its jobs with it
	}
	if err != nil {
		return eviction.Undone{}, fmt.Errorf("taking back %s of %s: %w", step.Name, step.Member.ID, err)
	}
	if step.Name == ResignLeadership {
		return eviction.Undone{Done: !seen.underWay(agency.ResignLeadership, server)}, nil // it cannot be cancelled, and ends soon
	}
	undone, err := d.undoCleanOut(ctx, seen, server, step.Job)
	if err != nil {
		return eviction.Undone{}, fmt.Errorf("taking back %s of %s: %w", step.Name, server, err)
	}
	return undone, nil
}

func (d *deployment) undoCleanOut(ctx context.Context, seen *clusterView, server string, known eviction.Job) (eviction.Undone, error) {
	own := seen.state.JobOf(known.ID)
	switch {
	case known.Own() && own.Running():
		return eviction.Undone{}, d.cancel(ctx, own)
	case seen.byAnother(server, known):
		return eviction.Undone{Done: true, Left: seen.left(server)}, nil
	case slices.Contains(seen.state.Cleaned, server):
		return eviction.Undone{}, d.readmit(ctx, server)
	}
	// Without a job that runs, a server to be cleaned is one whose job's end is not written down yet.
	return eviction.Undone{Done: !slices.Contains(seen.state.ToBeCleaned, server)}, nil
}

// byAnother reports whether a server is cleaned out, or is being so, by a job that is not known to be the step's own. Where the
// supervision no longer keeps how its own job ended, and names no other that cleaned the server out since, it was that job.
func (s *clusterView) byAnother(server string, known eviction.Job) bool {
	running, last := s.state.Job(agency.CleanOutServer, server).Running(), s.state.LastFinished(agency.CleanOutServer, server).ID
	cleaned := slices.Contains(s.state.Cleaned, server)
	switch {
	case !known.Own():
		return running || cleaned || slices.Contains(s.state.ToBeCleaned, server)
	case s.state.JobOf(known.ID).State == agency.Failed:
		return running || cleaned
	}
	return running || cleaned && last != "" && last != known.ID
}

// left says what stays of a clean-out that may be another client's, and how it is ended by hand.
func (s *clusterView) left(server string) string {
	const readmit = "PUT /_admin/cluster/numberOfServers with the other cleanedServers lets it hold shards again"
	if job := s.state.Job(agency.CleanOutServer, server); job.Running() {
		return fmt.Sprintf("job %s cleans out %s, and is not known to be Usher's own, so it goes on; unless another client wants that, cancel it: "+
			"POST /_admin/cluster/cancelAgencyJob {\"id\":%q}; if it has ended by then: %s", job.ID, server, job.ID, readmit)
	}
	return fmt.Sprintf("%s is cleaned out, or is to be, and not by a job that is known to be Usher's own, so it stays so; unless another client wants that: %s",
		server, readmit)
}

// cancel ends a job. One that has ended meanwhile cannot be cancelled; what it did is seen next time.
func (d *deployment) cancel(ctx context.Context, job agency.Job) error {
	body, err := json.Marshal(map[string]string{"id": job.ID})
	if err != nil {
		return fmt.Errorf("cancelling job %s: %w", job.ID, err)
	}
	err = d.command(ctx, http.MethodPost, "/_admin/cluster/cancelAgencyJob", body)
	if refused, ok := errors.AsType[*refusal](err); ok && (refused.status == http.StatusNotFound || refused.status == http.StatusPreconditionFailed) {
		return nil
	}
	return err
}

// readmit takes a server off the list of those that are cleaned out. The list is read through the same door just before:
// the call replaces it whole.
func (d *deployment) readmit(ctx context.Context, server string) error {
	const path = "/_admin/cluster/numberOfServers"
	data, err := d.ask(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	answer, err := decode[struct {
		CleanedServers []string `json:"cleanedServers"`
	}](data)
	if err != nil {
		return err
	}
	left := slices.DeleteFunc(answer.CleanedServers, func(other string) bool { return other == server })
	body, err := json.Marshal(map[string][]string{"cleanedServers": list(left)})
	if err != nil {
		return fmt.Errorf("making a request: %w", err)
	}
	return d.command(ctx, http.MethodPut, path, body)
}

// errUnknownServer means that the agency could be read and knows no such server.
var errUnknownServer = errors.New("the deployment has no such dbserver")

// find looks at the deployment and resolves the member.
func (d *deployment) find(ctx context.Context, step eviction.Preparation) (*clusterView, string, error) {
	if _, known := jobs[step.Name]; !known {
		return nil, "", fmt.Errorf("%w: ArangoDB has no such step", system.ErrTerminal)
	}
	seen, err := d.look(ctx)
	switch {
	case err != nil:
		return nil, "", err
	case seen.single:
		return nil, "", fmt.Errorf("%w: a single server has nowhere to move its data", system.ErrTerminal)
	case seen.state == nil:
		return nil, "", errors.New(seen.agencyProblem())
	}
	found := slices.DeleteFunc(seen.candidates(step.Member.ID), func(id string) bool { return !slices.Contains(seen.state.DBServers, id) })
	switch len(found) {
	case 0:
		return nil, "", errUnknownServer
	case 1:
		return seen, found[0], nil
	}
	return nil, "", fmt.Errorf("it may be any of %s", strings.Join(found, ", "))
}

func (d *deployment) command(ctx context.Context, method, path string, body []byte) error {
	_, err := d.ask(ctx, method, path, body)
	return err
}

// ask sends a request to one coordinator. The next one gets it only if it has certainly not reached the one before, or
// that one was not ready for it: a job must not be begun twice.
func (d *deployment) ask(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	var said []error
	for _, endpoint := range d.endpoints {
		got, err := d.client.call(ctx, method, endpoint+path, body, answerLimit)
		var data []byte
		if err == nil {
			data, err = got.json()
		}
		if err == nil {
			return data, nil
		}
		said = append(said, fmt.Errorf("coordinator %s: %w", endpoint, terminal(err)))
		if !unsent(err) && got.status != http.StatusServiceUnavailable {
			break
		}
	}
	return nil, errors.Join(said...)
}

// terminal marks refusals that asking again will not change.
func terminal(err error) error {
	if refused, ok := errors.AsType[*refusal](err); ok && system.Final(refused.status) {
		return fmt.Errorf("%w: %w", system.ErrTerminal, refused)
	}
	return err
}
