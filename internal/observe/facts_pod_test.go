package observe

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"usher.sh/usher/internal/snapshot"
)

func readySince(when string) corev1.PodCondition {
	return corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at(when))}
}

func requestsOf(cpu, memory string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: quantity.MustParse(cpu), corev1.ResourceMemory: quantity.MustParse(memory),
	}}
}

// fullPod has something in every field that facts are made of.
func fullPod() *corev1.Pod {
	deleted := metav1.NewTime(at("2026-11-20T10:00:00Z"))
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "db-0", UID: "u", ResourceVersion: "9",
			Labels:            map[string]string{"app": "db"},
			CreationTimestamp: metav1.NewTime(at("2026-11-20T09:00:00Z")),
			DeletionTimestamp: &deleted,
			Finalizers:        []string{"example.com/hold"},
			Annotations: map[string]string{
				corev1.MirrorPodAnnotationKey: "x", snapshot.OrderAnnotation: "-3",
				snapshot.CostAnnotation: "5", snapshot.CostMarkAnnotation: "d1=4",
			},
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Thing", Name: "other", UID: "o"},
				{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "s", Controller: new(true)},
			},
		},
		Spec: corev1.PodSpec{
			NodeName: "a", Priority: ptr.To[int32](7), PriorityClassName: "high",
			TerminationGracePeriodSeconds: ptr.To[int64](90),
			NodeSelector:                  map[string]string{"disk": "ssd"},
			Tolerations:                   []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}},
			Overhead:                      corev1.ResourceList{corev1.ResourceCPU: quantity.MustParse("50m")},
			InitContainers: []corev1.Container{
				{Name: "large", Resources: requestsOf("1", "10Mi")},
				{Name: "sidecar", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways), Resources: requestsOf("100m", "20Mi")},
			},
			Containers: []corev1.Container{{Name: "db", Resources: requestsOf("500m", "100Mi")}},
			Volumes: []corev1.Volume{
				{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "conf", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
				{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-db-0"}}},
				{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
			},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{readySince("2026-11-20T09:01:00Z")}},
	}
}

func TestPodFacts(t *testing.T) {
	want := &snapshot.Pod{
		Namespace: "shop", Name: "db-0", UID: "u", ResourceVersion: "9", Node: "a",
		Labels: map[string]string{"app": "db"},
		Owner:  snapshot.Owner{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "s"},
		Phase:  corev1.PodRunning, Created: at("2026-11-20T09:00:00Z"),
		Ready: true, ReadySince: at("2026-11-20T09:01:00Z"), // a condition: that it terminates is a fact of its own
		Deletion: at("2026-11-20T10:00:00Z"), Grace: 90 * time.Second, Finalizers: []string{"example.com/hold"},
		Priority: 7, PriorityClass: "high", Mirror: true,
		EmptyDirs: []string{"tmp"}, Claims: []string{"data-db-0", "db-0-scratch"},
		Requests:     snapshot.Resources{MilliCPU: 1050, Memory: 120 << 20, Pods: 1}, // the large init container's CPU, the running ones' memory
		NodeSelector: map[string]string{"disk": "ssd"},
		Tolerations:  []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}},
		Order:        -3, DeletionCost: "5", CostMark: "d1=4",
	}
	if diff := cmp.Diff(want, PodFacts(fullPod())); diff != "" {
		t.Error(diff)
	}
}

func TestPodFactsOfAnEmptyPod(t *testing.T) {
	want := &snapshot.Pod{Grace: 30 * time.Second, Requests: snapshot.Resources{Pods: 1}}
	if diff := cmp.Diff(want, PodFacts(&corev1.Pod{})); diff != "" {
		t.Error(diff)
	}
}

// A grace of three centuries is a long one.
func TestGraceThatNoDurationHolds(t *testing.T) {
	for _, seconds := range []int64{9_223_372_037, 18_446_744_074, math.MaxInt64} {
		if got := PodFacts(&corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &seconds}}).Grace; got < 50*365*24*time.Hour {
			t.Errorf("%d seconds of grace are %s", seconds, got)
		}
	}
}

