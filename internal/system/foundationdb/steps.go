package foundationdb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/foundationdb/status"
	"usher.sh/usher/internal/text"
)

// Prepare implements system.System.
func (c *cluster) Prepare(ctx context.Context, step eviction.Preparation) (eviction.Job, error) {
	v, err := c.look(ctx)
	if err != nil {
		return eviction.Job{}, fmt.Errorf("asking for %s of %s: %w", step.Name, step.Member.ID, err)
	}
	var job eviction.Job
	switch step.Name {
	case Exclude:
		job, err = c.exclude(ctx, v, step)
	case MoveCoordinators:
		err = c.moveCoordinators(ctx, v, c.roster.member(step.Member))
	default:
		err = fmt.Errorf("%w: FoundationDB has no such step", system.ErrTerminal)
	}
	if err != nil {
		return eviction.Job{}, fmt.Errorf("asking for %s of %s: %w", step.Name, step.Member.ID, err)
	}
	return job, nil
}

// exclude has a member's data moved to others. An exclusion carries no mark of the client that made it: only the call that made it knows, so what
// was there before is another client's.
func (c *cluster) exclude(ctx context.Context, v *view, step eviction.Preparation) (eviction.Job, error) {
	if problem := v.Problem(); problem != "" {
		return eviction.Job{}, errors.New(problem)
	}
	member := c.roster.member(step.Member)
	processes := v.processes(member)
	switch why := v.contradiction(member); {
	case why != "":
		return eviction.Job{}, errors.New(why)
	case len(processes) == 0:
		return eviction.Job{}, errors.New("no process in the status has it as its instance_id")
	case excluded(processes) && step.Job.Own():
		return step.Job, nil
	case excluded(processes):
		return c.found(v.exclusionsOf(processes)), nil
	}
	if why := c.unexcludable(v, step.Member.ID, step.Member.Role, processes, c.now()); why != "" {
		return eviction.Job{}, errors.New(why)
	}
	entries, err := v.entries(processes)
	if err != nil {
		return eviction.Job{}, fmt.Errorf("%w: %w", system.ErrTerminal, err)
	}
	listed := entries
	if entries = without(entries, v.Exclusions()); len(entries) == 0 { // the list has them, and the processes do not show it yet
		return c.found(listed), nil
	}
	command, err := commandOf("exclude no_wait", entries)
	if err != nil {
		return eviction.Job{}, err
	}
	job, err := v.jobOf(step, entries)
	if err != nil {
		return eviction.Job{}, err
	}
	c.begin(entries)
	out, err := c.run(ctx, command)
	if err != nil {
		return eviction.Job{}, err
	}
	if err = out.failed(); err != nil { // it has not taken effect
		c.end(entries)
		return eviction.Job{}, err
	}
	if err := c.mustBeExcluded(ctx, entries); err != nil {
		return eviction.Job{}, err
	}
	return job, nil
}

// longestJob is how many characters of a job's id a policy's status takes.
const longestJob = 253

// jobOf is the job of entries that are about to be excluded for a step, and of those that were before, where its process has come back at another address.
func (v *view) jobOf(step eviction.Preparation, entries []string) (eviction.Job, error) {
	all := slices.Clone(entries)
	if step.Job.Own() {
		all = append(all, v.standing(step.Job)...)
	}
	slices.Sort(all)
	job := eviction.Job{ID: strings.Join(slices.Compact(all), separator)}
	if len(job.ID) > longestJob {
		return eviction.Job{}, fmt.Errorf("%w: its %d exclusions are too long to be written down; start its processes with an instance_id of their own",
			system.ErrTerminal, len(all))
	}
	return job, nil
}

// standing are the entries of a job that are on the list.
func (v *view) standing(job eviction.Job) []string {
	all := v.Exclusions()
	return slices.DeleteFunc(strings.Split(job.ID, separator), func(entry string) bool { return !slices.Contains(all, entry) })
}

// begin notes that exclusions are about to be asked for, hasBegun reports whether all of some were. They were not there before.
func (c *cluster) begin(entries []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, entry := range entries {
		c.begun[entry] = true
	}
}

// end notes that exclusions were refused: who excludes the same later is another client.
func (c *cluster) end(entries []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.begun, func(entry string, _ bool) bool { return slices.Contains(entries, entry) })
}

func (c *cluster) hasBegun(entries []string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !slices.ContainsFunc(entries, func(entry string) bool { return !c.begun[entry] })
}

