package nodepressure

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

func TestPodOf(t *testing.T) {
	p := apiPod(container("a", list("1", "1Gi", "1Mi"), nil))
	p.Spec.Priority = new(int32(7))
	p.Spec.TerminationGracePeriodSeconds = new(int64(90))
	p.Labels = map[string]string{v1alpha1.PolicyLabel: "db"}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Controller: new(true)}}
	want := Pod{
		Namespace: "default", Name: "pod", UID: "uid", Priority: 7, QoS: corev1.PodQOSBurstable,
		Requests: Requests{Memory: gi, Disk: mi}, Grace: 90 * time.Second, Governed: true, Policy: "db", DaemonSet: true,
		Containers: []Container{{Name: "a", MemoryRequest: gi, DiskRequest: mi, OOMRequest: gi, Restart: corev1.RestartPolicyAlways, Usage: -1}},
	}
	if diff := cmp.Diff(want, PodOf(p)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A controller of another group that is called DaemonSet may put its pods on other nodes.
func TestPodOfAnotherGroupsDaemonSet(t *testing.T) {
	p := apiPod(container("a", nil, nil))
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1alpha1", Kind: "DaemonSet", Controller: new(true)}}
	if PodOf(p).DaemonSet {
		t.Error("it counts as a pod of a DaemonSet")
	}
}

// A pod that wants more and has not got it is measured against what it has.
func TestPodOfBeingResized(t *testing.T) {
	p := apiPod(container("a", list("1", "4Gi", "8Mi"), nil), container("b", list("1", "1Gi", ""), nil))
	p.Status.QOSClass = corev1.PodQOSBurstable
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a", AllocatedResources: list("1", "2Gi", "8Mi")}, {Name: "b"}}
	got := PodOf(p)
	if got.Requests.Memory != 3*gi || got.Requests.Disk != 8*mi || got.Containers[0].MemoryRequest != 2*gi || got.Containers[0].OOMRequest != 2*gi {
		t.Errorf("requests %+v, containers %+v", got.Requests, got.Containers)
	}
	if q := p.Spec.Containers[0].Resources.Requests.Memory(); q.Value() != 4*gi {
		t.Errorf("the pod that was given now requests %s", q)
	}
}

func TestPodOfTerminating(t *testing.T) {
	p := apiPod()
	p.Spec.TerminationGracePeriodSeconds = new(int64(90))
	p.DeletionTimestamp = &metav1.Time{Time: noon.Add(20 * time.Second)}
	p.DeletionGracePeriodSeconds = new(int64(20))
	if got := PodOf(p); !got.Terminating || got.Grace != 20*time.Second || !got.DeletedAt.Equal(noon) {
		t.Errorf("got terminating %v, grace %v, deleted at %v", got.Terminating, got.Grace, got.DeletedAt)
	}
}

func TestGraceThatNoDurationHolds(t *testing.T) {
	p := apiPod()
	for _, seconds := range []int64{9_223_372_037, 18_446_744_074, math.MaxInt64} {
		p.Spec.TerminationGracePeriodSeconds, p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &seconds, nil, nil
		if got := PodOf(p).Grace; got < 50*365*24*time.Hour {
			t.Errorf("%d seconds of grace are %s", seconds, got)
		}
		p.Spec.TerminationGracePeriodSeconds, p.DeletionTimestamp, p.DeletionGracePeriodSeconds = nil, &metav1.Time{Time: noon}, &seconds
		if got := PodOf(p); got.Grace < 50*365*24*time.Hour || got.SpecGrace != 30*time.Second {
			t.Errorf("deleted with %d seconds of grace it has %s, and %s by its spec", seconds, got.Grace, got.SpecGrace)
		}
	}
}

// At a soft threshold a pod gets the grace of its spec, or the one that it was deleted with if that is shorter.
func TestGraceOfTerminating(t *testing.T) {
	for name, test := range map[string]struct {
		spec, deleted int64
		leaves        time.Duration // how long it may take as it is
		longest       int32
		want          time.Duration
	}{
		"deleted with more":              {30, 300, 300 * time.Second, 600, 30 * time.Second},
		"deleted with less":              {30, 10, 10 * time.Second, 600, 10 * time.Second},
		"deleted with more than none":    {0, 300, 300 * time.Second, 600, time.Second},
		"deleted with more, and limited": {30, 300, 300 * time.Second, 20, 20 * time.Second},
		"deleted with more, unlimited":   {30, 300, 300 * time.Second, -1, 30 * time.Second},
		"deleted with none":              {30, 0, 0, 600, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			p := apiPod(container("a", nil, nil))
			p.Spec.TerminationGracePeriodSeconds, p.DeletionGracePeriodSeconds = &test.spec, &test.deleted
			p.DeletionTimestamp = &metav1.Time{Time: noon}
			pod := PodOf(p)
			pod.Usage = &Usage{At: noon, Memory: gi}
			in := Input{
				Now: noon, Node: memoryNode(150*mi, noon), Pods: []Pod{pod}, Config: Config{EvictionMaxPodGracePeriod: test.longest},
				Thresholds: []Threshold{soft(MemoryAvailable, "200Mi", 30*time.Second)},
			}
			state, _ := State{}.Step(in)
			in.Now = noon.Add(time.Minute)
			in.Node = memoryNode(150*mi, in.Now)
			_, out := state.Step(in)
			if out.Victim == nil || out.Victim.Grace != test.want || pod.Grace != test.leaves {
				t.Errorf("victim %+v, leaves within %s; want %s and %s", out.Victim, pod.Grace, test.want, test.leaves)
			}
		})
	}
}

// 116: static and critical pods are not evicted.
func TestExempt(t *testing.T) {
	for name, test := range map[string]struct {
		annotations map[string]string
		priority    *int32
		want        string
	}{
		"ordinary":          {nil, nil, ""},
		"from the API":      {map[string]string{"kubernetes.io/config.source": "api"}, nil, ""},
		"said to be static": {map[string]string{"kubernetes.io/config.source": "file"}, nil, ""},
		"static":            {map[string]string{"kubernetes.io/config.source": "file", "kubernetes.io/config.mirror": "x"}, nil, ExemptMirror},
		"mirror":            {map[string]string{"kubernetes.io/config.mirror": "x"}, nil, ExemptMirror},
		"critical":          {nil, new(int32(2_000_000_000)), ExemptCritical},
		"nearly critical":   {nil, new(int32(1_999_999_999)), ""},
		"mirror, critical":  {map[string]string{"kubernetes.io/config.mirror": "x"}, new(int32(2_000_001_000)), ExemptMirror},
	} {
		t.Run(name, func(t *testing.T) {
			p := apiPod()
			p.Annotations, p.Spec.Priority = test.annotations, test.priority
			p.Spec.PriorityClassName = "system-node-critical"
			got := PodOf(p)
			if got.Exempt != test.want || got.NodeCritical != (test.want != "") {
				t.Errorf("exempt %q, node critical %v; want %q", got.Exempt, got.NodeCritical, test.want)
			}
		})
	}
}
