package summary

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/pressure"
)

// FuzzParse feeds texts that may be anything: none may panic, what is accepted names its node, and an error is a sentence.
func FuzzParse(f *testing.F) {
	recorded, err := os.ReadFile("testdata/recorded.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range [][]byte{
		recorded, recorded[:len(recorded)/2], []byte(small), []byte(""), []byte("null"), []byte(`{"kind":"Status","message":"no"}`),
		[]byte(`{"node":{"nodeName":"a","rlimit":{"maxpid":-9223372036854775808,"curproc":9223372036854775807}},"pods":[{"podRef":{}},{"podRef":{}}]}`),
		[]byte(`{"node":{"nodeName":"a","fs":{"availableBytes":18446744073709551615,"capacityBytes":1}},"pods":[{"containers":[{"name":"c","rootfs":{}}]}]}`),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse(text)
		if err != nil {
			if err.Error() == "" || s != nil {
				t.Errorf("got %v with error %q", s, err)
			}
			return
		}
		node := s.Node(&corev1.Node{})
		if node.Name == "" || node.Name != s.NodeName() {
			t.Errorf("node %q", node.Name)
		}
		pods := s.Measured()
		if len(pods) != len(s.stats.Pods) {
			t.Errorf("%d pods of %d", len(pods), len(s.stats.Pods))
		}
		s.Pods([]corev1.Pod{files()})
		s.At()
		for _, signal := range pressure.Signals() {
			pressure.Rank(pressure.OrderQoS, signal, node, pods)
		}
	})
}
