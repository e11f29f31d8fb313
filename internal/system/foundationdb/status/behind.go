package status

import "fmt"

// What a server may be behind while a maintenance ends (source: fdb-kubernetes-operator, maintenance mode).
const (
	mostLag   = 60.0      // seconds
	mostQueue = 250 << 20 // bytes
)

// Behind says which server is too far behind others for a maintenance to end; "": none is. What the document does not say is too far.
func (s *Status) Behind() string {
	q := &s.Cluster.QoS
	for _, lag := range []struct {
		of   string
		have *float64
	}{{"reads of the log", q.DataLag.Seconds}, {"has on its disk", q.DurabilityLag.Seconds}} {
		switch {
		case lag.have == nil:
			return "how far storage servers are behind is not known"
		case *lag.have > mostLag:
			return fmt.Sprintf("a storage server is %.0f s behind in what it %s, and %.0f s are the most", *lag.have, lag.of, mostLag)
		}
	}
	for _, queue := range []struct {
		of   string
		have *int64
	}{{"log", q.LogQueue}, {"storage", q.StorageQueue}} {
		switch {
		case queue.have == nil:
			return fmt.Sprintf("how long the queues of %s servers are is not known", queue.of)
		case *queue.have > mostQueue:
			return fmt.Sprintf("the queue of a %s server has %d MiB, and %d MiB are the most", queue.of, *queue.have>>20, mostQueue>>20)
		}
	}
	return ""
}
