// Package evictionrequest asks whether the eviction controllers do on a real apiserver what internal/evictionrequest decides: under
// Kubernetes' own API, whose validation judges every write, and under Usher's custom resources.
package evictionrequest

import (
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"usher.sh/usher/lab/binaries"
	"usher.sh/usher/lab/testlab"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // managers log to their tests
	testlab.Main(m)
}

type story struct {
	name string
	tell func(*testing.T, *rig)
	// kubernetesOnly is for what pods can only have where the cluster has the API.
	kubernetesOnly bool
}

// The story of another controller is the last: its traces stay for as long as its namespace, and ours stands down.
var stories = []story{
	{name: "whole life", tell: wholeLife},
	{name: "withdrawn and asked anew", tell: withdrawnAndAskedAnew},
	{name: "two requesters", tell: twoRequesters},
	{name: "same name, other pod", tell: sameNameOtherPod},
	{name: "restarted in between", tell: restartedInBetween},
	{name: "refused by a budget first", tell: refusedByABudgetFirst},
	{name: "responders that the pod names", tell: respondersOfThePod, kubernetesOnly: true},
	{name: "a responder's words", tell: respondersWords},
	{name: "DaemonSet", tell: daemonSet},
	{name: "refused writes", tell: refusedWrites},
	{name: "another responder", tell: anotherResponder},
	{name: "a forged controller", tell: forgedController},
	{name: "another controller", tell: anotherController, kubernetesOnly: true},
}

func TestKubernetesAPI(t *testing.T) {
	if !binaries.Chosen().EvictionRequestAPI {
		t.Skipf("SKIPPED, nothing was tested: %s does not serve lifecycle.k8s.io", binaries.Chosen().Release)
	}
	tellAll(t, testlab.Get(t), true)
}

func TestCustomResources(t *testing.T) {
	l := testlab.Start(t, testlab.WithoutEvictionRequestAPI())
	installCRDs(t, l)
	tellAll(t, l, false)
}

func tellAll(t *testing.T, l *testlab.Lab, kubernetes bool) {
	t.Helper()
	l.Nodes(t, 1) // for all: a scheduler that is behind would bind a pod of one story to the deleted node of the last
	for _, s := range stories {
		if s.kubernetesOnly && !kubernetes {
			continue
		}
		t.Run(s.name, func(t *testing.T) { s.tell(t, newRig(t, l)) })
	}
}
