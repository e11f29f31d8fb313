package summary

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/nodepressure"
)

// onePod is small, as fuzzing goes better from small texts than from recordings.
const onePod = `{"node":{"nodeName":"a","systemContainers":[{"name":"pods","memory":{"availableBytes":9,"workingSetBytes":1}}],
"memory":{"availableBytes":7,"workingSetBytes":3},"fs":{"availableBytes":5,"capacityBytes":9,"inodesFree":4,"inodes":8},
"runtime":{"imageFs":{"availableBytes":5,"capacityBytes":7}},"rlimit":{"maxpid":9,"curproc":2},"swap":{"swapUsageBytes":1}},
"pods":[{"podRef":{"name":"files-0","namespace":"shop","uid":"u-files-0"},"memory":{"workingSetBytes":2},"process_stats":{"process_count":3},
"containers":[{"name":"workload","memory":{"rssBytes":1},"rootfs":{"usedBytes":1,"inodesUsed":1},"logs":{"usedBytes":1}}],
"volume":[{"name":"disk","usedBytes":4,"pvcRef":{"name":"c"}}]}]}`

// FuzzParse feeds texts that may be anything: none may panic, what is accepted names its node, and an error is a sentence.
func FuzzParse(f *testing.F) {
	for _, seed := range [][]byte{
		[]byte(onePod), []byte(onePod[:len(onePod)/2]), []byte(small), []byte(""), []byte("null"), []byte(`{"kind":"Status","message":"no"}`),
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
		if node.Name == "" || node.Name != s.stats.Node.NodeName {
			t.Errorf("node %q", node.Name)
		}
		pods := s.Measured()
		if len(pods) != len(s.stats.Pods) {
			t.Errorf("%d pods of %d", len(pods), len(s.stats.Pods))
		}
		s.Pods([]corev1.Pod{files()})
		s.At()
		for _, signal := range nodepressure.Signals() {
			nodepressure.Rank(nodepressure.OrderQoS, signal, node, pods)
		}
	})
}
