package manager

import (
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/memberset"
	"usher.sh/usher/internal/policycache"
)

// crowdPod is a pod of a ReplicaSet with twenty of them, as a client gets it.
func crowdPod(t testing.TB, i int) *corev1.Pod {
	t.Helper()
	app := fmt.Sprintf("app-%d", i/20)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprintf("crowd-%d", i/20%40), Name: fmt.Sprintf("%s-6d5f7c9b8d-%05d", app, i),
			UID: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i)), ResourceVersion: fmt.Sprint(1000000 + i),
			Labels: map[string]string{
				"app.kubernetes.io/name": app, "app.kubernetes.io/part-of": "crowd", "app.kubernetes.io/version": "1.2.3", "pod-template-hash": "6d5f7c9b8d",
			},
			Annotations: map[string]string{
				"prometheus.io/scrape": "true", "cni.projectcalico.org/podIP": fmt.Sprintf("10.128.%d.%d/32", i/256, i%256),
				"cni.projectcalico.org/containerID": fmt.Sprintf("%064d", i),
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-6d5f7c9b8d", UID: types.UID("of-" + app), Controller: new(true), BlockOwnerDeletion: new(true),
			}},
		},
		Spec: corev1.PodSpec{
			NodeName: fmt.Sprintf("node-%d", i%1000), Containers: []corev1.Container{{Name: "c", Image: "registry.example/team/c:v1"}},
			Volumes: []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.128.12.34", Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	return received(t, pod)
}

// received returns the pod as a client decodes it: all of its strings share the memory of the message.
func received(t testing.TB, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	wire, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	got := &corev1.Pod{}
	if err := got.Unmarshal(wire); err != nil {
		t.Fatal(err)
	}
	return got
}

func (s *slimmer) slim(t testing.TB, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	slim, err := s.pod(pod)
	if err != nil {
		t.Fatal(err)
	}
	return slim.(*corev1.Pod)
}

// mostOfAPod is what a pod that no policy governs may take in the cache, in bytes: with 150,000 of them, and
// mostGarbage beside them, the manager stays below its limit of 512Mi.
const mostOfAPod = 1000

func TestManyPodsFitIntoMemory(t *testing.T) {
	const pods = 20000
	store := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	s := &slimmer{}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range pods {
		if err := store.Add(compact(s.slim(t, crowdPod(t, i)))); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / pods
	t.Logf("%d bytes a pod", each)
	if each > mostOfAPod {
		t.Errorf("a pod takes %d bytes, want %d at most", each, mostOfAPod)
	}
	runtime.KeepAlive(store)
}

func TestPodsAreReducedWhereNoPolicyIs(t *testing.T) {
	policy := &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "crowd-0", Name: "db", UID: "p"}}
	s := &slimmer{}
	before := s.slim(t, crowdPod(t, 0))
	if !policycache.Reduced(before) || len(before.Annotations) > 0 || before.Spec.NodeName != "node-0" || before.Status.Phase != corev1.PodRunning {
		t.Errorf("without a policy %+v is kept", before)
	}
	s.policies.add(policy)
	whole := s.slim(t, crowdPod(t, 0))
	if diff := cmp.Diff(slimPod(crowdPod(t, 0)), whole); diff != "" || policycache.Reduced(whole) {
		t.Errorf("with a policy (-want +got):\n%s", diff)
	}
	if again := s.slim(t, before); !policycache.Reduced(again) {
		t.Error("what was dropped does not come back, and the pod looks as if it were whole")
	}
	s.policies.remove(policy)
	if s.policies.in("crowd-0") {
		t.Error("the namespace of a policy that is gone has one")
	}
	labelled := crowdPod(t, 0)
	labelled.Labels[v1alpha1.PolicyLabel] = "db"
	labelled.Annotations[v1alpha1.BreakGlassAnnotation] = "it burns"
	slim := s.slim(t, labelled)
	if !policycache.Reduced(slim) {
		t.Error("a label that anyone may write keeps a pod whole")
	}
	if len(slim.Labels) != 1 || slim.Labels[v1alpha1.PolicyLabel] != "db" || slim.Annotations[v1alpha1.BreakGlassAnnotation] != "it burns" {
		t.Errorf("kept are labels %v and annotations %v", slim.Labels, slim.Annotations)
	}
}

