package replacement

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"usher.sh/usher/api/v1alpha1"
)

// writers are the pods whose processes write to a volume.
func (c *cluster) writers(to string) (all []types.UID) {
	for _, m := range c.nodes {
		for uid, v := range m.processes {
			if v == to {
				all = append(all, uid)
			}
		}
	}
	return all
}

// old is the predecessor's volume; "": it has none.
func (c *cluster) old() string {
	switch {
	case len(c.progress.Claims) > 0:
		return c.progress.Claims[0].Volume
	case c.bare && c.progress.PodUID != "":
		return "of " + string(c.progress.PodUID)
	}
	return ""
}

// whole reports whether nothing that belongs to the predecessor has been taken away.
func (c *cluster) whole() bool {
	listed := c.progress.LeftTime.IsZero() && (c.list.Order != LeavesFirst || c.list.Left == No)
	if c.bare {
		return listed && (c.list.Order == LeavesFirst || c.list.Order == BySteps)
	}
	return listed && c.claim != nil && !c.claim.terminating && c.claim.uid == c.progress.Claims[0].UID
}

// carryOut does what follows from a look. The process may end after any action.
func (c *cluster) carryOut(actions []Action) {
	for _, a := range actions {
		if old := c.old(); a.Kind != Write && a.Kind != Permit && a.Kind != Release && a.Kind != RetainVolume && a.Kind != Join && (a.Kind != Leave || c.list.Order != LeavesLast) && !c.expelled() && old != "" && len(c.writers(old)) > 0 {
			c.t.Fatalf("%s while %v write to the predecessor's volume", a.Kind, c.writers(old))
		}
		if a.Kind != Write && a.Kind != Permit && a.Kind != Release && a.Kind != RetainVolume && c.permit.IsZero() {
			c.t.Fatalf("%s without a permit", a.Kind)
		}
		if v := c.volumes[c.old()]; (a.Kind == DeletePod || a.Kind == DeleteClaim) && c.request.Retain && v != nil && !v.gone && !v.retained {
			c.t.Fatalf("%s before the volume of the predecessor is retained", a.Kind)
		}
		if a.Kind == Release && (c.progress.Phase == Joining || c.progress.Phase == Removing) {
			c.t.Fatalf("the permit is taken back while the member is %s", c.progress.Phase)
		}
		if lost := a.Kind == Leave || a.Kind == DeleteClaim; lost && c.whole() && (len(c.held()) > 0 || c.request.Cancelled) {
			c.t.Fatalf("%s is the first thing that is lost, and by now rules that are not given up do not pass (%v), or it is cancelled (%t)", a.Kind, c.held(), c.request.Cancelled)
		}
		if removes := a.Kind == DeleteClaim || a.Kind == DeletePod; removes && c.list.Order == BySteps && c.progress.Phase == Removing && c.progress.LeftTime.IsZero() {
			c.t.Fatalf("%s before the member has left", a.Kind)
		}
		switch a.Kind {
		case Permit:
			c.permit = c.now
		case Release:
			c.permit = time.Time{}
		case Write:
			if a.Progress.Phase == Removing && c.permit.IsZero() {
				c.t.Fatalf("it begins without a permit")
			}
			c.written(&a.Progress)
		case Leave:
			if a.Registration == nil || a.Registration.ID != "old" {
				c.t.Fatalf("%+v leaves", a.Registration)
			}
			if c.list.Order == LeavesLast && c.list.Joined != Yes {
				c.t.Fatalf("the predecessor leaves before its successor has joined")
			}
			if c.list.Order == BySteps && len(c.writers(string(c.joined))) > 0 {
				c.t.Fatalf("the member that runs with volume %s is taken off", c.joined)
			}
			if c.list.Left = Yes; c.list.Order != LeavesLast {
				c.joined = ""
			}
			if c.list.Order == LeavesFirst {
				c.list.Member = nil
			}
		case RetainVolume:
			c.volumes[a.Name].retained = true
		case DeleteClaim:
			if c.claim != nil && c.claim.uid == a.UID {
				c.claim.terminating = true
			}
		case DeletePod:
			if c.pod != nil && c.pod.uid == a.UID {
				c.pod.terminating = true
			}
		case Join:
			c.join(a.Registration)
		case Patch, Undo:
			c.t.Fatalf("%s, and a StatefulSet makes the successor", a.Kind)
		}
		if rapid.IntRange(0, 4).Draw(c.t, "killed") == 0 {
			return
		}
	}
}

