package policycache

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
)

func TestIDsThatSeveralPodsGive(t *testing.T) {
	member := func(id, pod string, change ...func(*snapshot.Pod)) system.Member {
		p := &snapshot.Pod{Name: pod}
		for _, f := range change {
			f(p)
		}
		return system.Member{MemberRef: v1alpha1.MemberRef{ID: id}, Pod: p}
	}
	terminating := func(p *snapshot.Pod) { p.Deletion = time.Unix(1, 0) }
	finished := func(p *snapshot.Pod) { p.Phase = corev1.PodSucceeded }
	got := shared([]system.Member{
		member("a", "a-1"), member("b", "b-2"), member("b", "b-1"),
		member("c", "c-1"), member("c", "c-2", terminating), member("d", "d-1"), member("d", "d-2", finished),
	}, false)
	if diff := cmp.Diff(map[string][]string{"b": {"b-1", "b-2"}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// On a host there is one member of each role, all with the host's id.
func TestMembersOfSeveralRolesOnAHost(t *testing.T) {
	member := func(role, pod string) system.Member {
		return system.Member{MemberRef: v1alpha1.MemberRef{Role: role, ID: "n1"}, Pod: &snapshot.Pod{Name: pod}}
	}
	all := []system.Member{member("hypervisor", "h-1"), member("router", "r-1")}
	if got := shared(all, true); len(got) > 0 {
		t.Errorf("%v", got)
	}
	if got := shared(all, false); len(got["n1"]) != 2 {
		t.Errorf("where ids are not hosts': %v", got)
	}
	if diff := cmp.Diff(map[string][]string{"n1": {"r-1", "r-2"}}, shared(append(all, member("router", "r-2")), true)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
