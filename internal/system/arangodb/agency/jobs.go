package agency

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Job is a task of the supervision.
type Job struct {
	ID    string   `json:"-"`
	State JobState `json:"-"`

	Type     string `json:"type"`
	Server   string `json:"server"`
	Reason   string `json:"reason"` // why it failed
	Finished string `json:"timeFinished"`
}

// JobState is the list under Target in which a job stands.
type JobState string

// The states. A job that stands nowhere was never begun, or was forgotten: the supervision keeps some of its old jobs only.
const (
	NoJob    JobState = ""
	ToDo     JobState = "ToDo"
	Pending  JobState = "Pending"
	Finished JobState = "Finished"
	Failed   JobState = "Failed"
)

// The types of job that concern a whole server.
const (
	CleanOutServer   = "cleanOutServer"
	ResignLeadership = "resignLeadership"
)

// Running reports whether the job may still do something.
func (j Job) Running() bool { return j.State == ToDo || j.State == Pending }

// Ended is when the job ended, zero where the agency does not say.
func (j Job) Ended() time.Time { return timeOf(j.Finished) }

// Job returns the job of that type for a server that counts: one that runs, else the newest; without any, one without an id.
func (s *State) Job(kind, server string) Job {
	var last Job
	for _, job := range s.Jobs {
		if job.Type == kind && job.Server == server && (job.Running() || !last.Running()) {
			last = job
		}
	}
	return last
}

// JobOf returns the job with an id, one without an id where there is none.
func (s *State) JobOf(id string) Job {
	at := slices.IndexFunc(s.Jobs, func(job Job) bool { return job.ID == id && id != "" })
	if at < 0 {
		return Job{}
	}
	return s.Jobs[at]
}

// LastFinished returns the job of that type for a server that has finished last, one without an id where there is none.
func (s *State) LastFinished(kind, server string) Job {
	var last Job
	for _, job := range s.Jobs {
		if job.Type == kind && job.Server == server && job.State == Finished && !job.Ended().Before(last.Ended()) {
			last = job
		}
	}
	return last
}

// older compares by id, which counts up.
func older(a, b Job) int {
	return cmp.Or(cmp.Compare(number(a.ID), number(b.ID)), strings.Compare(a.ID, b.ID), strings.Compare(string(a.State), string(b.State)))
}

// number reads the leading number of an id; those of sub-jobs are NUMBER-N.
func number(id string) uint64 {
	digits, _, _ := strings.Cut(id, "-")
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
