package observe

import (
	"testing"

	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWhetherARequestHasFailed(t *testing.T) {
	const canceled, invalid = api.EvictionConditionReasonCanceledDueToNoRequesters, api.EvictionConditionReasonEvictionInvalid
	cases := map[string]struct {
		intent api.EvictionRequestIntent
		status metav1.ConditionStatus
		reason api.EvictionConditionReason
		want   string
	}{
		"it waits":                             {api.EvictionRequestIntentEviction, metav1.ConditionFalse, api.EvictionConditionReasonAwaitingEviction, ""},
		"it names no pod":                      {api.EvictionRequestIntentEviction, metav1.ConditionTrue, invalid, "EvictionInvalid: why"},
		"an attempt before it was canceled":    {api.EvictionRequestIntentEviction, metav1.ConditionTrue, canceled, ""},
		"it was withdrawn and so was canceled": {api.EvictionRequestIntentWithdrawn, metav1.ConditionTrue, canceled, "CanceledDueToNoRequesters: why"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := &api.EvictionRequest{Spec: api.EvictionRequestSpec{Intent: c.intent}}
			r.Status.Conditions = []metav1.Condition{{Type: string(api.EvictionConditionFailed), Status: c.status, Reason: string(c.reason), Message: "why"}}
			got := RequestFacts(r)
			if got.Failed != c.want || got.Ended != (c.want != "") {
				t.Errorf("failed %q, ended %v; want %q", got.Failed, got.Ended, c.want)
			}
		})
	}
}
