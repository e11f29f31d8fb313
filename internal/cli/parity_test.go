package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	usherdrain "usher.sh/usher/internal/drain"
)

type flagShape struct{ Type, Default, Short, Bare string }

// kubectlDrain are the flags of kubectl drain 1.37 (k8s.io/kubectl, pkg/cmd/drain and
// the helpers of pkg/cmd/util), as they declare themselves. The package is not
// imported: it would bring all of kubectl into the module.
var kubectlDrain = map[string]flagShape{
	"force":                        {"bool", "false", "", "true"},
	"ignore-daemonsets":            {"bool", "false", "", "true"},
	"delete-emptydir-data":         {"bool", "false", "", "true"},
	"grace-period":                 {"int", "-1", "", ""},
	"timeout":                      {"duration", "0s", "", ""},
	"pod-selector":                 {"string", "", "", ""},
	"disable-eviction":             {"bool", "false", "", "true"},
	"skip-wait-for-delete-timeout": {"int", "0", "", ""},
	"chunk-size":                   {"int64", "500", "", ""},
	"dry-run":                      {"string", "none", "", "unchanged"},
	"selector":                     {"string", "", "l", ""},
}

func TestDrainTakesEveryFlagOfKubectl(t *testing.T) {
	root := newCommand("usher", genericiooptions.NewTestIOStreamsDiscard())
	drain, _, err := root.Find([]string{"drain"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range kubectlDrain {
		f := drain.Flags().Lookup(name)
		if f == nil {
			t.Errorf("no --%s", name)
			continue
		}
		if diff := cmp.Diff(want, flagShape{f.Value.Type(), f.DefValue, f.Shorthand, f.NoOptDefVal}); diff != "" {
			t.Errorf("--%s (-kubectl +usher):\n%s", name, diff)
		}
	}
}

func TestDryRunMeansWhatItMeansToKubectl(t *testing.T) {
	for value, want := range map[string]string{
		"none": dryRunNone, "client": dryRunClient, "server": dryRunServer, "unchanged": dryRunClient,
		"true": dryRunClient, "false": dryRunNone, "1": dryRunClient, "0": dryRunNone,
	} {
		var warnings strings.Builder
		if got, err := dryRunOf(&warnings, value); got != want || err != nil {
			t.Errorf("--dry-run=%s means %q (%v), want %q", value, got, err, want)
		}
		deprecated := value != want
		if (warnings.Len() > 0) != deprecated || deprecated && !strings.HasSuffix(warnings.String(), "write --dry-run="+want+"\n") {
			t.Errorf("--dry-run=%s: said %q", value, &warnings)
		}
	}
	_, err := dryRunOf(io.Discard, "maybe")
	wantError(t, err, "it can be none, client, server")
}

// A user who knows the flag of one command knows that of all.
func TestDryRunIsTheSameInEveryCommand(t *testing.T) {
	root, found := newCommand("usher", genericiooptions.NewTestIOStreamsDiscard()), 0
	for _, cmd := range root.Commands() {
		f := cmd.Flags().Lookup("dry-run")
		if f == nil {
			continue
		}
		found++
		if diff := cmp.Diff(kubectlDrain["dry-run"], flagShape{f.Value.Type(), f.DefValue, f.Shorthand, f.NoOptDefVal}); diff != "" {
			t.Errorf("%s (-kubectl +usher):\n%s", cmd.Name(), diff)
		}
	}
	if found != 5 {
		t.Errorf("%d commands have --dry-run, want drain, maintain, replace, install and uninstall", found)
	}
}

// A dry run of --revert is refused before anything is read.
func TestRevertHasNoDryRun(t *testing.T) {
	const refused = "--revert has no dry run"
	for value, want := range map[string]string{
		"": refused, "=true": refused, "=client": refused, "=server": refused,
		"=maybe": "--dry-run=maybe is not known", "=none": "no cluster is configured", "=false": "no cluster is configured",
	} {
		got := usher(t, "", "drain", "--revert", "--dry-run"+value)
		if got.code != exitUsage || got.out != "" || !strings.Contains(got.err, "error: "+want) {
			t.Errorf("--dry-run%s: exit %d, stdout %q, stderr %q; want 1 and %q", value, got.code, got.out, got.err, want)
		}
	}
	const plan = "usher --context=lab plan NODE shows what killed drains left"
	if got := usher(t, "", "drain", "--revert", "--dry-run=client", "--context=lab"); !strings.Contains(got.err, plan) {
		t.Errorf("no %q in %q", plan, got.err)
	}
}

func TestCommandLineCanBeTypedAgain(t *testing.T) {
	here := func(name string) usherdrain.NodeStatus {
		return usherdrain.NodeStatus{Name: name, State: usherdrain.NodeBlocked}
	}
	missing := func(name string) usherdrain.NodeStatus {
		return usherdrain.NodeStatus{Name: name, State: usherdrain.NodeMissing}
	}
	flags := []string{"--force", "--reason=new disk, it's due", "--deadline=2m", "--timeout=5s", "--token=secret", "--context=lab", "--grace-period", "3"}
	const words = ` --force --reason='new disk, it'\''s due' --context=lab --grace-period=3`
	tests := []struct {
		name  string
		args  []string
		nodes []usherdrain.NodeStatus
		want  string
	}{
		{"named", []string{"a", "node/b"}, []usherdrain.NodeStatus{here("a"), here("b")}, "usher drain a node/b" + words},
		{"one was deleted", []string{"node/a", "b"}, []usherdrain.NodeStatus{missing("a"), here("b")}, "usher drain b" + words},
		{"all were deleted", []string{"a", "b"}, []usherdrain.NodeStatus{missing("a"), missing("b")}, ""},
		{"by label", []string{"-l", "pool=spot"}, []usherdrain.NodeStatus{missing("a"), here("b")}, "usher drain --selector=pool=spot" + words},
		{"by label, and all were deleted", []string{"-l", "pool=spot"}, []usherdrain.NodeStatus{missing("a"), missing("b")}, ""},
	}
	for _, tt := range tests {
		root := newCommand("usher", genericiooptions.NewTestIOStreamsDiscard())
		drain, _, err := root.Find([]string{"drain"})
		if err != nil {
			t.Fatal(err)
		}
		if err := drain.ParseFlags(append(tt.args, flags...)); err != nil {
			t.Fatal(err)
		}
		typed := typed{command: "usher drain", args: drain.Flags().Args(), flags: drain.Flags()}
		if diff := cmp.Diff(tt.want, typed.resumeCommand(tt.nodes)); diff != "" {
			t.Errorf("%s:\n%s", tt.name, diff)
		}
	}
}