func TestTolerationsOfRolesAreKept(t *testing.T) {
	noExecute := func(key string) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	}
	pod := crowdPod(t, 0)
	pod.Spec.Tolerations = []corev1.Toleration{
		noExecute("gpu"),
		{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule},
		noExecute(corev1.TaintNodeUnreachable),
		{Operator: corev1.TolerationOpExists},
		noExecute(corev1.TaintNodeNotReady), noExecute(""), noExecute(corev1.TaintNodeNotReady),
	}
	s := &slimmer{}
	if kept := s.slim(t, pod).Spec.Tolerations; len(kept) > 0 {
		t.Errorf("without a policy %v are kept", kept)
	}
	s.policies.add(&v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: "db", UID: "p"}})
	if diff := cmp.Diff(pod.Spec.Tolerations[2:6], s.slim(t, pod).Spec.Tolerations); diff != "" {
		t.Errorf("with a policy (-want +got):\n%s", diff)
	}
}

// mostOfAReduced and mostOfAWhole bound what is kept of a pod whatever its owner has written on it, in bytes; see docs/policies.md.
const (
	mostOfAReduced = 4 << 10
	mostOfAWhole   = 96 << 10
)

// largePod is a pod as large as an apiserver takes.
func largePod(t testing.TB, i int) *corev1.Pod {
	t.Helper()
	pod := crowdPod(t, i)
	text := strings.Repeat("x", 60<<10)
	pod.Labels[v1alpha1.PolicyLabel] = "db"
	pod.Labels[v1alpha1.AuditLabel] = "trial"
	for n := range 1000 {
		pod.Labels[fmt.Sprintf("l%d-%d", i, n)] = ""
		pod.Labels[fmt.Sprintf("label-%d-%d", i, n)] = text[:60]
		pod.Annotations[fmt.Sprintf("small-%d-%d", i, n)] = text[:n/10]
		pod.OwnerReferences = append(pod.OwnerReferences, metav1.OwnerReference{Kind: "ConfigMap", Name: text[:200], UID: types.UID(fmt.Sprint(i, n))})
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
			Name:         fmt.Sprintf("%d-%s", n, text[:58]),
			VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: text[:max(240, len(text)-n*len(text)/10)] + fmt.Sprint(n)}},
		})
	}
	for _, key := range []string{"large", v1alpha1.BreakGlassAnnotation, corev1.MirrorPodAnnotationKey} {
		pod.Annotations[key] = fmt.Sprint(text, i)
	}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "late", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	for n := range 100 {
		pod.Spec.Volumes = append(pod.Spec.Volumes,
			corev1.Volume{Name: fmt.Sprintf("e%d-%s", n, text[:58]), VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			corev1.Volume{Name: fmt.Sprintf("g%d-%s", n, text[:58]), VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}})
	}
	return received(t, pod)
}

// TestLargePodsAreBounded: what a tenant writes on pods does not fill the memory, whether or not a policy is there.
func TestLargePodsAreBounded(t *testing.T) {
	for _, whole := range []bool{false, true} {
		s, most := &slimmer{}, int64(mostOfAReduced)
		if whole {
			most = mostOfAWhole
			s.policies.add(&v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "crowd-0", UID: "p"}})
		}
		const pods = 20 // of one namespace
		kept := make([]*corev1.Pod, pods)
		for i := range kept {
			kept[i] = s.slim(t, largePod(t, i))
		}
		for _, pod := range kept {
			facts := policycache.Facts(pod)
			if policycache.Reduced(pod) == whole || pod.Labels[v1alpha1.PolicyLabel] != "db" || pod.Labels[v1alpha1.AuditLabel] != "trial" || pod.Annotations[v1alpha1.BreakGlassAnnotation] == "" || !facts.Mirror {
				t.Fatalf("whole %t: what Usher needs is missing: %d labels, %d annotations", whole, len(pod.Labels), len(pod.Annotations))
			}
			if whole && (!slices.Contains(facts.EmptyDirs, "late") || facts.Claims == nil || facts.Owner.Kind != "ReplicaSet" || pod.Annotations["prometheus.io/scrape"] != "true") {
				t.Fatalf("what policies ask for is missing: volumes %q and %d claims, owner %+v", facts.EmptyDirs, len(facts.Claims), facts.Owner)
			}
		}
		with := liveHeap()
		runtime.KeepAlive(kept)
		runtime.KeepAlive(s)
		if each := (with - liveHeap()) / pods; each > most {
			t.Errorf("whole %t: a pod takes %d bytes, want %d at most", whole, each, most)
		}
	}
}

