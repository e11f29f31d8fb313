package histories

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/replacement"
)

// TestRepairedExcuses checks when repair may request the replacement of b, whose members are in the zones a, b and c.
func TestRepairedExcuses(t *testing.T) {
	most := func(n int32) *v1alpha1.MaxInFlight { return &v1alpha1.MaxInFlight{Members: new(n)} }
	zones := func(n int32) *v1alpha1.MaxInFlight { return &v1alpha1.MaxInFlight{Zones: new(n)} }
	above := func(n int32) *v1alpha1.RepairStop { return &v1alpha1.RepairStop{Zones: intstr.FromInt32(n)} }
	stands := func(member string, change ...func(*v1alpha1.ReplacementRequest)) func(*departure, *repairLook) {
		return func(d *departure, l *repairLook) {
			q := &v1alpha1.ReplacementRequest{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "of-" + member}}
			q.Spec.Source.Name, q.Spec.Member = firstPolicy, v1alpha1.ReplacementMember{Role: "m", ID: member}
			if err := d.store.create(q); err != nil {
				t.Fatal(err)
			}
			l.standing = append(l.standing, q)
			for _, c := range change {
				q = duplicate(q)
				c(q)
				d.store.put(q)
			}
		}
	}
	complete := func(q *v1alpha1.ReplacementRequest) { q.Status.Step = v1alpha1.ReplacementComplete }
	stalled := func(q *v1alpha1.ReplacementRequest) {
		q.Status.Step = v1alpha1.ReplacementWaiting
		q.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue}}
	}
	removing := func(q *v1alpha1.ReplacementRequest) {
		stalled(q)
		q.Status.Step = v1alpha1.ReplacementRemoving
	}
	unhealthy := func(members ...string) func(*departure, *repairLook) {
		return func(_ *departure, l *repairLook) {
			for _, m := range members {
				l.members[m].conditions[replacement.PodFailing] = &sight{yes: true}
			}
		}
	}
	perhaps := func(member string) func(*departure, *repairLook) {
		return func(_ *departure, l *repairLook) {
			l.members[member].conditions[replacement.PodFailing] = &sight{yes: true, no: true}
		}
	}
	gone := func(member string) func(*departure, *repairLook) {
		return func(_ *departure, l *repairLook) {
			l.members[member].conditions[replacement.PodMissing] = &sight{yes: true}
			l.members[member].absent = sight{yes: true}
		}
	}
	for name, c := range map[string]struct {
		repair v1alpha1.Repair
		with   []func(*departure, *repairLook)
		fails  bool
	}{
		"nothing else is in flight":            {v1alpha1.Repair{}, nil, false},
		"another is":                           {v1alpha1.Repair{}, []func(*departure, *repairLook){stands("a")}, true},
		"another is, and two may be":           {v1alpha1.Repair{MaxInFlight: most(2)}, []func(*departure, *repairLook){stands("a")}, false},
		"two are, and two may be":              {v1alpha1.Repair{MaxInFlight: most(2)}, []func(*departure, *repairLook){stands("a"), stands("c")}, true},
		"another zone has one":                 {v1alpha1.Repair{MaxInFlight: zones(1)}, []func(*departure, *repairLook){stands("a")}, true},
		"another zone has one, and two may":    {v1alpha1.Repair{MaxInFlight: zones(2)}, []func(*departure, *repairLook){stands("a")}, false},
		"another is complete":                  {v1alpha1.Repair{}, []func(*departure, *repairLook){stands("a", complete)}, false},
		"another waits for ever":               {v1alpha1.Repair{}, []func(*departure, *repairLook){stands("a", stalled)}, false},
		"what is left of another goes":         {v1alpha1.Repair{}, []func(*departure, *repairLook){stands("a", removing)}, true},
		"one stands for it":                    {v1alpha1.Repair{MaxInFlight: most(2)}, []func(*departure, *repairLook){stands("b")}, true},
		"its zone is unhealthy":                {v1alpha1.Repair{}, []func(*departure, *repairLook){unhealthy("b")}, false},
		"two zones are":                        {v1alpha1.Repair{}, []func(*departure, *repairLook){unhealthy("a", "b")}, true},
		"a second zone may be":                 {v1alpha1.Repair{}, []func(*departure, *repairLook){unhealthy("b"), perhaps("a")}, false},
		"a second zone has lost a pod":         {v1alpha1.Repair{}, []func(*departure, *repairLook){unhealthy("b"), gone("a")}, false},
		"two zones are, and two may":           {v1alpha1.Repair{StopAbove: above(2)}, []func(*departure, *repairLook){unhealthy("a", "b")}, false},
		"three zones are, and two may":         {v1alpha1.Repair{StopAbove: above(2)}, []func(*departure, *repairLook){unhealthy("a", "b", "c")}, true},
		"what is wrong elsewhere counts not":   {v1alpha1.Repair{UnhealthyConditions: []v1alpha1.MemberConditionType{"NodeTainted"}}, []func(*departure, *repairLook){unhealthy("a", "b")}, false},
		"a share of three zones, rounded down": {v1alpha1.Repair{StopAbove: &v1alpha1.RepairStop{Zones: intstr.FromString("66%")}}, []func(*departure, *repairLook){unhealthy("a", "b")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := wrongDeparture(t)
			policy := duplicate(d.policy(firstPolicy))
			policy.Spec.Repair = &c.repair
			l := &repairLook{replica: &replica{world: d.world, name: "a", cache: newCache(d.store)}, begun: time.Now(), policy: policy, members: map[string]*glance{}}
			for _, p := range d.site.members() {
				l.members[p.pod] = newGlance()
			}
			for _, with := range c.with {
				with(d, l)
			}
			q := &v1alpha1.ReplacementRequest{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p-1"}}
			q.Spec.Source.Name, q.Spec.Member = firstPolicy, v1alpha1.ReplacementMember{Role: "m", ID: "b"}
			l.checkInFlight(q)
			l.checkZones("b")
			d.check(t, c.fails, "REPAIRED", name)
		})
	}
}