func TestWhyAPodIsNotReady(t *testing.T) {
	condition := func(kind corev1.PodConditionType, reason, message string) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: reason, Message: message}
	}
	unready := condition(corev1.PodReady, "ContainersNotReady", "containers with unready status: [web]")
	waits := func(reason, message string) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: "web", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
	}
	failed := []corev1.ContainerStatus{{Name: "web", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}}}}
	says := func(message string) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: "web", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: message}}}}
	}
	done := []corev1.ContainerStatus{{Name: "setup", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}}}}
	cases := map[string]struct {
		status        corev1.PodStatus
		why           string
		unschedulable bool
	}{
		"nothing is known":    {corev1.PodStatus{}, "", false},
		"no node fits":        {corev1.PodStatus{Conditions: []corev1.PodCondition{condition(corev1.PodScheduled, "Unschedulable", "0/3 nodes are available")}}, "Unschedulable: 0/3 nodes are available", true},
		"held by a gate":      {corev1.PodStatus{Conditions: []corev1.PodCondition{condition(corev1.PodScheduled, "SchedulingGated", "gated")}}, "SchedulingGated: gated", false},
		"a probe fails":       {corev1.PodStatus{Conditions: []corev1.PodCondition{unready}}, "ContainersNotReady: containers with unready status: [web]", false},
		"no image":            {corev1.PodStatus{Conditions: []corev1.PodCondition{unready}, ContainerStatuses: waits("ImagePullBackOff", "no such image")}, "web: ImagePullBackOff: no such image", false},
		"it is being created": {corev1.PodStatus{Conditions: []corev1.PodCondition{unready}, ContainerStatuses: waits("ContainerCreating", "")}, "ContainersNotReady: containers with unready status: [web]", false},
		"it has failed":       {corev1.PodStatus{Conditions: []corev1.PodCondition{unready}, ContainerStatuses: failed}, "web: Error", false},
		"it has last words":   {corev1.PodStatus{ContainerStatuses: says("\x1b[2Jrun: kubectl\n delete\u202e \"all\"")}, `web: Error: "run: kubectl delete \"all\""`, false},
		"it has many":         {corev1.PodStatus{ContainerStatuses: says(strings.Repeat("x", 4096))}, `web: Error: "` + strings.Repeat("x", 253) + `…"`, false},
		"an image of its own": {corev1.PodStatus{ContainerStatuses: waits("ErrImagePull", "no \x1b]0;x\aimage")}, "web: ErrImagePull: no image", false},
		"a scheduler's words": {corev1.PodStatus{Conditions: []corev1.PodCondition{condition(corev1.PodScheduled, "Unschedulable", "0/3 nodes\n\x1b[31m fit")}}, "Unschedulable: 0/3 nodes fit", true},
		"set up, then waits":  {corev1.PodStatus{Conditions: []corev1.PodCondition{unready}, InitContainerStatuses: done, ContainerStatuses: waits("CrashLoopBackOff", "")}, "web: CrashLoopBackOff", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := PodFacts(&corev1.Pod{Status: c.status})
			if got.Ready || !got.ReadySince.IsZero() || got.NotReadyWhy != c.why || got.Unschedulable != c.unschedulable {
				t.Errorf("ready %t since %s, why %q, unschedulable %t; want why %q, unschedulable %t",
					got.Ready, got.ReadySince, got.NotReadyWhy, got.Unschedulable, c.why, c.unschedulable)
			}
		})
	}
}

func TestSpreadHosts(t *testing.T) {
	own := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	other := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}
	term := func(selector *metav1.LabelSelector, key string) corev1.PodAffinityTerm {
		return corev1.PodAffinityTerm{LabelSelector: selector, TopologyKey: key}
	}
	elsewhere := term(own, corev1.LabelHostname)
	elsewhere.Namespaces = []string{"other"}
	anywhere := elsewhere
	anywhere.NamespaceSelector = &metav1.LabelSelector{}
	cases := map[string]struct {
		required, preferred []corev1.PodAffinityTerm
		want                bool
	}{
		"none":                  {nil, nil, false},
		"its own kind":          {[]corev1.PodAffinityTerm{term(own, corev1.LabelHostname)}, nil, true},
		"the second term":       {[]corev1.PodAffinityTerm{term(other, corev1.LabelHostname), term(own, corev1.LabelHostname)}, nil, true},
		"another kind":          {[]corev1.PodAffinityTerm{term(other, corev1.LabelHostname)}, nil, false},
		"by zone":               {[]corev1.PodAffinityTerm{term(own, corev1.LabelTopologyZone)}, nil, false},
		"preferred":             {nil, []corev1.PodAffinityTerm{term(own, corev1.LabelHostname)}, false},
		"no selector":           {[]corev1.PodAffinityTerm{term(nil, corev1.LabelHostname)}, nil, false},
		"another namespace":     {[]corev1.PodAffinityTerm{elsewhere}, nil, false},
		"a namespace selector":  {[]corev1.PodAffinityTerm{anywhere}, nil, true},
		"every pod of its kind": {[]corev1.PodAffinityTerm{term(&metav1.LabelSelector{}, corev1.LabelHostname)}, nil, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			affinity := &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: c.required}
			for _, term := range c.preferred {
				affinity.PreferredDuringSchedulingIgnoredDuringExecution = append(affinity.PreferredDuringSchedulingIgnoredDuringExecution,
					corev1.WeightedPodAffinityTerm{Weight: 1, PodAffinityTerm: term})
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Labels: map[string]string{"app": "web"}}}
			pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: affinity}
			if got := PodFacts(pod).SpreadHosts; got != c.want {
				t.Errorf("got %t, want %t", got, c.want)
			}
		})
	}
}

// What is not an integer counts as 0 and is marked; what is one comes through.
func FuzzOrder(f *testing.F) {
	for _, text := range []string{"0", "-3", "+4", "", " 1", "1.5", "99999999999999999999", "0x10", "١"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := PodFacts(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{snapshot.OrderAnnotation: text}}})
		want, err := strconv.Atoi(text)
		if (err != nil) != got.OrderInvalid || (err == nil && got.Order != want) || (err != nil && got.Order != 0) {
			t.Errorf("%q: order %d, invalid: %t", text, got.Order, got.OrderInvalid)
		}
	})
}
