package act

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/rest"
)

// hanging is a system that takes back nothing until its caller's time is over.
type hanging struct{ calls atomic.Int32 }

func (h *hanging) Observe(context.Context, []system.Member) (*eviction.Evidence, error) {
	return &eviction.Evidence{}, nil
}

func (h *hanging) Prepare(ctx context.Context, _ eviction.Preparation) (eviction.Job, error) {
	h.calls.Add(1)
	<-ctx.Done()
	return eviction.Job{}, ctx.Err()
}

func (h *hanging) Undo(ctx context.Context, step eviction.Preparation) (eviction.Undone, error) {
	_, err := h.Prepare(ctx, step)
	return eviction.Undone{}, err
}

func (h *hanging) Close() {}

// patientWorld has a policy whose system has half a minute to answer. It is made outside of bubbles: it makes channels.
func patientWorld(t *testing.T) (*Governed, *v1alpha1.EvictionPolicy) {
	t.Helper()
	g := governedWorld(t)
	policy := g.stored(t)
	policy.Spec.System.HTTP = &v1alpha1.HTTP{Access: v1alpha1.Access{Endpoints: []string{"http://db:1"}}}
	policy.Spec.Evidence.Timeout.Duration = 30 * time.Second
	if err := g.Client.Update(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	return g, policy
}

// hang makes every system one that does not answer.
func (g *Governed) hang() *hanging {
	h := &hanging{}
	kind := func(*v1alpha1.System) (system.Kind, bool) {
		kind := rest.Kind()
		kind.Open = func(*v1alpha1.System, system.Access) (system.System, error) { return h, nil }
		return kind, true
	}
	g.Policies = policycache.New(g.Client, kind, nil)
	g.Observer = policycache.NewObserver(policycache.ObserverConfig{Kind: kind, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	return h
}

// A worker does not wait for a tenant's system, whatever is asked of it; calls for one step do not overlap, and a namespace has so many
// at a time.
func TestHangingSystemKeepsNoWorker(t *testing.T) {
	g, policy := patientWorld(t)
	synctest.Test(t, func(t *testing.T) {
		h := g.hang()
		var answered atomic.Int32
		g.Answered = func(*v1alpha1.EvictionPolicy) { answered.Add(1) }
		undo := func(n int) answers.Answer {
			return g.Do(t.Context(), eviction.Action{Kind: eviction.Undo, Policy: policyKey, Step: eviction.Preparation{
				Name: "Empty", Member: v1alpha1.MemberRef{ID: fmt.Sprint("m", n), PodUID: types.UID(fmt.Sprint("u", n))}, Asked: time.Now(),
			}})
		}
		began := time.Now()
		for n := range callsEach {
			wantCode(t, undo(n), answers.Accepted)
		}
		synctest.Wait()
		wantCode(t, undo(0), answers.Accepted) // the last one goes on
		wantCode(t, undo(callsEach), answers.Unavailable)
		if under := g.UnderWay(policy); len(under) != callsEach || under[0].Name != "Empty" {
			t.Errorf("under way: %v", under)
		}
		if h.calls.Load() != callsEach || time.Since(began) > 0 {
			t.Errorf("%d calls, and the worker waited %s", h.calls.Load(), time.Since(began))
		}
		<-time.After(31 * time.Second)
		synctest.Wait()
		if under := g.UnderWay(policy); len(under) > 0 {
			t.Errorf("under way although all were answered: %v", under)
		}
		if answered.Load() != callsEach {
			t.Errorf("%d answers were reported, want %d", answered.Load(), callsEach)
		}
		wantCode(t, undo(callsEach), answers.Accepted)
		<-time.After(31 * time.Second)
	})
}

// A system acts on members: a call for the pod that a member had is not overtaken by one for the pod that it has.
func TestCallsForOneMemberDoNotOverlap(t *testing.T) {
	g, _ := patientWorld(t)
	synctest.Test(t, func(t *testing.T) {
		h := g.hang()
		g.Answered = func(*v1alpha1.EvictionPolicy) {}
		ask := func(kind eviction.ActionKind, member string, pod types.UID) {
			step := eviction.Preparation{Name: "Empty", Member: v1alpha1.MemberRef{ID: member, PodUID: pod}, Asked: time.Now()}
			wantCode(t, g.Do(t.Context(), eviction.Action{Kind: kind, Policy: policyKey, Step: step}), answers.Accepted)
			synctest.Wait()
		}
		ask(eviction.Undo, "m", "former")
		ask(eviction.Undo, "m", "back")
		ask(eviction.Prepare, "m", "back")
		if n := h.calls.Load(); n != 1 {
			t.Errorf("%d calls for one step of a member at a time", n)
		}
		ask(eviction.Prepare, "other", "other")
		if n := h.calls.Load(); n != 2 {
			t.Errorf("%d calls, want one for each member", n)
		}
		<-time.After(31 * time.Second)
		ask(eviction.Prepare, "m", "back")
		if n := h.calls.Load(); n != 3 {
			t.Errorf("%d calls, want another once the last has ended", n)
		}
		<-time.After(31 * time.Second)
	})
}

// A step of a pod that is gone is undone for another pod of its member, so what the system says of that is not forgotten.
func TestRepliesAreKeptForAMember(t *testing.T) {
	policy := &v1alpha1.EvictionPolicy{}
	policy.UID = "policy"
	policy.Status.Preparations = []v1alpha1.PreparationStatus{{Name: "Empty", MemberRef: v1alpha1.MemberRef{ID: "m", PodUID: "former"}}}
	g := &Governed{}
	for _, ref := range []v1alpha1.MemberRef{{ID: "m", PodUID: "back"}, {ID: "other", PodUID: "other"}} {
		g.receive(policy, eviction.Reply{Step: eviction.Preparation{Name: "Empty", Member: ref}, Undo: true, Done: true}, nil)
	}
	if got := g.Replies(policy); len(got) != 1 || got[0].Step.Member.PodUID != "back" {
		t.Errorf("kept: %+v", got)
	}
}

// What a system said is not forgotten by a reader that does not know yet that it was asked: it may be the id of the step's own job.
func TestRepliesOutliveAnOlderVersion(t *testing.T) {
	version := func(version string, steps ...v1alpha1.PreparationStatus) *v1alpha1.EvictionPolicy {
		policy := &v1alpha1.EvictionPolicy{}
		policy.UID, policy.ResourceVersion, policy.Status.Preparations = "policy", version, steps
		return policy
	}
	begun := version("10", v1alpha1.PreparationStatus{Name: "Empty", MemberRef: v1alpha1.MemberRef{ID: "m", PodUID: "pod"}})
	g := &Governed{}
	g.receive(begun, eviction.Reply{Step: eviction.Preparation{Name: "Empty", Member: v1alpha1.MemberRef{ID: "m", PodUID: "pod"}}, Job: eviction.Job{ID: "7"}}, nil)
	for _, read := range []struct {
		policy *v1alpha1.EvictionPolicy
		want   int
	}{{version("8"), 0}, {version("9", begun.Status.Preparations...), 1}, {begun, 1}, {version("11"), 0}, {begun, 0}} {
		if got := g.Replies(read.policy); len(got) != read.want {
			t.Errorf("by version %s: %+v, want %d", read.policy.ResourceVersion, got, read.want)
		}
	}
}