// written takes note of progress: that the member has left is never written before it has, nor forgotten.
func (c *cluster) written(next *Progress) {
	before := c.progress.LeftTime
	if before.IsZero() && !next.LeftTime.IsZero() && c.list.Left != Yes {
		c.t.Fatalf("it is written down that the member has left, and its system has it")
	}
	if !before.IsZero() && !next.LeftTime.Equal(before) {
		c.t.Fatalf("it is forgotten that the member has left: %+v", next)
	}
	c.progress = *next
}

// expelled reports whether what the predecessor writes is nothing to its system any more.
func (c *cluster) expelled() bool { return c.list.Order == LeavesFirst && c.list.Left == Yes }

// join adds the successor without a part, and gives it one once it runs.
func (c *cluster) join(old *v1alpha1.MemberRegistration) {
	switch {
	case old == nil || old.ID != "old" || c.list.Order == LeavesLast || c.list.Order == LeavesFirst && c.list.Left != Yes:
		c.t.Fatalf("the successor of %+v joins before that has left", old)
	case c.list.Successor == nil && c.list.Order == LeavesFirst:
		c.list.Successor = &v1alpha1.MemberRegistration{ID: "new"}
		c.list.Member = c.list.Successor
	case c.pod == nil || c.pod.node == "" || c.volume() == "":
		c.t.Fatalf("a successor that is nowhere gets its part")
	case c.progress.NodeUID != "" && c.nodes[c.pod.node].uid == c.progress.NodeUID && !c.request.Cancelled:
		c.t.Fatalf("a successor on its predecessor's node gets its part")
	case len(c.nodes[c.pod.node].processes) > 0:
		c.list.Joined, c.joined = Yes, types.UID(c.volume())
	}
}

// check is about what must hold at any time.
func (c *cluster) check() {
	if old := c.old(); old != "" && c.request.Retain && !c.bare && c.volumes[old].gone && !c.foreign {
		c.t.Fatalf("the volume of the predecessor was destroyed, and it was to be retained")
	}
	if c.progress.Phase != Complete {
		return
	}
	if old := c.old(); old != "" && c.claim != nil && c.claim.volume == old {
		c.t.Fatalf("the replacement is complete, and the member has its old volume")
	}
	if c.list.Order != "" && (c.list.Order != BySteps && c.list.Left != Yes || c.list.Joined != Yes) {
		c.t.Fatalf("the replacement is complete, and the system's list is as it was: %+v", c.list)
	}
}

func (c *cluster) step() StepResult {
	result := Step(c.input())
	c.carryOut(result.Actions)
	c.check()
	return result
}

// TestPropertyStep has machines lose power and their network, be proven off, come back and be deleted, and pods be deleted by force, while a
// member, which sometimes has no claim, is replaced by a process that is killed again and again. Nothing of a member that may still write is removed, and no volume that
// is to be kept is lost; what a person gives up are the rules that are named, and nothing else. When nothing more happens, it ends, or says what it waits for.
func TestPropertyStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCluster(t, rapid.IntRange(0, 2).Draw(t, "bare") == 0)
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			c.happen()
			if rapid.Bool().Draw(t, "look") {
				c.step()
			}
		}
		var last StepResult
		for range 60 {
			c.controllers()
			c.now = c.now.Add(time.Minute)
			c.orphans()
			if last = c.step(); c.progress.Phase.Over() && c.permit.IsZero() {
				return
			}
		}
		if len(last.Blockers) == 0 {
			t.Fatalf("it has not ended (%q), and says nothing: %+v of %+v", c.progress.Phase, last, c.input())
		}
	})
}

// TestPropertyStepEnds is about a member whose machine is proven off: it is replaced.
func TestPropertyStepEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCluster(t, false)
		m := c.nodes[c.pod.node]
		m.power, m.reports, m.proven = false, false, true
		clear(m.processes)
		old := c.claim.volume
		c.volumes[old].node = c.pod.node // one that follows brings the member back elsewhere, as it was
		for range 60 {
			for range rapid.IntRange(1, 3).Draw(t, "looks") {
				c.step()
			}
			c.controllers()
			c.now = c.now.Add(time.Minute)
			if c.progress.Phase == Complete && c.permit.IsZero() {
				break
			}
		}
		if c.progress.Phase != Complete || !c.permit.IsZero() || len(c.writers(old)) > 0 {
			t.Fatalf("it is not replaced: %q, %+v", c.progress.Phase, Step(c.input()))
		}
	})
}
