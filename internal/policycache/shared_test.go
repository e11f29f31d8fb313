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
	})
	if diff := cmp.Diff(map[string][]string{"b": {"b-1", "b-2"}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
