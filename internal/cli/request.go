package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// requestFlags are the flags that change what a drain does; `usher plan` has them too.
// The first block are kubectl drain's own, with its names, types and defaults.
type requestFlags struct {
	force           bool
	ignoreDaemons   bool
	deleteEmptyDir  bool
	graceSeconds    int
	podSelector     string
	disableEviction bool
	skipSeconds     int
	chunkSize       int64
	selector        string

	surge       string
	daemonSets  string
	maxParallel int
	maxZones    int
	wait        string
	deadline    string
	atDeadline  string
}

func (f *requestFlags) add(fs *pflag.FlagSet) {
	fs.BoolVar(&f.force, "force", false, "Evict also pods that no controller owns, and pods whose DaemonSet is gone: nothing replaces them.")
	fs.BoolVar(&f.ignoreDaemons, "ignore-daemonsets", false, "Leave DaemonSet pods on the node.")
	fs.BoolVar(&f.deleteEmptyDir, "delete-emptydir-data", false, "Evict also pods with emptyDir volumes: that data is lost.")
	fs.IntVar(&f.graceSeconds, "grace-period", -1, "Seconds that each pod gets to end. Negative: the pod's own. 0: at once.")
	fs.StringVar(&f.podSelector, "pod-selector", "", "Only pods with these labels leave.")
	fs.BoolVar(&f.disableEviction, "disable-eviction", false, "Delete pods instead of evicting them: no PodDisruptionBudget is asked. Use with caution.")
	fs.IntVar(&f.skipSeconds, "skip-wait-for-delete-timeout", 0, "Do not wait for pods whose deletionTimestamp is older than this many seconds. 0: wait for all.")
	fs.Int64Var(&f.chunkSize, "chunk-size", 500, "Ignored: usher reads with watches. It is accepted so that scripts for kubectl drain go on working.")
	fs.StringVarP(&f.selector, "selector", "l", "", "Nodes with these labels, instead of names.")

	fs.StringVar(&f.surge, "surge", string(drain.SurgeAuto), "Start replacements before evicting: auto (where a budget could never allow it or the only replica would be down), never, always.")
	fs.StringVar(&f.daemonSets, "daemonsets", "", "evict: DaemonSet pods leave too, after all others.")
	fs.IntVar(&f.maxParallel, "max-parallel", 0, "How many nodes drain at once. 0: all.")
	fs.IntVar(&f.maxZones, "max-zones", 0, "How many zones may have nodes draining at once. 0: all.")
	fs.StringVar(&f.wait, "wait", "gone", "What to wait for: gone (the pods have left) or replaced (their replacements are ready as well).")
	fs.StringVar(&f.deadline, "deadline", "", "When the node goes away: a duration from now (2m) or a time (2026-01-02T15:04:05Z).")
	fs.StringVar(&f.atDeadline, "at-deadline", string(drain.AtDeadlineStop), "What happens to pods that are still held then: stop (and report) or delete (past their budgets, in safety order).")
}

func (f *requestFlags) validate() error {
	return errors.Join(
		oneOf("--surge", f.surge, "auto", "never", "always"),
		oneOf("--daemonsets", f.daemonSets, "", "evict"),
		oneOf("--wait", f.wait, "gone", "replaced"),
		oneOf("--at-deadline", f.atDeadline, "stop", "delete"),
		notNegative("--max-parallel", f.maxParallel),
		notNegative("--max-zones", f.maxZones),
		f.validateTogether(),
	)
}

func (f *requestFlags) validateTogether() error {
	switch {
	case f.ignoreDaemons && f.daemonSets == "evict":
		return errors.New("--ignore-daemonsets leaves DaemonSet pods and --daemonsets=evict removes them: give one of the two")
	case f.atDeadline == "delete" && f.deadline == "":
		return errors.New("--at-deadline=delete needs a --deadline")
	case f.disableEviction && f.surge == "always":
		return errors.New("--disable-eviction asks no budget, so there is nothing to surge for: leave out --surge=always or --disable-eviction")
	}
	return nil
}

// request turns the flags into what package drain understands. Self, Nodes, Why and
// Dead are the caller's.
func (f *requestFlags) request(now time.Time) (drain.Request, error) {
	req := drain.Request{
		Force: f.force, DaemonSets: drain.DaemonSetsObject, DeleteEmptyDir: f.deleteEmptyDir,
		DisableEviction: f.disableEviction, SkipDeletedBefore: snapshot.Seconds(int64(max(0, f.skipSeconds))),
		Surge: drain.SurgeMode(f.surge), MaxParallel: f.maxParallel, MaxZones: f.maxZones,
		Started: now, AtDeadline: drain.DeadlineMode(f.atDeadline), WaitReplaced: f.wait == "replaced",
	}
	if f.ignoreDaemons {
		req.DaemonSets = drain.DaemonSetsIgnore
	}
	if f.daemonSets == "evict" {
		req.DaemonSets = drain.DaemonSetsEvict
	}
	if f.graceSeconds >= 0 {
		grace := snapshot.Seconds(int64(f.graceSeconds))
		req.Grace = &grace
	}
	var err error
	if f.podSelector != "" {
		if req.PodSelector, err = labels.Parse(f.podSelector); err != nil {
			return req, fmt.Errorf("--pod-selector %q is not a label selector: %w", f.podSelector, err)
		}
	}
	req.Deadline, err = parseDeadline(f.deadline, now)
	return req, err
}

// parseDeadline reads a duration from now or a time. It must lie ahead.
func parseDeadline(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		in, err := time.ParseDuration(text)
		if err != nil {
			return time.Time{}, fmt.Errorf("--deadline %q is neither a duration (2m) nor a time (2026-01-02T15:04:05Z)", text)
		}
		at = now.Add(in)
	}
	if !at.After(now) {
		return time.Time{}, fmt.Errorf("--deadline %s has already passed", text)
	}
	return at, nil
}

func oneOf(flag, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	allowed = slices.DeleteFunc(allowed, func(s string) bool { return s == "" })
	return fmt.Errorf("%s=%s is not known: it can be %s", flag, value, strings.Join(allowed, ", "))
}

func notNegative(flag string, value int) error {
	if value < 0 {
		return fmt.Errorf("%s=%d is negative: give 0 or more", flag, value)
	}
	return nil
}
