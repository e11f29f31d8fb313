package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// What the server would refuse is refused before it is asked, also by a dry run that does not ask it.
func TestMaintainRefusesWrongFlags(t *testing.T) {
	for args, want := range map[string]string{
		"n1 --requester anna":               `--requester "anna": give a domain and a name`,
		"n1 --requester Example.com/a":      `--requester "Example.com/a": give a domain and a name`,
		"n1 --hook reboot.example":          `--hook "reboot.example": give an http or https URL`,
		"n1 --hook ftp://reboot.example":    `--hook "ftp://reboot.example": give an http or https URL`,
		"n1 --hook http://":                 `--hook "http://": give an http or https URL`,
		"n1 --until boot --until-timeout 0": "--until-timeout=0s: give 1s or more",
		"n1 --until-timeout 5m":             "--until-timeout goes with --until",
		"-l a>1":                            `-l "a>1" is not a label selector`,
		"--delete node/n1":                  `"node/n1" is not a NodeMaintenance`,
		"--delete nodemaintenance/":         `"nodemaintenance/" is not a NodeMaintenance`,
	} {
		cmd := newMaintainCommand(genericclioptions.NewConfigFlags(false), genericiooptions.NewTestIOStreamsDiscard())
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(strings.Fields(args + " --dry-run=client"))
		if strings.HasPrefix(args, "--delete") {
			cmd.SetArgs(strings.Fields(args))
		}
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("usher maintain %s: %v, want %q", args, err, want)
		}
	}
}

func TestMaintainTakesSelectorsOfKubectl(t *testing.T) {
	for selector, want := range map[string]*metav1.LabelSelector{
		"pool=web": {MatchLabels: map[string]string{"pool": "web"}},
		"pool!=web,a": {MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "a", Operator: metav1.LabelSelectorOpExists}, {Key: "pool", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"web"}},
		}},
	} {
		flags := maintainFlags{selector: selector, daemonSets: "ignore", surge: "auto", atDeadline: "stop"}
		m, err := flags.maintenance(nil, "anna", time.Time{})
		if err != nil {
			t.Errorf("-l %s: %v", selector, err)
			continue
		}
		if diff := cmp.Diff(metav1.FormatLabelSelector(want), metav1.FormatLabelSelector(m.Spec.Nodes.Selector)); diff != "" {
			t.Errorf("-l %s: %s", selector, diff)
		}
	}
}
