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
	leader := e.leader(t)
	wantRefusal(t, e.evict(t.Context(), leader), "leads the cluster")
	var last error
	allowed := func(ctx context.Context) (bool, error) {
		last = e.evict(ctx, leader)
		if last != nil && !apierrors.IsTooManyRequests(last) {
			return false, last
		}
		return last == nil, nil
	}
	if err := wait.PollUntilContextTimeout(t.Context(), time.Second, time.Minute, true, allowed); err != nil {
		t.Fatalf("waiting until the leader may go: %v; last answer: %v", err, last)
	}
	wantRefusal(t, e.evict(t.Context(), (leader+1)%size), "may not leave its node yet")
	e.lab.WaitReady(t, e.namespace, testlab.Labels(name), size)
}

func (e *etcd) evict(ctx context.Context, i int) error {
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: member(i), Namespace: e.namespace}}
	return e.lab.Client().PolicyV1().Evictions(e.namespace).Evict(ctx, eviction)
}

func wantRefusal(t *testing.T, err error, why string) {
	t.Helper()
	if !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), why) {
		t.Fatalf("evicting: got %v, want 429 with %q", err, why)
	}
}

// leader is the member that answers for itself that it leads.
func (e *etcd) leader(t *testing.T) int {
	t.Helper()
	for i := range size {
		answer, err := e.client(t, e.url(i, clientPort)).Status(t.Context(), e.url(i, clientPort))
		if err == nil && answer.Leader == answer.Header.MemberId {
			return i
		}
	}
	t.Fatal("nobody leads")
	return -1
}
