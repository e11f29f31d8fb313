package status_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"usher.sh/usher/internal/system/foundationdb/status"
)

// documents reads the status documents of real clusters, from where USHER_REAL_DATA points or from beside the project.
func documents(t testing.TB) map[string][]byte {
	t.Helper()
	shared := filepath.Join("..", "..", "..", "..", "..", "shared", "data")
	if folder := os.Getenv("USHER_REAL_DATA"); folder != "" {
		shared = folder
	}
	all := map[string][]byte{}
	for _, pattern := range []string{filepath.Join(shared, "foundationdb", "*.json"), filepath.Join(shared, "..", "foundationdb", "observed", "*.json")} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all[strings.TrimSuffix(filepath.Base(file), ".json")] = data
		}
	}
	return all
}

// What every document of a real cluster is good for. A document without an entry fails.
func TestDocumentsOfRealClusters(t *testing.T) {
	type expected struct {
		problem     string // of the status; "": it is complete
		notTolerant string // "": the cluster stands what its redundancy promises
		processes   int
		excluded    []string // instance ids
		holding     []string // those of them that have data by their roles
	}
	wanted := map[string]expected{
		"healthy":                      {processes: 5},
		"healthy_with_data":            {processes: 5},
		"healthy_triple_8":             {processes: 8},
		"status_7_1":                   {processes: 8},
		"excluding_just_set":           {notTolerant: "how many copies of the data there are is not known yet (state of the data: initializing)", processes: 5, excluded: []string{"p4"}, holding: []string{"p4"}},
		"excluding":                    {processes: 5, excluded: []string{"p4"}, holding: []string{"p4"}},
		"excluded":                     {processes: 5, excluded: []string{"p5"}},
		"excluded_by_locality":         {processes: 5, excluded: []string{"p4"}},
		"excluding_second_coordinator": {problem: "the status is not complete", notTolerant: "the status is not complete", processes: 5, excluded: []string{"p1", "p4"}, holding: []string{"p1"}},
		"excluded_three_of_five":       {notTolerant: "how many copies", processes: 4, excluded: []string{"p1", "p4"}, holding: []string{"p1"}},
		"exclusions_without_process":   {processes: 8},
		"excluded_long_dead":           {processes: 5},
		"one_process_down":             {notTolerant: "coordinators that cannot be reached: 127.0.0.13:4503", processes: 4},
		"process_down_exclude_refused": {notTolerant: "how many copies", processes: 5},
		"maintenance":                  {notTolerant: "how many copies", processes: 5},
		"maintenance_process_down":     {notTolerant: "how many copies", processes: 4},
		// All copies seem to be there while the zone of the dead process is under maintenance.
		"maintenance_process_down_60s": {notTolerant: "0 zones may fail without a loss of data, and 1 must be able to", processes: 5},
		"triple_two_down":              {notTolerant: "how many copies", processes: 6},
		"triple_four_down":             {notTolerant: "how many copies", processes: 4},
		"coordinators_majority_down":   {problem: "a quorum of the coordinators cannot be reached", notTolerant: "a quorum"},
		"status_unreachable":           {problem: "the status is not complete", notTolerant: "the status is not complete", processes: 25},
	}
	all := documents(t)
	if len(all) == 0 {
		t.Skip("SKIPPED, NOT TESTED: there are no status documents of real FoundationDB clusters (set USHER_REAL_DATA)")
	}
	for name, data := range all {
		t.Run(name, func(t *testing.T) {
			want, ok := wanted[name]
			if !ok {
				t.Fatal("what it is good for is not in the table")
			}
			s, err := status.Parse(data)
			if err != nil {
				t.Fatal(err)
			}
			begins(t, "problem", s.Problem(), want.problem)
			begins(t, "tolerance", s.NotTolerant(""), want.notTolerant)
			if len(s.Processes()) != want.processes {
				t.Errorf("%d processes, want %d", len(s.Processes()), want.processes)
			}
			var excluded, holding []string
			for _, p := range s.Processes() {
				if p.IsExcluded() {
					excluded = append(excluded, p.Instance())
					if len(s.ExclusionsOf(p)) == 0 {
						t.Errorf("%s is excluded by nothing of %v", p.Instance(), s.Exclusions())
					}
					if p.HasData() {
						holding = append(holding, p.Instance())
					}
				}
			}
			slices.Sort(excluded)
			slices.Sort(holding)
			if !slices.Equal(excluded, want.excluded) || !slices.Equal(holding, want.holding) {
				t.Errorf("excluded are %v, with data %v", excluded, holding)
			}
		})
	}
}

// begins compares what was said with how it must begin; "" with all of it.
func begins(t *testing.T, what, said, want string) {
	t.Helper()
	if want == "" && said != "" || !strings.HasPrefix(said, want) {
		t.Errorf("%s: %q, want %q", what, said, want)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"client":{},"cluster":{"processes":{"a":null,"b":{"address":"[::1]:4500:tls","roles":[{"role":"log"}]}},"fault_tolerance":{}}}`))
	f.Add([]byte(`{"client":{"coordinators":{"quorum_reachable":true}},"cluster":{"processes":[]}}`))
	f.Add([]byte("Unable to communicate with the cluster\n{}"))
	for _, data := range documents(f) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := status.Parse(data)
		if err != nil {
			if strings.Contains(err.Error(), "\n") || len(err.Error()) > 500 {
				t.Errorf("the sentence is %q", err)
			}
			return
		}
		if s.Problem() != "" && (s.NotTolerant("") == "" || s.Unsettled(0) == "") {
			t.Error("something is built on a status of which nothing can be")
		}
		for _, p := range s.Processes() {
			_ = s.Zones([]*status.Process{p})
			_ = s.IsCoordinator(p)
			if len(s.Of(p.Instance(), p.IP())) == 0 && p.Instance() != "" {
				t.Errorf("%q is not found by its own id", p.Instance())
			}
		}
	})
}
