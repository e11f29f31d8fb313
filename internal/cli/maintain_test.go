package cli

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/observe"
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
		"n1 --until /x=True":                "--until \"/x=True\" is not known",
		"n1 --until -Ready=True":            "--until \"-Ready=True\" is not known",
		"n1 --replace-members":              "--replace-members goes with --delete-nodes",
		"-l a>1":                            `-l "a>1" is not a label selector`,
		"n1 --timeout=-5s":                  "--timeout is negative",
		"--delete n1 --timeout=-5s":         "--timeout is negative",
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

func TestMaintainDeletesNodes(t *testing.T) {
	for members, flags := range map[v1alpha1.MemberHandling]maintainFlags{
		v1alpha1.MembersKeep: {deleteNodes: true}, v1alpha1.MembersReplace: {deleteNodes: true, replaceMembers: true},
	} {
		m, err := flags.maintenance([]string{"n1"}, "anna", time.Time{})
		if err != nil || m.Spec.WhenDrained.DeleteNode == nil || m.Spec.WhenDrained.DeleteNode.Members != members || m.Spec.WhenDrained.KeepCordoned != nil {
			t.Errorf("%+v, %v; want that members are dealt with: %s", m.Spec.WhenDrained, err, members)
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

// A server that does not answer is waited for no longer than the timeout, whatever comes first.
func TestMaintainTimeoutOfAServerThatDoesNotAnswer(t *testing.T) {
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-ended }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(ended) })
	for _, args := range [][]string{{"maintain", "n1"}, {"maintain", "-l", "a=b"}, {"maintain", "--delete", "n1"}} {
		got := usher(t, "", append(args, "--timeout=50ms", "--server="+server.URL)...)
		if got.code != exitLate || !strings.Contains(got.err, "timed out after 50ms (--timeout)") {
			t.Errorf("%v: exit %d, stderr %q", args, got.code, got.err)
		}
	}
}

// Where the cluster has no NodeMaintenances, ending one says what brings them, and does not take it for one that is gone.
func TestMaintainWithoutTheAPI(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	got := usher(t, "", "maintain", "--delete", "n1", "--server="+server.URL)
	if got.code != exitUsage || !strings.Contains(got.err, "install --maintenance brings them") {
		t.Errorf("exit %d, stderr %q", got.code, got.err)
	}
}

// A maintenance is followed no longer once it is blocked and no node of it goes on; nodes that are kept do not.
func TestMaintenanceIsStalled(t *testing.T) {
	kept := []v1alpha1.MaintainedNode{{Name: "n1", Step: v1alpha1.StepDrained}}
	for name, c := range map[string]struct {
		status v1alpha1.NodeMaintenanceStatus
		want   bool
	}{
		"nothing in work":          {v1alpha1.NodeMaintenanceStatus{Counts: v1alpha1.NodeCounts{Planned: 1}}, true},
		"a node is drained":        {v1alpha1.NodeMaintenanceStatus{Counts: v1alpha1.NodeCounts{Draining: 1, Blocked: 1}}, false},
		"a node is kept":           {v1alpha1.NodeMaintenanceStatus{Counts: v1alpha1.NodeCounts{Drained: 1, Blocked: 1}, Nodes: kept}, true},
		"another is waited for":    {v1alpha1.NodeMaintenanceStatus{Counts: v1alpha1.NodeCounts{Drained: 2}, Nodes: kept}, false},
		"kept, and cannot be kept": {v1alpha1.NodeMaintenanceStatus{Counts: v1alpha1.NodeCounts{Drained: 1, Blocked: 1}, Nodes: []v1alpha1.MaintainedNode{{Step: v1alpha1.StepDrained, Blocked: true}}}, false},
	} {
		c.status.Conditions = []metav1.Condition{{Type: "Stalled", Status: metav1.ConditionTrue}}
		if got := stalled(&v1alpha1.NodeMaintenance{Status: c.status}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// That the server has answered is known to the client of maintenances as well: a slow webhook is no server that has not answered yet.
func TestMaintainKnowsThatTheServerHasAnswered(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	flags := genericclioptions.NewConfigFlags(false)
	flags.APIServer = &server.URL
	conn, err := connect(flags, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	o := &maintainOptions{IOStreams: genericiooptions.NewTestIOStreamsDiscard(), config: flags}
	objects, err := o.objects(conn, rest.NoWarnings{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (observe.Maintenances{Client: objects}).Get(t.Context(), "n1"); err == nil || !conn.clock.Answered() {
		t.Errorf("%v; an answer has come: %t", err, conn.clock.Answered())
	}
}

func TestMaintainRefused(t *testing.T) {
	denied := apierrors.NewForbidden(schema.GroupResource{Group: "usher.sh", Resource: "nodemaintenances"}, "n1", errors.New("x"))
	denied.ErrStatus.Message = `admission webhook "maintenance.usher.sh" denied the request: system:serviceaccount:ci:bot may not delete pods in all namespaces, and this NodeMaintenance has Usher do so: it needs that right, or has to be created by a user or controller that has it`
	const want = "; ask an administrator for: kubectl create clusterrole node-maintainer-pods --verb=delete --resource=pods --dry-run=client -o yaml | kubectl apply -f - && " +
		"kubectl create clusterrolebinding node-maintainer-pods-ci:bot --clusterrole=node-maintainer-pods --serviceaccount=ci:bot --dry-run=client -o yaml | kubectl apply -f -"
	if err := maintainRefused("creating NodeMaintenance n1", denied); !strings.HasSuffix(err.Error(), want) {
		t.Errorf("it says %v", err)
	}
}
