package observe

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"usher.sh/usher/internal/snapshot"
)

func TestWhoHasCordonedANode(t *testing.T) {
	owns := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	const cordon, taints = `{"f:spec":{"f:taints":{},"f:unschedulable":{}}}`, `{"f:spec":{"f:taints":{}}}`
	const record, none = `{"id":"d1","state":"draining","cordoned":true}`, ""
	cases := map[string]struct {
		record string
		fields []metav1.ManagedFieldsEntry
		want   string
		lost   bool
	}{
		"nothing is known":               {record, nil, "", false},
		"Usher":                          {record, []metav1.ManagedFieldsEntry{owns("kubelet", `{"f:metadata":{}}`), owns("kube-controller-manager", taints), owns("usher", cordon)}, "", false},
		"another one":                    {record, []metav1.ManagedFieldsEntry{owns("usher", `{"f:metadata":{}}`), owns("kubectl", cordon)}, "kubectl", true},
		"both":                           {record, []metav1.ManagedFieldsEntry{owns("usher", cordon), owns("argocd", cordon)}, "argocd", false},
		"another one, since the oldest":  {record, []metav1.ManagedFieldsEntry{owns("ancient-changes", taints), owns("kubectl", cordon)}, "kubectl", true},
		"both, of which one is merged":   {record, []metav1.ManagedFieldsEntry{owns("ancient-changes", cordon), owns("argocd", cordon)}, "argocd", false},
		"merged into the oldest entries": {record, []metav1.ManagedFieldsEntry{owns("ancient-changes", cordon)}, "", false},
		"before the first apply":         {record, []metav1.ManagedFieldsEntry{owns("before-first-apply", cordon)}, "", false},
		"a name that terminals obey":     {record, []metav1.ManagedFieldsEntry{owns("x\x1b[2J", cordon)}, "x", true},
		"fields that cannot be read":     {record, []metav1.ManagedFieldsEntry{owns("kubectl", "["), {Manager: "x"}}, "", false},
		"a node without Usher's record":  {none, []metav1.ManagedFieldsEntry{owns("kubectl", cordon)}, "", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", ManagedFields: c.fields}, Spec: corev1.NodeSpec{Unschedulable: true}}
			if c.record != "" {
				node.Annotations = map[string]string{snapshot.DrainAnnotation: c.record}
			}
			if got := NodeFacts(node); got.CordonedBy != c.want || got.CordonLost != c.lost {
				t.Errorf("cordoned by %q, alone: %t, want %q, %t", got.CordonedBy, got.CordonLost, c.want, c.lost)
			}
		})
	}
}

func TestNodeFacts(t *testing.T) {
	record := &snapshot.DrainRecord{Drainer: snapshot.Drainer{ID: "d1"}, State: "draining"}
	text, err := record.Encode()
	if err != nil {
		t.Fatal(err)
	}
	ready := func(status corev1.ConditionStatus) corev1.NodeStatus {
		return corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse},
			{Type: corev1.NodeReady, Status: status, Reason: "R", Message: "m"},
		}}
	}
	full := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "a", UID: "u", ResourceVersion: "3", Annotations: map[string]string{snapshot.DrainAnnotation: text},
			Labels: map[string]string{corev1.LabelTopologyZone: "z1", corev1.LabelFailureDomainBetaZone: "old"},
		},
		Spec:   corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{{Key: "k"}}},
		Status: ready(corev1.ConditionTrue),
	}
	full.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: quantity.MustParse("3500m"), corev1.ResourceMemory: quantity.MustParse("1Gi"), corev1.ResourcePods: quantity.MustParse("110"),
	}
	cases := map[string]struct {
		node *corev1.Node
		want *snapshot.Node
	}{
		"every field": {full, &snapshot.Node{
			Name: "a", UID: "u", ResourceVersion: "3", Zone: "z1", Labels: full.Labels, Taints: full.Spec.Taints, Unschedulable: true,
			Ready: true, Allocatable: snapshot.Resources{MilliCPU: 3500, Memory: 1 << 30, Pods: 110}, Drain: record,
		}},
		"the label of old": {
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{corev1.LabelFailureDomainBetaZone: "z2"}}},
			&snapshot.Node{Zone: "z2", Labels: map[string]string{corev1.LabelFailureDomainBetaZone: "z2"}, ReadyWhy: "the node has not reported yet"},
		},
		"not ready": {&corev1.Node{Status: ready(corev1.ConditionFalse)}, &snapshot.Node{ReadyWhy: "R: m"}},
		"unknown":   {&corev1.Node{Status: ready(corev1.ConditionUnknown)}, &snapshot.Node{ReadyWhy: "R: m"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, NodeFacts(c.node)); diff != "" {
				t.Error(diff)
			}
		})
	}
	broken := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{snapshot.DrainAnnotation: "{"}}}
	if got := NodeFacts(broken); got.Drain != nil || got.DrainError == "" {
		t.Errorf("a record that cannot be read: %+v", got)
	}
}

