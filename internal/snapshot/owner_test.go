package snapshot

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestOwnersAreNamedWhole: a client that creates an object may write any UID as its owner's, beside any name.
func TestOwnersAreNamedWhole(t *testing.T) {
	web := Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "web"}
	with := func(change func(*Owner)) Owner {
		o := web
		change(&o)
		return o
	}
	cases := map[string]struct {
		namespace string
		owner     Owner
		want      bool
	}{
		"its owner":                   {"shop", web, true},
		"… in a version of its group": {"shop", with(func(o *Owner) { o.APIVersion = "apps/v1beta2" }), true},
		"of another namespace":        {"tenant", web, false},
		"of another name":             {"shop", with(func(o *Owner) { o.Name = "api" }), false},
		"of another kind":             {"shop", with(func(o *Owner) { o.Kind = "StatefulSet" }), false},
		"of another group":            {"shop", with(func(o *Owner) { o.APIVersion = "example.com/v1" }), false},
		"of no group":                 {"shop", with(func(o *Owner) { o.APIVersion = "v1" }), false},
		"of another UID":              {"shop", with(func(o *Owner) { o.UID = "former" }), false},
		"nothing's":                   {"shop", Owner{}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			all := NewCluster()
			top := &Workload{Kind: "Deployment", Namespace: "shop", Name: "web", UID: "web"}
			set := &Workload{Kind: "ReplicaSet", Namespace: c.namespace, Name: "web-1", UID: "set", Owner: c.owner}
			p := &Pod{Namespace: c.namespace, Name: "web-1-a", UID: "p", Owner: c.owner}
			all.SetWorkload(top)
			all.SetWorkload(set)
			all.SetPod(p)
			if got := all.WorkloadOf(set.OwnerKey()) == top; got != c.want {
				t.Errorf("found by what it owns: %v, want %v", got, c.want)
			}
			if got := len(all.WorkloadsOf(top.AsOwner())) == 1; got != c.want {
				t.Errorf("it owns the ReplicaSet: %v, want %v", got, c.want)
			}
			if got := len(all.PodsOf(top.AsOwner())) == 1; got != c.want {
				t.Errorf("it owns the pod: %v, want %v", got, c.want)
			}
		})
	}
}

// TestWorkloadsAsOwners: as what the API writes into what they own.
func TestWorkloadsAsOwners(t *testing.T) {
	for kind, version := range map[string]string{
		"Deployment": "apps/v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1",
		"Job": "batch/v1", "ReplicationController": "v1",
	} {
		w := Workload{Kind: kind, Namespace: "shop", Name: "x", UID: "u"}
		if got, want := w.AsOwner(), (Owner{APIVersion: version, Kind: kind, Name: "x", UID: "u"}).In("shop"); got != want {
			t.Errorf("%s owns as %+v, want %+v", kind, got, want)
		}
	}
}

// Who may write an object gives it another owner again and again: of those before nothing is kept.
func TestFormerOwnersAreForgotten(t *testing.T) {
	c := NewCluster()
	owner := func(i int) Owner {
		return Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: types.UID(fmt.Sprint("of-web-", i))}
	}
	for i := range 20 {
		c.SetWorkload(&Workload{Kind: "ReplicaSet", Namespace: "shop", Name: "web-1", UID: "web-1", Owner: owner(i)})
		c.SetPod(&Pod{Namespace: "shop", Name: "web-1-1", UID: "web-1-1", Owner: owner(i)})
		if known, former := c.Knows(owner(i).In("shop")), c.Knows(owner(i-1).In("shop")); !known || former {
			t.Errorf("owner %d is known %t, the one before %t", i, known, former)
		}
	}
	if len(c.workloadsOf) != 1 || len(c.podsByOwner) != 1 {
		t.Errorf("%d owners of workloads and %d of pods are kept, want the present one", len(c.workloadsOf), len(c.podsByOwner))
	}
}
