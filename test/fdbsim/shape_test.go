package fdbsim_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"usher.sh/usher/test/fdbsim"
)

// shape is which paths a document has, and of which type what is there is.
type shape map[string]bool

// add takes in a value at a path. Processes have keys of their own.
func (s shape) add(t *testing.T, path string, value json.RawMessage) {
	t.Helper()
	var object map[string]json.RawMessage
	var list []json.RawMessage
	switch kind := typeOf(value); kind {
	case "object":
		if err := json.Unmarshal(value, &object); err != nil {
			t.Fatal(err)
		}
		s[path+": "+kind] = true
		for key, child := range object {
			if path == ".cluster.processes" {
				key = "*"
			}
			s.add(t, path+"."+key, child)
		}
	case "list":
		if err := json.Unmarshal(value, &list); err != nil {
			t.Fatal(err)
		}
		s[path+": "+kind] = true
		for _, child := range list {
			s.add(t, path+"[]", child)
		}
	default:
		s[path+": "+kind] = true
	}
}

func typeOf(value json.RawMessage) string {
	switch value[0] {
	case '{':
		return "object"
	case '[':
		return "list"
	case '"':
		return "string"
	case 't', 'f':
		return "bool"
	case 'n':
		return "null"
	}
	return "number"
}

// observed is the shape of the documents of real clusters, from where USHER_REAL_DATA points or from beside the project.
func observed(t *testing.T) shape {
	t.Helper()
	shared := filepath.Join("..", "..", "..", "shared", "data")
	if folder := os.Getenv("USHER_REAL_DATA"); folder != "" {
		shared = folder
	}
	files, err := filepath.Glob(filepath.Join(shared, "..", "foundationdb", "observed", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("SKIPPED, NOT TESTED: there are no status documents of real clusters beside the project (USHER_REAL_DATA)")
	}
	all := shape{}
	for _, file := range files {
		document, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.add(t, "", document)
	}
	return all
}

// Whatever the simulator says, a real cluster says at the same place and as the same type.
func TestDocumentsHaveTheShapeOfRealOnes(t *testing.T) {
	real := observed(t)
	for name, happens := range map[string]func(*fdbsim.Cluster){
		"healthy":    func(*fdbsim.Cluster) {},
		"recovering": func(c *fdbsim.Cluster) { c.Recover() },
		"recovered, and how the data is is not known": func(c *fdbsim.Cluster) { c.Recover(); c.Advance(5 * time.Second) },
		"excluded by an address":                      func(c *fdbsim.Cluster) { run(t, c, "exclude no_wait 10.0.0.15"); c.Advance(20 * time.Second) },
		"excluded by locality": func(c *fdbsim.Cluster) {
			run(t, c, "exclude no_wait locality_instance_id:p5")
			c.Advance(20 * time.Second)
		},
		"maintenance":        func(c *fdbsim.Cluster) { run(t, c, "maintenance on z5 1000") },
		"coordinators moved": func(c *fdbsim.Cluster) { run(t, c, "coordinators 10.0.0.12:4500 10.0.0.13:4500 10.0.0.14:4500") },
		"one down":           func(c *fdbsim.Cluster) { c.Kill("p5") },
		"copies are missing": func(c *fdbsim.Cluster) { c.Kill("p5"); c.Advance(70 * time.Second) },
		"one has just begun": func(c *fdbsim.Cluster) { c.Add("p6", "z6") },
		"no quorum":          func(c *fdbsim.Cluster) { c.Kill("p1"); c.Kill("p2"); c.Advance(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			c := fdbsim.New(5, 2)
			happens(c)
			compare(t, real, c)
		})
	}
	t.Run("no database", func(t *testing.T) { compare(t, real, fdbsim.NewUnformed(5, 2)) })
}

// run has a command run, and returns what it has written.
func run(t *testing.T, c *fdbsim.Cluster, command string) string {
	t.Helper()
	out, err := c.Run(t.Context(), c.ClusterFile(), command)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.Out+out.Err, "ERROR") {
		t.Fatal(command, out.Err)
	}
	return out.Out
}

func compare(t *testing.T, real shape, c *fdbsim.Cluster) {
	t.Helper()
	simulated := shape{}
	simulated.add(t, "", json.RawMessage(strings.TrimSpace(run(t, c, "status json"))))
	var others []string
	for path := range simulated {
		if !real[path] {
			others = append(others, path)
		}
	}
	slices.Sort(others)
	if len(others) > 0 {
		t.Errorf("no real cluster says:\n%s", strings.Join(others, "\n"))
	}
}