// liveHeap is what is in use. What a sync.Pool holds goes with the second collection.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// TestKinShareNothingThatDiffers: what is kept once is equal.
func TestKinShareNothingThatDiffers(t *testing.T) {
	s := &slimmer{}
	s.policies.add(&v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "crowd-0", UID: "p"}})
	s.slim(t, crowdPod(t, 0))
	for i, change := range []func(*corev1.Pod){
		func(*corev1.Pod) {},
		func(p *corev1.Pod) { p.Labels["version"] = "2" },
		func(p *corev1.Pod) { p.Labels, p.Annotations = nil, map[string]string{} },
		func(p *corev1.Pod) {
			p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{Name: "second"})
		},
		func(p *corev1.Pod) { p.OwnerReferences = nil },
	} {
		pod := crowdPod(t, i+1)
		change(pod)
		want := slimPod(pod.DeepCopy())
		got := s.slim(t, pod)
		if !maps.Equal(got.Labels, want.Labels) || !maps.Equal(got.Annotations, want.Annotations) || len(got.OwnerReferences) != len(want.OwnerReferences) || got.Namespace != want.Namespace {
			t.Errorf("change %d: got %+v, want %+v", i, got.ObjectMeta, want.ObjectMeta)
		}
	}
}

func TestKinAreBounded(t *testing.T) {
	k := &kin{}
	for i := range 3 * mostKin {
		pod := &corev1.Pod{}
		pod.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(fmt.Sprint(i)), Controller: new(true)}}
		k.share(pod)
	}
	if len(k.latest) > mostKin {
		t.Errorf("%d controllers are remembered, want %d at most", len(k.latest), mostKin)
	}
}

// largeMeta is metadata as large as an apiserver takes.
func largeMeta(i int) metav1.ObjectMeta {
	text := strings.Repeat("x", 60<<10)
	meta := metav1.ObjectMeta{
		Namespace: "crowd-0", Name: fmt.Sprint("large-", i), UID: types.UID(fmt.Sprint(i)), Labels: map[string]string{},
		Annotations: map[string]string{evictionrequest.LastRequestTimeAnnotation: fmt.Sprint(i, text), "large": fmt.Sprint(text, i)},
	}
	for n := range 1000 {
		meta.Labels[fmt.Sprintf("label-%d-%d", i, n)] = text[:60]
		meta.Finalizers = append(meta.Finalizers, fmt.Sprintf("%s/%d-%d", text[:200], i, n))
		meta.OwnerReferences = append(meta.OwnerReferences, metav1.OwnerReference{Kind: "ConfigMap", Name: strings.Clone(text[:200]), UID: types.UID(fmt.Sprint(i, n))})
	}
	meta.Finalizers = append(meta.Finalizers, v1alpha1.UndoFinalizer)
	for n := range 20 {
		meta.ManagedFields = append(meta.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: fmt.Sprint("writer-", n), Subresource: "status", Operation: metav1.ManagedFieldsOperationApply,
			FieldsV1: metav1.NewFieldsV1(fmt.Sprintf(`{"f:metadata":{"f:labels":{"f:%d%s":{}}},"f:spec":{"f:intent":{}},"f:status":{"f:requesters":{"f:%s":{}}}}`, i, text, text)),
		})
	}
	return meta
}

// transformed is what the cache keeps of an object.
func transformed(object any) (any, error) {
	for kind, by := range cacheOptions(&slimmer{}, requests{}, Options{}).ByObject {
		if reflect.TypeOf(kind) == reflect.TypeOf(object) && by.Transform != nil {
			return by.Transform(object)
		}
	}
	return object, nil
}