func TestBudgetFacts(t *testing.T) {
	least := intstr.FromString("50%")
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u", ResourceVersion: "4", Generation: 2},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &least, UnhealthyPodEvictionPolicy: ptr.To(policyv1.AlwaysAllow)},
		Status: policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: 2, DisruptionsAllowed: 1, CurrentHealthy: 3, DesiredHealthy: 2, ExpectedPods: 4,
			DisruptedPods: map[string]metav1.Time{"web-1": metav1.NewTime(at("2026-11-20T09:00:00Z"))},
			Conditions: []metav1.Condition{{
				Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, LastTransitionTime: metav1.NewTime(at("2026-11-20T08:00:00Z")),
			}},
		},
	}
	want := &snapshot.Budget{
		Namespace: "shop", Name: "web", UID: "u", ResourceVersion: "4", MinAvailable: &least, AlwaysAllow: true, Observed: true,
		Allowed: 1, Current: 3, Desired: 2, Expected: 4,
		Disrupted: map[string]time.Time{"web-1": at("2026-11-20T09:00:00Z")}, BlockedSince: at("2026-11-20T08:00:00Z"),
	}
	got := budgetFacts(budget)
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(snapshot.Budget{}, "Selector")); diff != "" {
		t.Error(diff)
	}
	budget.Generation, budget.Spec.UnhealthyPodEvictionPolicy = 3, ptr.To(policyv1.IfHealthyBudget)
	budget.Status.Conditions[0].Status = metav1.ConditionTrue
	if got := budgetFacts(budget); got.Observed || got.AlwaysAllow || !got.BlockedSince.IsZero() {
		t.Errorf("observed %t, always allow %t, blocked since %s", got.Observed, got.AlwaysAllow, got.BlockedSince)
	}
}

func TestBudgetSelector(t *testing.T) {
	web := labels.Set{"app": "web"}
	for name, c := range map[string]struct {
		selector *metav1.LabelSelector
		want     bool
	}{
		"none matches nothing":     {nil, false},
		"empty matches everything": {&metav1.LabelSelector{}, true},
		"labels":                   {&metav1.LabelSelector{MatchLabels: web}, true},
		"other labels":             {&metav1.LabelSelector{MatchLabels: labels.Set{"app": "db"}}, false},
		"one that cannot be read":  {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			budget := budgetFacts(&policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{Selector: c.selector}})
			if got := budget.Matches(&snapshot.Pod{Labels: web}); got != c.want {
				t.Errorf("got %t, want %t", got, c.want)
			}
		})
	}
}

func TestWhetherARolloutIsStuck(t *testing.T) {
	late := []appsv1.DeploymentCondition{{
		Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded", Message: "web-2 has timed out progressing.",
	}}
	cases := map[string]struct {
		paused     bool
		updated    int32
		generation int64
		conditions []appsv1.DeploymentCondition
		want       string
	}{
		"it goes on":              {false, 1, 2, nil, ""},
		"paused":                  {true, 1, 2, nil, "its rollout is paused"},
		"paused at rest":          {true, 3, 2, nil, ""},
		"past its deadline":       {false, 1, 2, late, "its rollout does not go on: ProgressDeadlineExceeded: web-2 has timed out progressing."},
		"the deadline of another": {false, 1, 3, late, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := DeploymentFacts(&appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Generation: c.generation},
				Spec:       appsv1.DeploymentSpec{Replicas: ptr.To[int32](3), Paused: c.paused},
				Status:     appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: c.updated, Conditions: c.conditions},
			}).RolloutStuck
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestWhetherWorkloadsAreSettled(t *testing.T) {
	seen := metav1.ObjectMeta{Generation: 2}
	deployment := func(observed int64, replicas, updated int32) *snapshot.Workload {
		return DeploymentFacts(&appsv1.Deployment{
			ObjectMeta: seen, Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](3)},
			Status: appsv1.DeploymentStatus{ObservedGeneration: observed, Replicas: replicas, UpdatedReplicas: updated},
		})
	}
	statefulSet := func(strategy appsv1.StatefulSetUpdateStrategy, updated int32) *snapshot.Workload {
		return statefulSetFacts(&appsv1.StatefulSet{
			ObjectMeta: seen, Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](3), UpdateStrategy: strategy},
			Status: appsv1.StatefulSetStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: updated, CurrentRevision: "1", UpdateRevision: "2"},
		})
	}
	daemonSet := func(strategy appsv1.DaemonSetUpdateStrategyType) *snapshot.Workload {
		return daemonSetFacts(&appsv1.DaemonSet{
			ObjectMeta: seen, Spec: appsv1.DaemonSetSpec{UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: strategy}},
			Status: appsv1.DaemonSetStatus{ObservedGeneration: 2, DesiredNumberScheduled: 3, UpdatedNumberScheduled: 2},
		})
	}
	partition := appsv1.StatefulSetUpdateStrategy{RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](2)}}
	cases := map[string]struct {
		facts *snapshot.Workload
		want  bool
	}{
		"a Deployment at rest":                   {deployment(2, 3, 3), true},
		"its spec is not seen":                   {deployment(1, 3, 3), false},
		"in a rollout":                           {deployment(2, 4, 2), false},
		"the last old pod is still there":        {deployment(2, 4, 3), false},
		"paused before the first new pod":        {deployment(2, 3, 0), false},
		"Recreate, with no pod at all":           {deployment(2, 0, 0), false},
		"scaled, the pods not made":              {deployment(2, 2, 2), false},
		"a StatefulSet in a rollout":             {statefulSet(appsv1.StatefulSetUpdateStrategy{}, 1), false},
		"below its partition it stays":           {statefulSet(partition, 1), true},
		"above its partition it rolls":           {statefulSet(partition, 0), false},
		"OnDelete never rolls":                   {statefulSet(appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}, 0), true},
		"a DaemonSet in a rollout":               {daemonSet(appsv1.RollingUpdateDaemonSetStrategyType), false},
		"a DaemonSet that others renew":          {daemonSet(appsv1.OnDeleteDaemonSetStrategyType), true},
		"a ReplicaSet that is scaled":            {replicaSetFacts(&appsv1.ReplicaSet{Status: appsv1.ReplicaSetStatus{Replicas: 0}}), false},
		"a ReplicationController has its pod":    {replicationControllerFacts(&corev1.ReplicationController{Status: corev1.ReplicationControllerStatus{Replicas: 1}}), true},
		"a ReplicationController has not got it": {replicationControllerFacts(&corev1.ReplicationController{}), false},
		"a Job":                                  {jobFacts(&batchv1.Job{}), true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.facts.Settled != c.want {
				t.Errorf("got %t, want %t: %+v", c.facts.Settled, c.want, c.facts)
			}
		})
	}
}

