package eviction

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// A member that goes, or has gone, without a permit counts as long as one that was let go.
func TestMembersThatGoWithoutPermit(t *testing.T) {
	pod := func(change ...func(*snapshot.Pod)) *snapshot.Pod {
		p := toyPod("s1", "store")
		for _, f := range change {
			f(p)
		}
		return p
	}
	terminates := func(p *snapshot.Pod) { p.Deletion = noon.Add(-time.Second) }
	failed := func(p *snapshot.Pod) { p.Phase = corev1.PodFailed }
	unscheduled := func(p *snapshot.Pod) { p.Node = "" }
	again := pod(func(p *snapshot.Pod) { p.UID = "uid-again" })
	entry := v1alpha1.Leaving{MemberRef: leaves("s1", "store", noon).MemberRef, StartTime: metav1.NewTime(noon)}
	gone := entry
	gone.GoneTime = new(metav1.NewTime(noon))
	permit := leaves("s1", "store", noon)
	over := permit
	over.GoneTime = new(metav1.NewTime(noon.Add(-time.Second)))
	ran := []*snapshot.Pod{pod()}
	for name, c := range map[string]struct {
		settle *metav1.Duration
		ran    []*snapshot.Pod
		pods   []*snapshot.Pod
		before []v1alpha1.Leaving
		sights map[types.UID]PodPresence
		ending bool
		audit  bool
		gone   bool
		want   []v1alpha1.Leaving // nil: nothing is written
	}{
		"it stays":      {ran: ran, pods: ran},
		"it terminates": {ran: ran, pods: []*snapshot.Pod{pod(terminates)}, want: []v1alpha1.Leaving{entry}},
		"it terminates, and was never seen to run": {pods: []*snapshot.Pod{pod(terminates)}, want: []v1alpha1.Leaving{entry}},
		"it terminates with a permit":              {ran: ran, pods: []*snapshot.Pod{pod(terminates)}, before: []v1alpha1.Leaving{permit}},
		"it terminates by a cache that is behind":  {pods: []*snapshot.Pod{pod(terminates)}, sights: map[types.UID]PodPresence{"uid-s1": SeenGone}},
		"it is gone":                            {ran: ran, want: []v1alpha1.Leaving{gone}},
		"it is gone with a permit":              {ran: ran, before: []v1alpha1.Leaving{over}},
		"it is gone, and was never seen to run": {},
		"a Ready pod has its id":                {ran: ran, pods: []*snapshot.Pod{again}, sights: map[types.UID]PodPresence{"uid-again": SeenReady}},
		"a pod that is not Ready has its id":    {ran: ran, pods: []*snapshot.Pod{again}, sights: map[types.UID]PodPresence{"uid-again": SeenStaying}, want: []v1alpha1.Leaving{gone}},
		"a kubelet has evicted it":              {ran: ran, pods: []*snapshot.Pod{pod(failed)}, want: []v1alpha1.Leaving{gone}},
		"it had failed before":                  {ran: []*snapshot.Pod{pod(failed)}, pods: []*snapshot.Pod{pod(failed)}},
		"it has failed and is removed":          {ran: []*snapshot.Pod{pod(failed)}, pods: []*snapshot.Pod{pod(failed, terminates)}},
		"it never had a node":                   {ran: []*snapshot.Pod{pod(unscheduled)}},
		"its system is never late":              {settle: &metav1.Duration{}, ran: ran, pods: []*snapshot.Pod{pod(terminates)}},
		"another's":                             {pods: []*snapshot.Pod{toyPodGoing("r1", "router")}},
		"the namespace goes":                    {ran: ran, ending: true},
		"the policy only audits":                {ran: ran, audit: true},
	} {
		t.Run(name, func(t *testing.T) {
			in := untidy(t)
			in.Policy.Policy = settling(t, c.settle)
			in.Policy.Status.Leaving, in.Pods, in.Presences, in.Ending, in.Audited, in.Deleted = c.before, c.pods, c.sights, c.ending, c.audit, c.gone
			in.Ran = RunningMembers(in.Policy, c.ran)
			got := ReconcileStatus(in)
			if c.want == nil {
				if len(got.Actions) > 0 {
					t.Errorf("actions %v, want none", got.Actions)
				}
				return
			}
			if len(got.Actions) != 1 {
				t.Fatalf("actions %v, want one write", got.Actions)
			}
			if diff := cmp.Diff(c.want, got.Actions[0].Status.Leaving); diff != "" {
				t.Errorf("status.leaving (-want +got):\n%s", diff)
			}
			if got.Actions[0].Status.Epoch != in.Policy.Status.Epoch {
				t.Errorf("epoch %d, want %d", got.Actions[0].Status.Epoch, in.Policy.Status.Epoch)
			}
		})
	}
}

// The API takes a thousand entries of status.leaving, and the next permit is one of them.
func TestManyMembersThatGoWithoutPermit(t *testing.T) {
	in := untidy(t)
	in.Policy.Policy, in.Pods, in.Ran = settling(t, nil), nil, map[types.UID]v1alpha1.MemberRef{}
	for i := range 3 * mostUnpermitted {
		name := fmt.Sprintf("s%d", i)
		in.Ran[types.UID(name)] = v1alpha1.MemberRef{Role: "store", ID: name, PodName: name, PodUID: types.UID(name)}
	}
	got := ReconcileStatus(in)
	if len(got.Actions) != 1 || len(got.Actions[0].Status.Leaving) != mostUnpermitted {
		t.Errorf("%d actions, with %d entries, want one with %d", len(got.Actions), len(got.Actions[0].Status.Leaving), mostUnpermitted)
	}
}

func toyPodGoing(name, role string) *snapshot.Pod {
	p := toyPod(name, role)
	p.Deletion = noon
	return p
}
