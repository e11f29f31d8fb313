package memberset

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
)

// The claims of a member are those that it was made with. Where its group has others, no pod of it is made beside its data: it is replaced, or comes back once they
// are set back, and none of its claims is left.
func TestClaimsOfAnotherName(t *testing.T) {
	const (
		id    = "kv-member-1"
		added = "claim wal-kv-member-1 is none that member kv-member-1 was made with, and is not made for it: the member is replaced by one that has it"
		gone  = "pod kv-member-1 is not made anew: its data is on claim data-kv-member-1, and its group has no volumeClaimTemplate data any more; the member is replaced"
	)
	rename := func(g *v1alpha1.MemberGroup) { g.VolumeClaimTemplates[0].Name = "wal" }
	add := func(g *v1alpha1.MemberGroup) {
		g.VolumeClaimTemplates = append(g.VolumeClaimTemplates, g.VolumeClaimTemplates[0])
		g.VolumeClaimTemplates[1].Name = "wal"
	}
	for name, test := range map[string]struct {
		change func(g *v1alpha1.MemberGroup)
		says   []string
		claims []string // of a member in the end
	}{
		"one is renamed": {rename, []string{gone, added}, []string{"wal"}},
		"one is added":   {add, []string{added}, []string{"data", "wal"}},
	} {
		for _, kind := range []Kind{emptying, listing, plain} {
			t.Run(name+" of "+kind.Name, func(t *testing.T) {
				w := formed(t, kind, 3)
				before := slices.Clone(w.group().VolumeClaimTemplates)
				test.change(w.group())
				w.gone(id)
				r := Decide(w.in)
				if made := made(&r, id); len(made) > 0 || !cmp.Equal(saidOf(&r, ClaimMissing), test.says) {
					t.Errorf("made are %v, and it waits for %+v", made, r.Status.Blockers)
				}
				after := w.group().VolumeClaimTemplates
				w.group().VolumeClaimTemplates = before
				if r := Decide(w.in); !cmp.Equal(made(&r, id), []string{id, "data"}) {
					t.Errorf("it is set back, and made are %v", made(&r, id))
				}
				w.group().VolumeClaimTemplates = after
				if !w.settle() {
					t.Fatalf("it is not complete: %+v", w.in.Set.Status.Blockers)
				}
				for i := range w.in.Set.Status.Members {
					m := &w.in.Set.Status.Members[i]
					if !cmp.Equal(w.templatesOf(m.ID), test.claims) || !cmp.Equal(m.Shape.Claims, test.claims) {
						t.Errorf("%s has the claims %v, and was made with %v", m.ID, w.templatesOf(m.ID), m.Shape.Claims)
					}
				}
				if len(w.in.Claims) != 3*len(test.claims) {
					t.Errorf("claims are left: %+v", w.in.Claims)
				}
			})
		}
	}
}

// made are the pod and the claims that are made for a member, and the volumes of its pod that are claims.
func made(r *Result, id string) []string {
	var all []string
	for i := range r.Actions {
		a := &r.Actions[i]
		switch {
		case a.Member != id:
		case a.Kind == MakeClaim:
			all = append(all, a.Claim.Name)
		case a.Kind == MakePod:
			all = append(all, a.Pod.Name)
			for _, v := range a.Pod.Spec.Volumes {
				all = append(all, v.Name)
			}
		}
	}
	return all
}

// saidOf are the messages of a reason.
func saidOf(r *Result, reason Reason) []string {
	var all []string
	for i := range r.Status.Blockers {
		if b := &r.Status.Blockers[i]; b.Reason == string(reason) {
			all = append(all, b.Message)
		}
	}
	return all
}

// templatesOf are the names of the templates of a member's claims, sorted.
func (w *world) templatesOf(id string) []string {
	var all []string
	for i := range w.in.Claims {
		if template, is := strings.CutSuffix(w.in.Claims[i].Name, "-"+id); is {
			all = append(all, template)
		}
	}
	slices.Sort(all)
	return all
}
