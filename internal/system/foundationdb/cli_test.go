package foundationdb

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/foundationdb/status"
)

func TestWordsOfFDBCLI(t *testing.T) {
	list := Output{Out: "\nRange limited to 10000 keys\n`\\xff\\xff/management/in_progress_exclusion/127.0.0.14:14504' is `'\n`\\xff\\xff/management/in_progress_exclusion/[::1]:4500' is `'\n\n"}
	if all, err := list.draining(); err != nil || !slices.Equal(all, []string{"127.0.0.14:14504", "[::1]:4500"}) {
		t.Errorf("%v %v", all, err)
	}
	if all, err := (Output{Out: "\nRange limited to 10000 keys\n\n"}).draining(); err != nil || len(all) != 0 {
		t.Errorf("none: %v %v", all, err)
	}
	for _, out := range []Output{
		{},
		{Err: "ERROR: Transaction timed out (1031)"},
		{Out: "Type `help' for help"},
		{Out: "Range limited to 10000 keys\n" + strings.Repeat("`\\xff\\xff/management/in_progress_exclusion/127.0.0.14:14504' is `'\n", listLimit)},
	} {
		if all, err := out.draining(); err == nil {
			t.Errorf("%.100v lists %v", out, all)
		}
	}
	if v, err := (Output{Out: "FoundationDB CLI 7.3 (v7.3.79)\nsource version 0074653ee0113fc39da0fa088b056c7210ab3191\n"}).version(); err != nil || v != "7.3.79" {
		t.Errorf("%q %v", v, err)
	}
	if v, err := (Output{Out: "GNU bash"}).version(); err == nil {
		t.Errorf("it is of version %q", v)
	}
	for text, refused := range map[string]bool{
		"ERROR: 'nonsense' is neither a valid network endpoint address nor a locality":                   true,
		"  127.0.0.14:14504  ---- WARNING: Exclusion in progress! It is not safe to remove this process": false,
		"": false,
	} {
		if err := (Output{Err: text}).failed(); (err != nil) != refused {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzDraining(f *testing.F) {
	f.Add("\nRange limited to 10000 keys\n`\\xff\\xff/management/in_progress_exclusion/127.0.0.14:14504' is `'\n")
	f.Fuzz(func(t *testing.T, out string) {
		all, err := Output{Out: out}.draining()
		if err != nil && (len(all) > 0 || strings.Contains(err.Error(), "\n") || len(err.Error()) > 400) {
			t.Errorf("%v and %q", all, err)
		}
	})
}

func TestWhatIsExcludedByLocality(t *testing.T) {
	for version, want := range map[string]bool{
		"7.1.41": false, "7.1.42": true, "7.1.57": true, "7.2.9": false, "7.3.25": false, "7.3.26": true, "7.3.79": true, "7.4.1": true, "8.0.0": true, "6.3.24": false, "": false,
	} {
		if byLocality(version) != want {
			t.Errorf("%s: %t", version, !want)
		}
	}
	named := func(id string) []*status.Process {
		return []*status.Process{{Address: "10.0.0.2:4501:tls", Locality: map[string]string{"instance_id": id}}, {Address: "10.0.0.2:4500", Locality: map[string]string{"instance_id": id}}}
	}
	for name, test := range map[string]struct {
		version string
		of      []*status.Process
		want    []string
	}{
		"by its id":                {"7.3.63", named("storage-1"), []string{"locality_instance_id:storage-1"}},
		"by its addresses":         {"7.1.30", named("storage-1"), []string{"10.0.0.2:4500", "10.0.0.2:4501"}},
		"without an id":            {"7.3.63", named(""), []string{"10.0.0.2:4500", "10.0.0.2:4501"}},
		"an id that is a command":  {"7.3.63", named("x;kill"), nil},
		"an id with a blank":       {"7.3.63", named("x all"), nil},
		"an id like an option":     {"7.3.63", named("-x"), nil},
		"an address that is none":  {"7.1.30", []*status.Process{{Address: "all:1"}}, nil},
		"a command in a zone":      {"7.1.30", []*status.Process{{Address: "[fe80::1%x FORCE; kill; kill all]:4500"}}, nil},
		"a zone":                   {"7.1.30", []*status.Process{{Address: "[fe80::1%eth0]:4500"}}, nil},
		"no address while it runs": {"7.1.30", []*status.Process{{}}, nil},
	} {
		v := &view{Status: &status.Status{}}
		v.Cluster.Processes = map[string]*status.Process{"one": {Version: "7.3.79"}, "other": {Version: test.version}}
		got, err := v.entries(test.of)
		if !slices.Equal(got, test.want) || (err == nil) != (test.want != nil) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestWordsOfCommands(t *testing.T) {
	for _, word := range []string{"10.0.0.2", "10.0.0.2:4500", "2001:db8::1", "::1", "[2001:db8::1]:4500", "locality_instance_id:storage-1"} {
		if got, err := commandOf("include", []string{"10.0.0.1", word}); err != nil || got != "include 10.0.0.1 "+word {
			t.Errorf("%q %v", got, err)
		}
	}
	for _, word := range []string{"", "a b", "a;kill", "fe80::1%eth0", "'a'", `a\x20b`, `"a"`, "--all", "a\nb", "[fe80::1%x; kill; kill all]:4500", strings.Repeat("a", 301)} {
		if got, err := commandOf("include", []string{"10.0.0.1", word}); !errors.Is(err, system.ErrTerminal) {
			t.Errorf("%q is written as %q: %v", word, got, err)
		}
	}
}

// A process whose address has a zone, or is for TLS, is no coordinator.
func TestProcessesThatAreNoCoordinators(t *testing.T) {
	v := &view{Status: &status.Status{}}
	v.Client.Coordinators.Coordinators = []status.Coordinator{{Address: "10.0.0.1:4500"}}
	for _, address := range []string{"[fe80::1%x; kill; kill all]:4500", "10.0.0.2:4500:tls"} {
		v.Cluster.Processes = map[string]*status.Process{"a": {Address: address, Class: "storage", Locality: map[string]string{"zoneid": "z"}}}
		if chosen, err := v.newCoordinators(nil, "", nil); err == nil {
			t.Errorf("%v", chosen)
		}
	}
}

// What is about to leave is a coordinator only where there are too few others, also where it is one now; and what is under maintenance, or excluded, never is.
func TestCoordinatorsThatAreAboutToLeave(t *testing.T) {
	for name, test := range map[string]struct {
		leaving, maintained, excluded, not string // numbers of processes; not: it leaves now
		want                               string // numbers of the new coordinators; "": there are too few
	}{
		"none":                              {not: "1", want: "234"},
		"one":                               {leaving: "4", not: "1", want: "235"},
		"one that is a coordinator":         {leaving: "2", not: "1", want: "345"},
		"one of too few":                    {leaving: "45", not: "1", want: "234"},
		"one of too few, the lowest is not": {leaving: "35", not: "1", want: "243"},
		"one under maintenance":             {maintained: "4", not: "1", want: "235"},
		"all but two are under maintenance": {maintained: "45", not: "1"},
		"one is excluded":                   {excluded: "4", not: "1", want: "235"},
		"one leaves, one is excluded":       {leaving: "5", excluded: "4", not: "1", want: "235"},
	} {
		t.Run(name, func(t *testing.T) {
			v := &view{Status: &status.Status{}}
			v.Cluster.Processes = map[string]*status.Process{}
			of := map[string][]*status.Process{}
			for n := range strings.SplitSeq("12345", "") {
				p := &status.Process{
					Address: "10.0.0." + n + ":4500", Class: "storage", Locality: map[string]string{"zoneid": "z" + n},
					Excluded: new(strings.Contains(test.excluded, n)), UnderMaintenance: strings.Contains(test.maintained, n),
				}
				v.Cluster.Processes[n] = p
				if n < "4" {
					v.Client.Coordinators.Coordinators = append(v.Client.Coordinators.Coordinators, status.Coordinator{Address: p.Address, Reachable: new(true)})
				}
				for what, is := range map[string]string{"leaving": test.leaving, "not": test.not} {
					if strings.Contains(is, n) {
						of[what] = append(of[what], p)
					}
				}
			}
			chosen, err := v.newCoordinators(of["not"], "", of["leaving"])
			got := strings.NewReplacer("10.0.0.", "", ":4500", "").Replace(strings.Join(chosen, ""))
			if got != test.want || (err == nil) != (test.want != "") {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
		})
	}
}

// Which are about to leave is known of the members: those that are to be replaced, and those whose pods are terminating.
func TestCoordinatorsAreNotPutOnWhatLeaves(t *testing.T) {
	for name, mark := range map[string]func(*system.Member){
		"marked":      func(m *system.Member) { m.Leaves = true },
		"terminating": func(m *system.Member) { m.Pod = &snapshot.Pod{Deletion: time.Unix(1, 0)} },
	} {
		v := &view{Status: &status.Status{}}
		p := &status.Process{Address: "10.0.0.1:4500", Locality: map[string]string{"instance_id": "a"}}
		v.Cluster.Processes = map[string]*status.Process{"1": p}
		r := &roster{}
		of := system.Member{MemberRef: v1alpha1.MemberRef{ID: "a"}}
		r.know([]system.Member{of})
		if got := r.leaving(v); len(got) != 0 {
			t.Errorf("%s: %v leave before", name, got)
		}
		mark(&of)
		r.know([]system.Member{of})
		if got := r.leaving(v); !slices.Equal(got, []*status.Process{p}) {
			t.Errorf("%s: %v leave", name, got)
		}
	}
}

// What cannot be written down is not excluded.
func TestJobsThatAreTooLong(t *testing.T) {
	v := &view{Status: &status.Status{}}
	var entries []string
	for i := range 17 {
		entries = append(entries, fmt.Sprintf("10.0.0.%d:4500", 10+i))
	}
	if job, err := v.jobOf(eviction.Preparation{}, entries[:16]); err != nil || len(job.ID) > longestJob {
		t.Errorf("%+v %v", job, err)
	}
	if job, err := v.jobOf(eviction.Preparation{}, entries); !errors.Is(err, system.ErrTerminal) {
		t.Errorf("%+v %v", job, err)
	}
}
