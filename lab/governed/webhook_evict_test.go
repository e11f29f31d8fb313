package governed

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/binaries"
	"usher.sh/usher/lab/testlab"
)

// TestGuard is one governed database and everything that wants its pods gone.
func TestGuard(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.StatefulSet(t, s.ns, "db", 3)
	s.WaitReady(t, s.ns, testlab.Labels("db"), 3)
	s.turn(t, false, "db-0")
	t.Run("marked at creation", s.marked)
	t.Run("dry run", s.dryRun)
	t.Run("refused", s.refuses)
	t.Run("kubectl drain", s.drained)
	t.Run("taint", s.tainted)
	t.Run("rollout and scaling", s.ownController)
	t.Run("job", s.job)
	t.Run("hanging system", s.hanging)
	t.Run("break-glass", s.brokenGlass)
	t.Run("tolerations", s.tolerations) // which loses a node, whose pods may be of the others
	t.Run("both replicas killed", s.killed)
	t.Run("one after the other", s.oneAfterTheOther)
	t.Run("namespace", s.namespaceGoes)
}

func (s *stage) marked(t *testing.T) {
	p := s.pod(t, "db-0")
	if p.Labels[v1alpha1.PolicyLabel] != "db" {
		t.Errorf("labels %v", p.Labels)
	}
	var seconds []string
	for _, each := range p.Spec.Tolerations {
		if each.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		forever := each.TolerationSeconds == nil
		seconds = append(seconds, each.Key+map[bool]string{true: " forever", false: " limited"}[forever])
	}
	slices.Sort(seconds)
	if want := []string{"node.kubernetes.io/not-ready limited", "node.kubernetes.io/unreachable forever"}; !slices.Equal(seconds, want) {
		t.Errorf("tolerations %v, want %v", seconds, want)
	}
	if binaries.Chosen().EvictionRequestAPI && !slices.ContainsFunc(p.Spec.EvictionResponders, func(r corev1.EvictionResponder) bool { return r.Name == evictionrequest.Responder }) {
		t.Errorf("responders %v", p.Spec.EvictionResponders)
	}
}

// dryRun leaves nothing behind.
func (s *stage) dryRun(t *testing.T) {
	before := s.policy(t).Status
	options := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	refused(t, "a dry-run DELETE", s.Client().CoreV1().Pods(s.ns).Delete(t.Context(), "db-0", options), "not green")
	s.kubectl(t, "drain", s.pod(t, "db-0").Spec.NodeName, "--dry-run=server", "--timeout=3s", "--ignore-daemonsets").says(t, "not green")
	after := s.policy(t).Status
	if before.Epoch != after.Epoch || len(after.Leaving) > 0 {
		t.Errorf("a dry run changed the status to %+v", after)
	}
	if names := s.requests(t); len(names) > 0 {
		t.Errorf("a dry run made eviction requests %v", names)
	}
	events, err := s.Client().EventsV1().Events(s.ns).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for _, e := range events.Items {
		if e.ReportingController == "usher-webhook" {
			t.Errorf("a dry run made event %s: %s", e.Reason, e.Note)
		}
	}
}

// requests returns who asks for evictions.
func (s *stage) requests(t *testing.T) []string {
	t.Helper()
	var all lifecyclev1alpha1.EvictionRequestList
	must(t, s.Lifecycle(t).List(t.Context(), &all, client.InNamespace(s.ns)))
	var names []string
	for _, r := range all.Items {
		names = append(names, r.Spec.Requester+" "+string(r.Spec.Intent))
	}
	return names
}

