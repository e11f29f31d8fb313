package foundationdb_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/foundationdb"
	"usher.sh/usher/test/fdbsim"
)

// otherwise is a site whose fdbcli is another program than the one that its cluster came with.
type otherwise struct {
	simulated

	program foundationdb.CLI
}

func (o otherwise) cli() foundationdb.CLI { return o.program }

// unreachable is fdbcli that gets no answer.
type unreachable struct{ *fdbsim.Cluster }

func (unreachable) Run(context.Context, string, string) (foundationdb.Output, error) {
	return foundationdb.Output{}, errors.New("fdbcli has not ended: context deadline exceeded")
}

// Without an fdbcli that the cluster answers nothing is asked of it for a set, and nothing is known of what its members have; what is wrong is a sentence.
func TestASetWithoutFDBCLI(t *testing.T) {
	for name, test := range map[string]struct {
		program func(c *fdbsim.Cluster) foundationdb.CLI
		version string
		says    string
	}{
		"none is given":      {func(*fdbsim.Cluster) foundationdb.CLI { return foundationdb.Program("") }, "", "the manager runs without fdbcli: usher install --fdbcli-image gives it that program (or --fdbcli its path)"},
		"it is not there":    {func(*fdbsim.Cluster) foundationdb.CLI { return foundationdb.Program("/nowhere/fdbcli") }, "", "running fdbcli: "},
		"of another version": {func(c *fdbsim.Cluster) foundationdb.CLI { return c }, "7.1.57", "the manager's fdbcli is of version 7.3.79, and the cluster runs 7.1.57"},
		"it gets no answer":  {func(c *fdbsim.Cluster) foundationdb.CLI { return unreachable{c} }, "", "fdbcli has not ended"},
	} {
		t.Run(name, func(t *testing.T) {
			sim := fdbsim.New(5, 2)
			b := newBenchOf(t, otherwise{simulated{sim}, test.program(sim)}, 5, v1alpha1.FoundationDB{Version: test.version, Redundancy: v1alpha1.RedundancyDouble})
			r := run{b, b.system.(system.Emptying)}
			says := func(what, missing string, err error) {
				t.Helper()
				if err == nil || missing != "" || !strings.Contains(err.Error(), test.says) {
					t.Errorf("%s: %q, %v", what, missing, err)
				}
			}
			_, err := r.set.Contents(t.Context(), r.members())
			says("the list", "", err)
			missing, err := r.set.Form(t.Context(), r.members())
			says("forming", missing, err)
			missing, err = r.set.Empty(t.Context(), r.member("p1"))
			says("emptying", missing, err)
			missing, err = r.set.Refill(t.Context(), r.member("p1"))
			says("refilling", missing, err)
			missing, err = r.set.Lead(t.Context())
			says("leading", missing, err)
			if commands := sim.Commands(); len(commands) > 0 {
				t.Errorf("the cluster was asked for %q", commands)
			}
		})
	}
}
