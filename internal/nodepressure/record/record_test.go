package record

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/nodepressure"
)

func sample() Record {
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	adj := 999
	r := New(at, nodepressure.Node{
		Name: "worker-1", Memory: 4 << 30, Layout: nodepressure.Single,
		Readings: map[nodepressure.Signal]nodepressure.Reading{nodepressure.MemoryAvailable: {Available: 1 << 30, Capacity: 4 << 30, At: at}},
	}, []nodepressure.Pod{{
		Namespace: "shop", Name: "web-0", UID: "u1", QoS: corev1.PodQOSBurstable, Priority: 7, Grace: 30 * time.Second,
		Requests:   nodepressure.Requests{Memory: 64 << 20},
		Containers: []nodepressure.Container{{Name: "web", MemoryRequest: 64 << 20, OOMScoreAdj: &adj, Usage: -1}},
		Usage: &nodepressure.Usage{
			At: at, Memory: 80 << 20, PIDs: 3,
			Disk: map[nodepressure.FsPart]nodepressure.FsUse{nodepressure.Logs: {Bytes: 10, Inodes: 1}},
		},
	}})
	r.Order, r.Reported = nodepressure.OrderQoS, []Condition{{Type: corev1.NodeDiskPressure, Since: at}}
	return r
}

func TestRecordComesBackAsItWas(t *testing.T) {
	text, err := json.Marshal(sample())
	if err != nil {
		t.Fatal(err)
	}
	if !Is(text) {
		t.Errorf("not known to be a record: %s", text)
	}
	got, err := Parse(text)
	if diff := cmp.Diff(sample(), got); err != nil || diff != "" {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
}

func TestIs(t *testing.T) {
	tests := map[string]bool{
		`{"record":1`: true, `{ "record": 9}`: true, `{"at":"2026-11-21T09:00:00Z","node":{"name":"a"},"record":1}`: true,
		`{"node":{"record":1}}`: false, `{"at":1,"node":{"na`: false,
		``: false, `{}`: false, `[]`: false, `{"node":{"nodeName":"a"}}`: false, `"record"`: false, `<html>`: false,
	}
	for text, want := range tests {
		if got := Is([]byte(text)); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"cut short", `{"record":1,"node":{"na`, "breaks off after 23 bytes"},
		{"no JSON", `{"record":1,,}`, "reading the record: invalid character"},
		{"more behind it", `{"record":1}x`, "reading the record: invalid character 'x'"},
		{"later version", `{"record":2}`, "version 2, and this usher reads version 1"},
		{"no node", `{"record":1}`, "names no node"},
		{"order", `{"record":1,"node":{"name":"a"},"order":"size"}`, `an order "size"`},
		{"thresholds", `{"record":1,"node":{"name":"a"},"config":{"evictionHard":{"memory.available":"lots"}}}`, "evictionHard"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Parse([]byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