func (s *stage) refuses(t *testing.T) {
	pods := s.Client().CoreV1().Pods(s.ns)
	err := s.evictByUID(t, s.pod(t, "db-0"))
	refused(t, "an eviction", err, "the database is not green")
	if all := causes(t, err); all[0].Type != "NotGreen" || all[0].Field != "green" {
		t.Errorf("causes %+v", all)
	}
	refused(t, "a DELETE", pods.Delete(t.Context(), "db-1", metav1.DeleteOptions{}), "the database is not green")
	refused(t, "a DELETE by force", pods.Delete(t.Context(), "db-1", now), "the database is not green")
	if p := s.pod(t, "db-1"); p.DeletionTimestamp != nil {
		t.Error("db-1 is terminating")
	}
	if names := s.requests(t); !slices.Contains(names, "requester.usher.sh/admin Eviction") {
		t.Errorf("requests: %v, want one of admin", names)
	}
	began := time.Now()
	r := s.kubectl(t, "delete", "pod", "db-1", "-n", s.ns)
	r.says(t, "the database is not green")
	if r.code == 0 {
		t.Error("kubectl delete: exit code 0")
	}
	// A Retry-After would have kubectl ask again and again before it says anything.
	if asked := s.Requests(t, "kubectl", began).Of("delete", "pods"); asked > 1 {
		t.Errorf("kubectl delete has asked %d times, want once", asked)
	}
}

// evictByUID evicts this pod and no other of its name. By name alone, who was refused the one before it within 75 s is taken to
// ask for that one again.
func (s *stage) evictByUID(t *testing.T, p *corev1.Pod) error {
	t.Helper()
	return s.Client().PolicyV1().Evictions(s.ns).Evict(t.Context(), &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: s.ns, Name: p.Name},
		DeleteOptions: metav1.NewPreconditionDeleteOptions(string(p.UID)),
	})
}

// drained: kubectl shows the reason with its first refusal, and goes on asking.
func (s *stage) drained(t *testing.T) {
	node := s.pod(t, "db-0").Spec.NodeName
	r := s.kubectl(t, "drain", node, "--ignore-daemonsets", "--timeout=8s")
	r.says(t, "the database is not green", "will retry after 5s")
	if r.code == 0 {
		t.Error("drained")
	}
	s.kubectl(t, "uncordon", node)
}

// tainted: the taint's controller gives up, the request in its name does not.
func (s *stage) tainted(t *testing.T) {
	p := s.alone(t)
	s.kubectl(t, "taint", "node", p.Spec.NodeName, "broken=yes:NoExecute").says(t, "tainted")
	testlab.WaitFor(t, s.Lifecycle(t).Requests(s.ns), "a request in the name of the taint's controller", func(all []*lifecyclev1alpha1.EvictionRequest) bool {
		return slices.ContainsFunc(all, func(r *lifecyclev1alpha1.EvictionRequest) bool {
			return r.Spec.Target.Pod != nil && r.Spec.Target.Pod.UID == p.UID && strings.HasPrefix(r.Spec.Requester, "requester.usher.sh/system")
		})
	})
	if now := s.pod(t, p.Name); now == nil || now.UID != p.UID || now.DeletionTimestamp != nil {
		t.Fatalf("%s was deleted while the database was not green", p.Name)
	}
	s.withdrawOthers(t, p.UID)
	s.truth.set(true)
	testlab.WaitFor(t, s.Pods(s.ns), p.Name+" to be evicted once the database is green", func(all []*corev1.Pod) bool {
		return slices.ContainsFunc(all, func(now *corev1.Pod) bool {
			return now.Name == p.Name && now.UID != p.UID && testlab.PodReady(now) && now.Spec.NodeName != p.Spec.NodeName
		})
	})
	s.kubectl(t, "taint", "node", p.Spec.NodeName, "broken-").says(t, "untainted")
	s.WaitReady(t, s.ns, testlab.Labels("db"), 3)
	s.turn(t, false, "db-0")
}

// alone returns a member that shares its node with no other, so that the node's taint drives out it alone.
func (s *stage) alone(t *testing.T) *corev1.Pod {
	t.Helper()
	on := map[string][]*corev1.Pod{}
	for _, p := range s.WaitReady(t, s.ns, testlab.Labels("db"), 3) {
		on[p.Spec.NodeName] = append(on[p.Spec.NodeName], p)
	}
	for _, together := range on {
		if len(together) == 1 {
			return together[0]
		}
	}
	t.Fatalf("no member is alone on its node: %v", on)
	return nil
}

