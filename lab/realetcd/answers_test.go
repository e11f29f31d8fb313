package realetcd

import (
	"context"
	"strings"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"usher.sh/usher/lab/testlab"
)

// testAnswers asks for the leader's eviction, which is refused until leadership has moved, and then for another's, which
// is refused while that one is away.
func testAnswers(t *testing.T, e *etcd) {
	t.Helper()
	leader := e.refusedLeader(t)
	var last error
	allowed := func(ctx context.Context) (bool, error) {
		last = e.evict(ctx, leader)
		if last != nil && !apierrors.IsTooManyRequests(last) {
			return false, last
		}
		return last == nil, nil
	}
	if err := wait.PollUntilContextTimeout(t.Context(), time.Second, 5*time.Minute, true, allowed); err != nil {
		t.Fatalf("waiting until the leader may go: %v; last answer: %v", err, last)
	}
	wantRefusal(t, e.evict(t.Context(), (leader+1)%size), "may not leave its node yet")
	e.lab.WaitReady(t, e.namespace, testlab.Labels(name), size)
}

// refusedLeader asks for the eviction of the leader, and wants it refused for that. Of a member that does not lead any more
// when it is judged nothing is known: it may even have gone.
func (e *etcd) refusedLeader(t *testing.T) int {
	t.Helper()
	const why = "leads the cluster"
	for {
		leader, term := e.leader(t)
		err := e.evict(t.Context(), leader)
		if refused(err, why) {
			return leader
		}
		if now, next := e.leader(t); now == leader && next == term {
			wantRefusal(t, err, why)
		}
		t.Logf("leadership moved from %s by itself, and the answer was: %v", member(leader), err)
		e.lab.WaitReady(t, e.namespace, testlab.Labels(name), size)
	}
}

func (e *etcd) evict(ctx context.Context, i int) error {
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: member(i), Namespace: e.namespace}}
	return e.lab.Client().PolicyV1().Evictions(e.namespace).Evict(ctx, eviction)
}

func wantRefusal(t *testing.T, err error, why string) {
	t.Helper()
	if !refused(err, why) {
		t.Fatalf("evicting: got %v, want 429 with %q", err, why)
	}
}

func refused(err error, why string) bool {
	return apierrors.IsTooManyRequests(err) && strings.Contains(err.Error(), why)
}

// leader is the member that answers for itself that it leads, and in which term, once there is one.
func (e *etcd) leader(t *testing.T) (leader int, term uint64) {
	t.Helper()
	found := func(ctx context.Context) (bool, error) {
		for i := range size {
			answer, err := e.client(t, e.url(i, clientPort)).Status(ctx, e.url(i, clientPort))
			if err == nil && answer.Leader == answer.Header.MemberId {
				leader, term = i, answer.RaftTerm
				return true, nil
			}
		}
		return false, nil
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 5*time.Minute, true, found); err != nil {
		t.Fatalf("waiting until a member leads: %v", err)
	}
	return leader, term
}
