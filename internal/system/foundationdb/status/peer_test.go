package status_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/internal/system/foundationdb/status"
)

// peerTolerance are the cases of the peer's tests of what a cluster stands, by their numbers, that TestWhatIsAbsentIsNotKnown does not have.
var peerTolerance = []struct {
	name, path string
	value      any
	want       string
}{
	{"8/133 as many copies as are needed, and the tracker is not healthy", "cluster.data.team_trackers", list{object{"state": object{"healthy": false, "name": "healing", "min_replicas_remaining": 2}}}, ""},
	{"8/133 no tracker", "cluster.data.team_trackers", list{}, "how many copies of the data there are is not known yet (state of the data: healthy)"},
}

func TestPeerTolerance(t *testing.T) {
	for _, test := range peerTolerance {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, with(t, test.path, test.value).NotTolerant("")); diff != "" {
				t.Errorf("it lacks (-want +got):\n%s", diff)
			}
		})
	}
}

// peerBehind are the cases of servers that are behind while a maintenance is to end.
var peerBehind = []struct {
	name   string
	change func(*status.QoS)
	want   string
}{
	{"8/139 none is behind", func(*status.QoS) {}, ""},
	{"8/139 data lag of 61 s", func(q *status.QoS) { q.DataLag.Seconds = new(61.0) }, "a storage server is 61 s behind in what it reads of the log, and 60 s are the most"},
	{"8/139 durability lag of 61 s", func(q *status.QoS) { q.DurabilityLag.Seconds = new(61.0) }, "a storage server is 61 s behind in what it has on its disk, and 60 s are the most"},
	{"8/139 a log server's queue of 500 MiB", func(q *status.QoS) { q.LogQueue = new(int64(500 << 20)) }, "the queue of a log server has 500 MiB, and 250 MiB are the most"},
	{"8/139 a storage server's queue of 500 MiB", func(q *status.QoS) { q.StorageQueue = new(int64(500 << 20)) }, "the queue of a storage server has 500 MiB, and 250 MiB are the most"},
	// The peer reads what is absent as 0; here it is not known, and a maintenance that ends by itself is no loss.
	{"8/139 no data lag", func(q *status.QoS) { q.DataLag.Seconds = nil }, "how far storage servers are behind is not known"},
	{"8/139 no durability lag", func(q *status.QoS) { q.DurabilityLag.Seconds = nil }, "how far storage servers are behind is not known"},
	{"8/139 no queue of log servers", func(q *status.QoS) { q.LogQueue = nil }, "how long the queues of log servers are is not known"},
	{"8/139 no queue of storage servers", func(q *status.QoS) { q.StorageQueue = nil }, "how long the queues of storage servers are is not known"},
}

func TestPeerBehind(t *testing.T) {
	for _, test := range peerBehind {
		t.Run(test.name, func(t *testing.T) {
			s := &status.Status{}
			s.Cluster.QoS = status.QoS{
				DataLag: status.Lag{Seconds: new(60.0)}, DurabilityLag: status.Lag{Seconds: new(60.0)}, LogQueue: new(int64(250 << 20)), StorageQueue: new(int64(250 << 20)),
			}
			test.change(&s.Cluster.QoS)
			if diff := cmp.Diff(test.want, s.Behind()); diff != "" {
				t.Errorf("behind is (-want +got):\n%s", diff)
			}
		})
	}
}