func TestWorkloadFacts(t *testing.T) {
	meta := metav1.ObjectMeta{
		Namespace: "shop", Name: "web-1", UID: "u", ResourceVersion: "5",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "d", Controller: new(true)}},
	}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}}
	want := func(kind string, replicas int32) *snapshot.Workload {
		return &snapshot.Workload{
			Kind: kind, Namespace: "shop", Name: "web-1", UID: "u", ResourceVersion: "5",
			Owner:  snapshot.Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "d"},
			Labels: template.Labels, Replicas: replicas, MinReady: 5 * time.Second,
		}
	}
	noMinReady := want("Job", -1)
	noMinReady.MinReady = 0
	for _, c := range []struct{ got, want *snapshot.Workload }{
		{DeploymentFacts(&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Template: template, MinReadySeconds: 5}}), want("Deployment", 1)},
		{replicaSetFacts(&appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](0), Template: template, MinReadySeconds: 5}}), want("ReplicaSet", 0)},
		{statefulSetFacts(&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](3), Template: template, MinReadySeconds: 5}}), want("StatefulSet", 3)},
		{daemonSetFacts(&appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Template: template, MinReadySeconds: 5}}), want("DaemonSet", -1)},
		{replicationControllerFacts(&corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Template: &template, MinReadySeconds: 5}}), want("ReplicationController", 1)},
		{jobFacts(&batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: template, Parallelism: ptr.To[int32](4)}}), noMinReady},
	} {
		if diff := cmp.Diff(c.want, c.got, cmpopts.IgnoreFields(snapshot.Workload{}, "Settled")); diff != "" {
			t.Errorf("%s: %s", c.want.Kind, diff)
		}
	}
}

func TestOtherFacts(t *testing.T) {
	scaler := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u", ResourceVersion: "6"},
		Spec:       autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "web"}, MaxReplicas: 5},
	}
	want := &snapshot.Autoscaler{Namespace: "shop", Name: "web", UID: "u", ResourceVersion: "6", TargetKind: "Deployment", TargetName: "web", Min: 1, Max: 5}
	if diff := cmp.Diff(want, AutoscalerFacts(scaler)); diff != "" {
		t.Error(diff)
	}
	scaler.Spec.MinReplicas = ptr.To[int32](3)
	if got := AutoscalerFacts(scaler).Min; got != 3 {
		t.Errorf("min %d, want 3", got)
	}
	for mode, shared := range map[corev1.PersistentVolumeAccessMode]bool{
		corev1.ReadWriteOnce: false, corev1.ReadWriteOncePod: false, corev1.ReadWriteMany: true, corev1.ReadOnlyMany: true,
	} {
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data"},
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv", AccessModes: []corev1.PersistentVolumeAccessMode{mode}},
		}
		if diff := cmp.Diff(&snapshot.Claim{Namespace: "shop", Name: "data", Volume: "pv", Shared: shared}, claimFacts(claim)); diff != "" {
			t.Errorf("%s: %s", mode, diff)
		}
	}
	attachment := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: storagev1.VolumeAttachmentSpec{NodeName: "a"}}
	if diff := cmp.Diff(&snapshot.Attachment{Name: "x", Node: "a"}, attachmentFacts(attachment)); diff != "" {
		t.Error(diff)
	}
	attachment.Spec.Source.PersistentVolumeName = new("pv")
	if got := attachmentFacts(attachment).Volume; got != "pv" {
		t.Errorf("volume %q, want pv", got)
	}
}