// withdrawOthers takes back what was asked for before, but for one pod, and waits until no responder works on it: the others
// would be evicted too once the database is green.
func (s *stage) withdrawOthers(t *testing.T, but types.UID) {
	t.Helper()
	api := s.Lifecycle(t)
	var requests lifecyclev1alpha1.EvictionRequestList
	must(t, api.List(t.Context(), &requests, client.InNamespace(s.ns)))
	for i := range requests.Items {
		if requests.Items[i].Spec.Target.Pod.UID != but {
			must(t, api.Delete(t.Context(), &requests.Items[i]))
		}
	}
	testlab.WaitFor(t, api.Evictions(s.ns), "the others' evictions to end", func(all []*lifecyclev1alpha1.Eviction) bool {
		return !slices.ContainsFunc(all, func(e *lifecyclev1alpha1.Eviction) bool {
			return e.Spec.Target.Pod.UID != but && !evictionrequest.Final(e)
		})
	})
}

// ownController: a rollout waits for the verdict, unless the policy lets the pods' own controller go on: then it, scaling down and up pass
// at once, although nothing may be evicted.
func (s *stage) ownController(t *testing.T) {
	sets := s.Client().AppsV1().StatefulSets(s.ns)
	patch := func(body string) {
		t.Helper()
		_, err := sets.Patch(t.Context(), "db", types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{})
		must(t, err)
	}
	source := await.Source[*appsv1.StatefulSet]{Client: s.Client().AppsV1().RESTClient(), Resource: "statefulsets", Namespace: s.ns}
	settled := func(what string, replicas int32) {
		t.Helper()
		testlab.WaitFor(t, source, what, func(all []*appsv1.StatefulSet) bool {
			return len(all) == 1 && all[0].Status.ObservedGeneration == all[0].Generation && all[0].Status.UpdatedReplicas == replicas &&
				all[0].Status.Replicas == replicas && all[0].Status.ReadyReplicas == replicas
		})
	}
	patch(`{"spec":{"template":{"metadata":{"annotations":{"version":"2"}}}}}`)
	eventually(t, "the rollout to be refused", func() bool {
		return slices.Contains(s.requests(t), evictionrequest.Requester("system:serviceaccount:kube-system:statefulset-controller")+" Eviction")
	})
	var status appsv1.StatefulSetStatus
	testlab.WaitFor(t, source, "the status of the new template", func(all []*appsv1.StatefulSet) bool { // its controller deletes first
		if len(all) != 1 || all[0].Status.ObservedGeneration != all[0].Generation {
			return false
		}
		status = all[0].Status
		return true
	})
	if status.UpdatedReplicas > 0 {
		t.Errorf("a rollout goes on although nothing may be evicted: %+v", status)
	}
	s.ownerDeletes(t, v1alpha1.DeleteAllow)
	defer s.ownerDeletes(t, v1alpha1.DeleteGuard)
	settled("the rollout", 3)
	patch(`{"spec":{"replicas":2}}`)
	settled("scaling down", 2)
	patch(`{"spec":{"replicas":3}}`)
	settled("scaling up", 3)
}

func (s *stage) ownerDeletes(t *testing.T, mode v1alpha1.DeleteMode) {
	t.Helper()
	policy := s.policy(t)
	before := policy.DeepCopy()
	policy.Spec.Members[0].OwnerDeletes = mode
	must(t, s.client.Patch(t.Context(), policy, client.MergeFrom(before)))
}

// job: a governed Job ends, and goes with its pods.
func (s *stage) job(t *testing.T) {
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: testlab.Labels("db")},
		Spec: corev1.PodSpec{
			NodeSelector: testlab.NodeSelector(t), RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: "main", Image: "lab.usher.sh/none"}},
		},
	}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "backup"}, Spec: batchv1.JobSpec{Template: template, TTLSecondsAfterFinished: new(int32)}}
	job, err := s.Client().BatchV1().Jobs(s.ns).Create(t.Context(), job, metav1.CreateOptions{})
	must(t, err)
	jobs := await.Source[*batchv1.Job]{Client: s.Client().BatchV1().RESTClient(), Resource: "jobs", Namespace: s.ns}
	testlab.WaitFor(t, jobs, "the job to end and go", func(all []*batchv1.Job) bool { return len(all) == 0 })
	testlab.WaitFor(t, s.Pods(s.ns), "the job's pod to go", func(all []*corev1.Pod) bool {
		return !slices.ContainsFunc(all, func(p *corev1.Pod) bool { return metav1.IsControlledBy(p, job) })
	})
}

