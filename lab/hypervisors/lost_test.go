package hypervisors

import (
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/await"
	lab "usher.sh/usher/lab/openstack"
	"usher.sh/usher/lab/testlab"
)

// aDeadHost takes the power of a host and its node, while managers are killed at random: once a person has said that it is off, its servers are evacuated once each, and
// what its agents of Neutron had is on living ones. When the host is back it gets servers again.
func (r *region) aDeadHost(t *testing.T) {
	states, things := r.four(t, "compute-1"), r.things(t)
	policy := &v1alpha1.LostNodePolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "racks"},
		Spec:       v1alpha1.LostNodePolicySpec{UnreachableAfter: metav1.Duration{Duration: time.Minute}, Fence: v1alpha1.Fence{Manual: &v1alpha1.ManualFence{}}},
	}
	must(t, r.client.Create(t.Context(), policy))
	t.Cleanup(func() { _ = r.client.Delete(t.Context(), policy) })
	boot := r.boots(t)
	r.silence(t)
	r.cloud.KillCompute(t, "compute-1")
	r.cloud.Silence(t, "compute-1", lab.AllAgents)
	r.waitFence(t, "the fence to wait for a person", func(f *v1alpha1.NodeFence) bool { return f.Status.Step == v1alpha1.FenceWaitingForConfirmation })
	for id := range states {
		if s := r.server(t, id); s.Host != "compute-1" || len(r.migrations(t, id)) > 0 {
			t.Fatalf("server %+v was moved before its host was proven off", s)
		}
	}
	stop := r.killAtRandom(t)
	r.succeeds(t, "fence", "compute-1", "--confirm")
	until(t, "all servers are elsewhere", func() bool { return len(r.on(t, "compute-1")) == 0 })
	for _, one := range things {
		until(t, one.kind+" "+one.id+" has a living agent", func() bool {
			for _, a := range r.holders(t, one) {
				if a.Alive && a.Up {
					return true
				}
			}
			return false
		})
	}
	stop()
	r.waitFence(t, "the node to be cleared", func(f *v1alpha1.NodeFence) bool { return f.Status.Step == v1alpha1.FenceWaitingForNewBoot })
	for id := range states {
		until(t, "server "+id+" is settled", func() bool { return r.server(t, id).Task == "" })
		if all := r.migrations(t, id); len(all) != 1 || all[0].Type != "evacuation" || all[0].Source != "compute-1" || all[0].Status != "done" {
			t.Errorf("server %s has the migrations %+v, want one evacuation", id, all)
		}
	}
	r.cloud.Revive(t, "compute-1", lab.AllAgents) // for which the start of a nova-compute waits
	r.cloud.StartCompute(t, "compute-1")
	r.revive(t, boot+"-new")
	r.waitPolicy(t, r.namespace, "everything to be given back", settled)
	until(t, "the host gets servers again", func() bool {
		s := r.service(t, "compute-1")
		return s.Status == "enabled" && !s.ForcedDown && s.State == "up"
	})
	for id := range states {
		if all := r.migrations(t, id); len(all) != 1 || all[0].Status != "completed" {
			t.Errorf("server %s has the migrations %+v after the host's return, want one that is completed", id, all)
		}
	}
	r.well(t, states, things...)
}

// boots is the boot id of the node.
func (r *region) boots(t *testing.T) string {
	t.Helper()
	node, err := r.lab.Client().CoreV1().Nodes().Get(t.Context(), "compute-1", metav1.GetOptions{})
	must(t, err)
	return node.Status.NodeInfo.BootID
}

// silence has the simulator of nodes leave the node alone, as if its machine had lost its power: another has its Lease.
func (r *region) silence(t *testing.T) {
	t.Helper()
	now := metav1.NowMicro().UTC().Format(metav1.RFC3339Micro)
	r.lease(t, `{"spec":{"holderIdentity":"none","leaseDurationSeconds":86400,"renewTime":"`+now+`"}}`)
}

// revive has it look after the node again, in another boot.
func (r *region) revive(t *testing.T, boot string) {
	t.Helper()
	_, err := r.lab.Client().CoreV1().Nodes().Patch(t.Context(), "compute-1", types.MergePatchType, []byte(`{"status":{"nodeInfo":{"bootID":"`+boot+`"}}}`), metav1.PatchOptions{}, "status")
	must(t, err)
	r.lease(t, `{"spec":{"holderIdentity":null,"leaseDurationSeconds":40}}`)
}

func (r *region) lease(t *testing.T, patch string) {
	t.Helper()
	_, err := r.lab.Client().CoordinationV1().Leases(corev1.NamespaceNodeLease).Patch(t.Context(), "compute-1", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	must(t, err)
}

func (r *region) waitFence(t *testing.T, what string, done func(*v1alpha1.NodeFence) bool) {
	t.Helper()
	var last *v1alpha1.NodeFence
	defer func() {
		if t.Failed() && last != nil {
			t.Logf("the fence's status is %+v", last.Status)
		}
	}()
	fences := await.Source[*v1alpha1.NodeFence]{Client: r.own, Resource: "nodefences"}
	testlab.WaitFor(t, fences, what, func(all []*v1alpha1.NodeFence) bool {
		for _, f := range all {
			if f.Spec.NodeName == "compute-1" {
				last = f
				return done(f)
			}
		}
		return false
	})
}

// killAtRandom kills one of the managers after another at random moments, and starts it again, until it is stopped. One that dies while it leads is followed after
// 15 s, so most are given more time than that.
func (r *region) killAtRandom(t *testing.T) (stop func()) {
	t.Helper()
	draw := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test's
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i = 1 - i {
			select {
			case <-done:
				return
			case <-time.After(time.Duration(1+draw.IntN(45)) * time.Second):
				r.managers.Kill(t, i)
				r.managers.Start(t, i)
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}
