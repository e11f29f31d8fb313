package cli

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func parseRequest(args ...string) (drain.Request, error) {
	var f requestFlags
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	f.add(fs)
	if err := fs.Parse(args); err != nil {
		return drain.Request{}, err
	}
	if err := f.validate(); err != nil {
		return drain.Request{}, err
	}
	return f.request(noon)
}

func TestRequestOfFlags(t *testing.T) {
	zero, minute := time.Duration(0), time.Minute
	base := drain.Request{DaemonSets: drain.DaemonSetsObject, Surge: drain.SurgeAuto, Started: noon, AtDeadline: drain.AtDeadlineStop}
	with := func(change func(*drain.Request)) drain.Request {
		r := base
		change(&r)
		return r
	}
	tests := []struct {
		name string
		args []string
		want drain.Request
	}{
		{"defaults", nil, base},
		{"force", []string{"--force"}, with(func(r *drain.Request) { r.Force = true })},
		{"ignore daemonsets", []string{"--ignore-daemonsets"}, with(func(r *drain.Request) { r.DaemonSets = drain.DaemonSetsIgnore })},
		{"evict daemonsets", []string{"--daemonsets=evict"}, with(func(r *drain.Request) { r.DaemonSets = drain.DaemonSetsEvict })},
		{"emptydir", []string{"--delete-emptydir-data"}, with(func(r *drain.Request) { r.DeleteEmptyDir = true })},
		{"grace", []string{"--grace-period=60"}, with(func(r *drain.Request) { r.Grace = &minute })},
		{"at once", []string{"--grace-period=0"}, with(func(r *drain.Request) { r.Grace = &zero })},
		{"the pod's own grace", []string{"--grace-period=-7"}, base},
		{"delete", []string{"--disable-eviction"}, with(func(r *drain.Request) { r.DisableEviction = true })},
		{"skip", []string{"--skip-wait-for-delete-timeout=60"}, with(func(r *drain.Request) { r.SkipDeletedBefore = time.Minute })},
		{"skip, longer than a duration may be", []string{"--skip-wait-for-delete-timeout=9223372037"}, with(func(r *drain.Request) {
			r.SkipDeletedBefore = 100 * 365 * 24 * time.Hour
		})},
		{"skip nothing", []string{"--skip-wait-for-delete-timeout=-1"}, base},
		{"chunks", []string{"--chunk-size=0"}, base},
		{"surge", []string{"--surge=never"}, with(func(r *drain.Request) { r.Surge = drain.SurgeNever })},
		{"limits", []string{"--max-parallel=2", "--max-zones=1"}, with(func(r *drain.Request) { r.MaxParallel, r.MaxZones = 2, 1 })},
		{"wait", []string{"--wait=replaced"}, with(func(r *drain.Request) { r.WaitReplaced = true })},
		{"deadline", []string{"--deadline=2m", "--at-deadline=delete"}, with(func(r *drain.Request) {
			r.Deadline, r.AtDeadline = noon.Add(2*time.Minute), drain.AtDeadlineDelete
		})},
		{"deadline as a time", []string{"--deadline=2026-01-02T14:00:00+01:00"}, with(func(r *drain.Request) { r.Deadline = noon.Add(time.Hour) })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseRequest(tt.args...)
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreUnexported(snapshot.Drainer{})); diff != "" || err != nil {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

func TestPodSelectorOfFlags(t *testing.T) {
	got, err := parseRequest("--pod-selector=app in (web),!canary")
	if err != nil || got.PodSelector == nil || got.PodSelector.String() != "app in (web),!canary" {
		t.Errorf("got %v, %v", got.PodSelector, err)
	}
}

func TestFlagsThatMakeNoSense(t *testing.T) {
	tests := []struct {
		args  []string
		wrong string
	}{
		{[]string{"--surge=sometimes"}, "--surge=sometimes is not known: it can be auto, never, always"},
		{[]string{"--daemonsets=delete"}, "--daemonsets=delete is not known: it can be evict"},
		{[]string{"--wait=forever"}, "it can be gone, replaced"},
		{[]string{"--at-deadline=panic"}, "it can be stop, delete"},
		{[]string{"--max-parallel=-1"}, "--max-parallel=-1 is negative"},
		{[]string{"--max-zones=-1"}, "--max-zones=-1 is negative"},
		{[]string{"--ignore-daemonsets", "--daemonsets=evict"}, "give one of the two"},
		{[]string{"--at-deadline=delete"}, "needs a --deadline"},
		{[]string{"--disable-eviction", "--surge=always"}, "nothing to surge for"},
		{[]string{"--deadline=soon"}, "neither a duration (2m) nor a time"},
		{[]string{"--deadline=-5m"}, "has already passed"},
		{[]string{"--deadline=2026-01-02T11:00:00Z"}, "has already passed"},
		{[]string{"--pod-selector=a b"}, "is not a label selector"},
		{[]string{"--grace-period=long"}, "invalid argument"},
	}
	for _, tt := range tests {
		t.Run(tt.wrong, func(t *testing.T) {
			_, err := parseRequest(tt.args...)
			wantError(t, err, tt.wrong)
		})
	}
}