// forget drops those that are not on the list: whoever excludes the same again is another client, until Usher does.
func (c *cluster) forget(v *view) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := v.Exclusions()
	maps.DeleteFunc(c.begun, func(entry string, _ bool) bool { return !slices.Contains(all, entry) })
}

// found is the job of exclusions that are there.
func (c *cluster) found(entries []string) eviction.Job {
	return eviction.Job{ID: strings.Join(entries, separator), Found: !c.hasBegun(entries)}
}

func without(entries, others []string) []string {
	return slices.DeleteFunc(slices.Clone(entries), func(entry string) bool { return slices.Contains(others, entry) })
}

// separator stands between the entries of a job.
const separator = ","

// mustBeExcluded looks for what a command has done: neither its words nor its exit code tell.
func (c *cluster) mustBeExcluded(ctx context.Context, entries []string) error {
	out, err := c.run(ctx, "exclude")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !slices.ContainsFunc(strings.Split(out.Out, "\n"), func(line string) bool { return strings.TrimSpace(line) == entry }) {
			return fmt.Errorf("fdbcli was asked to exclude %s, and it is not on the list: %s", entry, said(out.Err))
		}
	}
	return nil
}

func (v *view) exclusionsOf(processes []*status.Process) []string {
	var all []string
	for _, p := range processes {
		all = append(all, v.ExclusionsOf(p)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Undo implements system.System: what the step has excluded is included again. What is not known to be its own stays, and the id of a member that its MemberSet
// empties, which would exclude that once more: each change is a recovery, and its data would never be gone. Coordinators stay where they are: any process may be one.
func (c *cluster) Undo(ctx context.Context, step eviction.Preparation) (eviction.Undone, error) {
	if step.Name != Exclude {
		return eviction.Undone{Done: true}, nil
	}
	v, err := c.look(ctx)
	var undone eviction.Undone
	if err == nil {
		own, others := c.standingOf(v, step)
		if c.roster.empties(step.Member.ID) { // its set takes back what is by its id, and nothing else
			id := []string{byID(step.Member.ID)}
			own, others = without(own, id), without(others, id)
		}
		undone, err = c.include(ctx, v, own, others)
	}
	if err != nil {
		return eviction.Undone{Retry: undone.Retry}, fmt.Errorf("taking back %s of %s: %w", step.Name, step.Member.ID, err)
	}
	return undone, nil
}

// include takes back exclusions that are Usher's own, and says what stays of others.
func (c *cluster) include(ctx context.Context, v *view, own, others []string) (eviction.Undone, error) {
	if problem := v.Problem(); problem != "" {
		return eviction.Undone{}, errors.New(problem)
	}
	if len(own) == 0 {
		return eviction.Undone{Done: true, Left: left(others)}, nil
	}
	if why := v.Unsettled(c.waits.include.Seconds()); why != "" {
		left := c.waits.include.Seconds() - *v.Cluster.Recovery.Since
		return eviction.Undone{Retry: time.Duration(max(0, left) * float64(time.Second))}, errors.New(why)
	}
	command, err := commandOf("include", own)
	if err != nil {
		return eviction.Undone{}, err
	}
	out, err := c.run(ctx, command)
	if err == nil {
		err = out.failed()
	}
	return eviction.Undone{}, err
}

// standingOf are the exclusions on the list that a step has begun, and those of its member that may be another client's. Where the answer to the call that
// began them was lost, and the member went before it was asked for again, only the process that made the call knows.
func (c *cluster) standingOf(v *view, step eviction.Preparation) (own, others []string) {
	if step.Job.Own() {
		return v.standing(step.Job), nil
	}
	others = v.exclusionsOf(v.processes(c.roster.member(step.Member)))
	if step.Job.ID != "" {
		return nil, others
	}
	if id := byID(step.Member.ID); !slices.Contains(others, id) && slices.Contains(v.Exclusions(), id) { // its process may be away
		others = append(others, id)
	}
	for _, entry := range others {
		if c.hasBegun([]string{entry}) {
			own = append(own, entry)
		}
	}
	return own, without(others, own)
}

// left says what stays of exclusions that may be another client's; "": nothing.
func left(entries []string) string {
	if len(entries) == 0 {
		return ""
	}
	return fmt.Sprintf("it is excluded by %s, not by an exclusion that is known to be Usher's own, so it stays so; unless another client wants that: fdbcli --exec 'include %s'",
		text.List(entries, 5), strings.Join(entries, " "))
}
