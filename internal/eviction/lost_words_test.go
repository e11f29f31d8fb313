package eviction

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

// Of each step it is said what it waits for and what to do, and of one that is done that it is.
func TestLostStepWords(t *testing.T) {
	const (
		head    = "waits Drain for store m-s1 of policy shop/db, for its lost node: "
		wait    = " / wait until it is done, or do what it says"
		patient = " / wait until it is done"
	)
	unready := func(p *v1alpha1.EvictionPolicy) {
		p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Message: "the system cannot be asked"}}
	}
	step := func(message string, remaining, start int64) v1alpha1.PreparationStatus {
		p := stands("Drain", noon)
		p.Message, p.Remaining, p.RemainingAtStart = message, remaining, start
		return p
	}
	unasked := stands("Drain", noon.Add(-time.Minute))
	undoing, stuck := step("", 3, 5), step("waiting for what runs", 0, 5)
	undoing.State, stuck.State = v1alpha1.PreparationUndoing, v1alpha1.PreparationUndoing
	first := stands("Resign", noon)
	first.Message = "another leads"
	finished := first
	finished.Message = ""
	evicted := step("moving", 3, 5)
	evicted.For = v1alpha1.ForEvict
	const asked = "asked for last at 2026-11-21T12:00:00Z"
	for name, c := range map[string]struct {
		steps  []v1alpha1.PreparationStatus
		policy func(*v1alpha1.EvictionPolicy)
		want   []string
	}{
		"for its eviction":        {steps: []v1alpha1.PreparationStatus{evicted}},
		"under way":               {steps: []v1alpha1.PreparationStatus{step("shards are brought back", 3, 5)}, want: []string{head + asked + "; 3 of 5 left: shards are brought back" + wait}},
		"it counts nothing":       {steps: []v1alpha1.PreparationStatus{step("shards are brought back", 0, 0)}, want: []string{head + asked + ": shards are brought back" + wait}},
		"it was not counted":      {steps: []v1alpha1.PreparationStatus{step("shards are brought back", 3, 0)}, want: []string{head + asked + "; 3 left: shards are brought back" + wait}},
		"more came":               {steps: []v1alpha1.PreparationStatus{step("shards are brought back", 7, 5)}, want: []string{head + asked + "; 7 of 7 left: shards are brought back" + wait}},
		"not asked for":           {steps: []v1alpha1.PreparationStatus{unasked}, want: []string{head + "it is written down and was not asked for yet: the system has not shown that it is needed" + patient}},
		"another comes first":     {steps: []v1alpha1.PreparationStatus{first, unasked}, want: []string{"waits Resign for store m-s1 of policy shop/db, for its lost node: " + asked + ": another leads" + wait, head + "it is not asked for before Resign is done" + patient}},
		"another is done":         {steps: []v1alpha1.PreparationStatus{finished, unasked}, want: []string{"done Resign for store m-s1 of policy shop/db, for its lost node: done; it stands until the node answers again / ", head + "it is written down and was not asked for yet: the system has not shown that it is needed" + patient}},
		"nothing to ask for now":  {steps: []v1alpha1.PreparationStatus{step("", 3, 5)}, want: []string{head + "nothing is asked for now, by what the system says; 3 of 5 left" + patient}},
		"done":                    {steps: []v1alpha1.PreparationStatus{step("", 0, 5)}, want: []string{"done Drain for store m-s1 of policy shop/db, for its lost node: done; 0 of 5 left; it stands until the node answers again / "}},
		"taken back":              {steps: []v1alpha1.PreparationStatus{undoing}, want: []string{head + "it is being taken back, since its node answers again or its policy ends / wait until it is taken back"}},
		"… and that fails":        {steps: []v1alpha1.PreparationStatus{stuck}, want: []string{head + "it is being taken back, since its node answers again or its policy ends: waiting for what runs / wait until it is taken back, and see that the system can do so"}},
		"the policy is suspended": {steps: []v1alpha1.PreparationStatus{step("x", 3, 5)}, policy: func(p *v1alpha1.EvictionPolicy) { p.Spec.Suspend = true }, want: []string{head + `nothing is asked for, since the policy is suspended; 3 of 5 left / kubectl patch evictionpolicy db -n shop --type merge -p '{"spec":{"suspend":false}}'`}},
		"the policy is not Ready": {steps: []v1alpha1.PreparationStatus{unasked}, policy: unready, want: []string{head + "it is written down and was not asked for yet: the system has not shown that it is needed; the policy is not Ready: the system cannot be asked / see to the policy first: kubectl describe evictionpolicy db -n shop"}},
		"what a system says":      {steps: []v1alpha1.PreparationStatus{step("a\nb\x1b[31mc", 0, 0)}, want: []string{head + asked + ": a bc" + wait}},
	} {
		t.Run(name, func(t *testing.T) {
			policy := &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
			policy.Status.Preparations = c.steps
			if c.policy != nil {
				c.policy(policy)
			}
			var got []string
			for _, s := range LostSteps(policy) {
				words := map[bool]string{true: "done", false: "waits"}[s.Done]
				got = append(got, fmt.Sprintf("%s %s / %s", words, s.Message, s.Remedy))
				if s.Member.Node != "dead" || !s.Since.Equal(noon.Add(-time.Minute)) || s.Reason != PreparationPending {
					t.Errorf("%+v", s)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