// largeSet is a set whose metadata and templates are as large, and of whose members one is kept from starting among many others.
func largeSet(i int) any {
	text := strings.Repeat("x", 60<<10)
	set := &v1alpha1.MemberSet{ObjectMeta: largeMeta(i), Status: v1alpha1.MemberSetStatus{ClusterFile: fmt.Sprint(i, text), Members: []v1alpha1.SetMember{
		{ID: "db-1", Shape: v1alpha1.MemberShape{NodeSelector: map[string]string{"large": fmt.Sprint(i, text)}}},
	}}}
	set.Annotations[v1alpha1.CrashLoopPrefix+"kv"] = fmt.Sprint(text, i, ",db-1")
	raw := fmt.Appendf(nil, `{"metadata":{"annotations":{"large":"%d%s"}}}`, i, text)
	set.Spec.Groups = []v1alpha1.MemberGroup{{Name: "a", Template: k8sruntime.RawExtension{Raw: raw}}}
	return set
}

// TestLargeObjectsAreBounded: what a tenant writes on eviction requests, policies, replacement requests and MemberSets, and makes Usher write on evictions, does
// not fill the memory.
func TestLargeObjectsAreBounded(t *testing.T) {
	cases := []struct {
		name string
		most int64
		make func(i int) any
		slim func(any) (any, error)
		lost func(any) bool
	}{
		{"a request", 4 << 10, func(i int) any { return &api.EvictionRequest{ObjectMeta: largeMeta(i)} }, slimRequest, func(o any) bool {
			_, asked := evictionrequest.LastRequestTime(o.(*api.EvictionRequest))
			return !asked || len(o.(*api.EvictionRequest).ManagedFields) != 2
		}},
		{"an eviction", 8 << 10, func(i int) any {
			meta := largeMeta(i)
			meta.Labels, meta.OwnerReferences = nil, slices.Clone(meta.OwnerReferences[:1])
			return &api.Eviction{ObjectMeta: meta}
		}, slimEviction, func(o any) bool {
			return len(o.(*api.Eviction).OwnerReferences) != 1 || len(o.(*api.Eviction).ManagedFields) != 20
		}},
		{"a policy", 24 << 10, func(i int) any { return &v1alpha1.EvictionPolicy{ObjectMeta: largeMeta(i)} }, slimPolicy, func(o any) bool {
			return !slices.Contains(o.(*v1alpha1.EvictionPolicy).Finalizers, v1alpha1.UndoFinalizer)
		}},
		{"a replacement", 8 << 10, func(i int) any {
			meta := largeMeta(i)
			meta.Finalizers = append(meta.Finalizers, v1alpha1.ReplacementFinalizer)
			meta.Labels[v1alpha1.MaintainedNodeLabel] = "n"
			return &v1alpha1.ReplacementRequest{ObjectMeta: meta}
		}, transformed, func(o any) bool {
			q := o.(*v1alpha1.ReplacementRequest)
			return q.Labels[v1alpha1.MaintainedNodeLabel] != "n" || !slices.Contains(q.Finalizers, v1alpha1.ReplacementFinalizer)
		}},
		{"a set", 4 << 10, largeSet, transformed, func(o any) bool {
			stops := memberset.StopsOf(o.(*v1alpha1.MemberSet))
			return stops.Of("db-1") != v1alpha1.CrashLoopPrefix+"kv"
		}},
	}
	for _, c := range cases {
		const objects = 20
		kept := make([]any, objects)
		for i := range kept {
			var err error
			if kept[i], err = c.slim(c.make(i)); err != nil || c.lost(kept[i]) {
				t.Fatalf("%s: what Usher needs is missing of %+v (%v)", c.name, kept[i], err)
			}
		}
		with := liveHeap()
		runtime.KeepAlive(kept)
		clear(kept)
		if each := (with - liveHeap()) / objects; each > c.most {
			t.Errorf("%s takes %d bytes, want %d at most", c.name, each, c.most)
		}
	}
}
