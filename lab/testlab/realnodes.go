package testlab

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"usher.sh/usher/lab/binaries"
	"usher.sh/usher/lab/image"
	"usher.sh/usher/lab/realnode"
	"usher.sh/usher/lab/realnode/join"
	"usher.sh/usher/lab/serviceproxy"
)

// nodesTimeout ends only what hangs. The workload may have to be compiled first, with nothing in the compiler's cache, and
// every node unpacks its images.
const nodesTimeout = 10 * time.Minute

// RealNodes starts n real nodes, dealt out over the zones in turn, waits until pods can run on them, and ends them
// after the test. Where the machine cannot run any, the test is skipped, with what is missing.
func (l *Lab) RealNodes(tb testing.TB, n int, zones ...string) []*realnode.Node {
	tb.Helper()
	return l.StartRealNodes(tb, join.Options{Count: n, Zones: zones})
}

// StartRealNodes is RealNodes with all options; names and the label that NodeSelector selects are filled in.
func (l *Lab) StartRealNodes(tb testing.TB, o join.Options) []*realnode.Node {
	tb.Helper()
	if chosen := binaries.Chosen(); chosen != binaries.Versions()[0] {
		tb.Skipf("SKIPPED, nothing was tested: the kubelet of real nodes is too new for an apiserver of %s", chosen.Minor)
	}
	if err := realnode.Preflight(l.cluster.Cache); err != nil {
		tb.Skipf("SKIPPED, nothing was tested: %v", err)
	}
	if err := realnode.CheckRoom(os.TempDir()); err != nil {
		tb.Fatal(err)
	}
	o.Prefix = fmt.Sprintf("%s-real-%s", scope(tb), unique())
	labels := map[string]string{TestLabel: scope(tb)}
	maps.Copy(labels, o.Labels)
	o.Labels = labels
	ctx, cancel := context.WithTimeout(tb.Context(), nodesTimeout)
	defer cancel()
	started, err := join.Nodes(ctx, l.cluster, l.client, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { l.stopRealNodes(tb, started) })
	return started
}

// RealPod is what a pod on a real node looks like: the workload program with these arguments, serving HTTP on port
// 8080, on the real nodes of this test. The tests of package join show what else it can do.
func RealPod(tb testing.TB, args ...string) corev1.PodSpec {
	tb.Helper()
	off, grace := false, int64(10)
	return corev1.PodSpec{
		NodeSelector:                  map[string]string{TestLabel: scope(tb), realnode.Label: realnode.LabelValue},
		AutomountServiceAccountToken:  &off,
		TerminationGracePeriodSeconds: &grace,
		DNSPolicy:                     corev1.DNSDefault, // there is no cluster DNS
		Containers: []corev1.Container{{
			Name:    "workload",
			Image:   image.Name,
			Command: append([]string{image.Program, "-listen=:8080"}, args...),
			ReadinessProbe: &corev1.Probe{
				ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(8080)}},
				PeriodSeconds: 1,
				// Unready is a pod that says so, not one that a busy machine keeps from saying anything.
				TimeoutSeconds: 10,
			},
		}},
	}
}

func (l *Lab) stopRealNodes(tb testing.TB, list []*realnode.Node) {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context())
	for _, n := range list {
		if err := n.Stop(); err != nil {
			tb.Error(err)
		}
		if err := l.client.CoreV1().Nodes().Delete(ctx, n.Name, metav1.DeleteOptions{}); err != nil {
			tb.Logf("deleting node: %v", err)
		}
	}
}

// ServeServices makes the addresses of Services lead to ready pods of real nodes until the test ends, for the apiserver
// and for those pods, as kube-proxy would. Only one test at a time may use it. To be called after RealNodes, which finds
// out whether the machine can do that.
func (l *Lab) ServeServices(tb testing.TB) {
	tb.Helper()
	config := serviceproxy.Config{Services: l.cluster.Services(), APIServer: l.cluster.Address()}
	proxy, err := serviceproxy.Start(tb.Context(), l.client, config, func(err error) { tb.Error(err) })
	check(tb, "serving Services", err)
	tb.Cleanup(func() {
		if err := proxy.Stop(); err != nil {
			tb.Error(err)
		}
	})
}

// UsherImage makes an image of usher called image.UsherName for join.Options, as `make image` makes one, and returns its
// archive and the program in it, which runs on the host as well.
func (l *Lab) UsherImage(tb testing.TB, files ...image.File) (archive, program string) {
	tb.Helper()
	dir := tb.TempDir()
	archive, program = filepath.Join(dir, "usher.tar"), filepath.Join(dir, "usher")
	usher := image.Usher{Name: image.UsherName}
	check(tb, "building usher", usher.Compile(tb.Context(), program))
	check(tb, "making an image of usher", usher.Pack(program, archive, files...))
	return archive, program
}
