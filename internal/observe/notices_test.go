package observe

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"usher.sh/usher/internal/notice"
)

// Of the events about nodes those count that Usher has made of notices: other clients may make others.
func TestReportedNotices(t *testing.T) {
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	event := func(name, by, reason, kind string) *eventsv1.Event {
		return &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, ReportingController: by, Reason: reason, EventTime: metav1.NewMicroTime(at),
			Regarding: corev1.ObjectReference{Kind: kind, Name: "n1"}, Note: "it is likelier to go",
		}
	}
	got, err := ReportedNotices(t.Context(), fake.NewClientset(
		event("a", NoticesController, "NoticeRebalance", "Node"), event("b", "kubelet", "NoticeRebalance", "Node"),
		event("c", NoticesController, "BadConfiguration", "Node"), event("d", NoticesController, "NoticeRebalance", "Pod"),
	))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]notice.OnlyReported{{Node: "n1", Kind: notice.Rebalance, Since: at, Message: "it is likelier to go"}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
