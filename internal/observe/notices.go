package observe

import (
	"context"
	"strings"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"usher.sh/usher/internal/notice"
)

// NoticesController is the name under which events about notices are made.
const NoticesController = "usher-notices"

// ReportedNotices reads the notices that were only reported, as long as the apiserver keeps events. The error is the API's.
func ReportedNotices(ctx context.Context, client kubernetes.Interface) ([]notice.OnlyReported, error) {
	list, err := client.EventsV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "regarding.kind=Node"})
	if err != nil {
		return nil, err
	}
	var found []notice.OnlyReported
	for i := range list.Items {
		if n, is := reportedNotice(&list.Items[i]); is {
			found = append(found, n)
		}
	}
	return found, nil
}

func reportedNotice(event *eventsv1.Event) (notice.OnlyReported, bool) {
	kind, is := strings.CutPrefix(event.Reason, "Notice")
	if !is || event.ReportingController != NoticesController || event.Regarding.Kind != "Node" {
		return notice.OnlyReported{}, false
	}
	return notice.OnlyReported{Node: event.Regarding.Name, Kind: notice.Kind(kind), Since: event.EventTime.Time, Message: event.Note}, true
}