// hanging: the answer comes before the apiserver's patience ends, which is longer than the policy's.
func (s *stage) hanging(t *testing.T) {
	free := s.truth.stuck()
	defer free()
	eventually(t, "evidence to be too old", func() bool {
		err := s.evictByUID(t, s.pod(t, "db-0"))
		if !apierrors.IsTooManyRequests(err) {
			t.Fatalf("an eviction while the system hangs: %v", err)
		}
		return strings.Contains(err.Error(), "is still being asked")
	})
}

func (s *stage) brokenGlass(t *testing.T) {
	pods := s.Client().CoreV1().Pods(s.ns)
	db := s.pod(t, "db-1")
	_, err := pods.Patch(t.Context(), "db-1", types.MergePatchType, []byte(`{"metadata":{"annotations":{"usher.sh/break-glass":"the disk is on fire"}}}`), metav1.PatchOptions{})
	must(t, err)
	eventually(t, "db-1 to be evicted", func() bool { // once every replica has seen the annotation
		err := s.evictByUID(t, db)
		p := s.pod(t, "db-1") // which the manager may have evicted before, for an earlier request
		return err == nil || p == nil || p.UID != db.UID
	})
	testlab.WaitFor(t, s.Pods(s.ns), "db-1 to come back", func(all []*corev1.Pod) bool {
		return slices.ContainsFunc(all, func(p *corev1.Pod) bool { return p.Name == "db-1" && p.UID != db.UID })
	})
	eventually(t, "an event that says so", func() bool { return s.hasEvent(t, "BrokenGlass", "db-1", "the disk is on fire") })
	s.WaitReady(t, s.ns, testlab.Labels("db"), 3)
}

func (s *stage) hasEvent(t *testing.T, reason, pod, says string) bool {
	t.Helper()
	events, err := s.Client().EventsV1().Events(s.ns).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	return slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool {
		return e.Reason == reason && e.Regarding.Name == pod && strings.Contains(e.Note, says)
	})
}

// killed: governed pods stay, everything else goes on; afterwards all is as before.
func (s *stage) killed(t *testing.T) {
	for i := range 2 {
		s.managers.Kill(t, i)
	}
	other := s.Namespace(t)
	s.Pod(t, other, "plain")
	s.Pod(t, s.ns, "plain")
	unanswered(t, "the eviction of a governed pod", s.evictByUID(t, s.pod(t, "db-0")))
	unanswered(t, "the deletion of a governed pod", s.Client().CoreV1().Pods(s.ns).Delete(t.Context(), "db-0", metav1.DeleteOptions{}))
	must(t, s.Client().CoreV1().Pods(s.ns).Delete(t.Context(), "plain", now))
	must(t, evict(t, s.Client(), other, "plain"))
	s.managers.Start(t, 1)
	s.managers.WaitReady(t, 1)
	refused(t, "the eviction of a governed pod", s.evictByUID(t, s.pod(t, "db-0")), "not green")
	s.managers.Start(t, 0)
	s.managers.WaitReady(t, 0)
}

// oneAfterTheOther: with both replicas asked, only one member goes at a time.
func (s *stage) oneAfterTheOther(t *testing.T) {
	s.turn(t, true, "db-0")
	s.Stick(t, s.ns, "db-0") // or it may have gone before the second is asked about
	must(t, s.Client().CoreV1().Pods(s.ns).Delete(t.Context(), "db-0", metav1.DeleteOptions{}))
	refused(t, "the eviction of a second member", s.evictByUID(t, s.pod(t, "db-2")), "db-0")
	s.Unstick(t, s.ns, "db-0")
	s.WaitReady(t, s.ns, testlab.Labels("db"), 3)
}

// namespaceGoes although nothing in it may be evicted.
func (s *stage) namespaceGoes(t *testing.T) {
	s.truth.set(false)
	must(t, s.Client().CoreV1().Namespaces().Delete(t.Context(), s.ns, metav1.DeleteOptions{}))
	testlab.WaitFor(t, s.Pods(s.ns), "all pods to go with their namespace", func(all []*corev1.Pod) bool {
		return !slices.ContainsFunc(all, func(p *corev1.Pod) bool { return p.DeletionTimestamp == nil })
	})
}
