package pressure

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/lab/realnode"
	"usher.sh/usher/lab/testlab"
)

// TestLoads brings nodes with an agent into trouble. usher pressure names before the pod that will go. With -alone the same is
// done before to a node with its kubelet alone, and what is measured is printed.
func TestLoads(t *testing.T) {
	var mu sync.Mutex
	var all []figures
	t.Run("all", func(t *testing.T) {
		l := testlab.Get(t)
		for range *rounds {
			for _, s := range storms() {
				t.Run(s.name, func(t *testing.T) {
					if !*alone {
						t.Parallel() // nothing is compared
					}
					found := s.run(t, l)
					mu.Lock()
					defer mu.Unlock()
					all = append(all, found...)
				})
			}
		}
	})
	if *alone {
		report(t, all)
	}
}

// run returns what happened, with the kubelet alone and then with the agent.
func (s storm) run(t *testing.T, l *testlab.Lab) []figures {
	t.Helper()
	o := s.node
	o.Count = 1
	if *alone {
		o.Count = 2
	}
	var stages []*stage
	for _, node := range l.StartRealNodes(t, o) {
		stages = append(stages, s.settle(t, l, node))
	}
	for _, st := range stages {
		st.await(t)
	}
	var found []figures
	if *alone {
		found = append(found, stages[0].measure(t, nil))
	}
	beside := stages[len(stages)-1]
	return append(found, beside.measure(t, startAgent(t, l, beside.node, s.thresholds)))
}

// stage is a node with a storm's pods on it.
type stage struct {
	storm storm
	lab   *testlab.Lab
	node  *realnode.Node
	space string // namespace
	pods  map[string]*corev1.Pod
}

// settle starts the pods.
func (s storm) settle(t testing.TB, l *testlab.Lab, node *realnode.Node) *stage {
	t.Helper()
	st := &stage{storm: s, lab: l, node: node, space: l.Namespace(t), pods: map[string]*corev1.Pod{}}
	for _, r := range s.pods {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: r.name, Labels: testlab.Labels(r.name)},
			Spec:       testlab.RealPod(t, fmt.Sprintf("-memory-mib=%d", r.uses), fmt.Sprintf("-term-delay=%s", r.lingers)),
		}
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node.Name}
		pod.Spec.Containers[0].Resources = r.resources()
		if r.scratch {
			pod.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: scratchDir}}
		}
		if _, err := l.Client().CoreV1().Pods(st.space).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return st
}

// await waits until the pods run.
func (st *stage) await(t testing.TB) {
	t.Helper()
	for _, pod := range st.lab.WaitReady(t, st.space, nil, len(st.storm.pods)) {
		st.pods[pod.Name] = pod
	}
	for name, path := range st.storm.before {
		post(t, st.pods[name], path)
	}
}

// predict asks usher which pod will go, once the kubelet has measured what its answer needs.
func (st *stage) predict(t *testing.T, order string) string {
	t.Helper()
	args := []string{"--order", order}
	if st.storm.suppose != "" {
		args = append(args, "--what-if", st.storm.suppose)
	}
	seen := watchUntil(t, st.lab.Kubeconfig(), st.node.Name, "all pods to be measured", func(seen look) bool {
		used := map[string]int64{}
		for _, r := range seen.Ranking {
			if r.Usage != nil {
				used[r.Name] = *r.Usage
			}
		}
		for name, least := range st.storm.known {
			if used[name] < least {
				return false
			}
		}
		return len(seen.Ranking) >= len(st.storm.pods)
	}, args...)
	return seen.Victim.Name
}

// figures are what a run showed.
type figures struct {
	load, with string
	predicted  string
	died       []string // in their order
	how        string   // of the first
	oom        []string // pods of which the kernel took processes
	took       time.Duration
	timed      bool
}

// measure predicts, lets the load loose and sees which pods die. Without an agent, the kubelet decides.
func (st *stage) measure(t *testing.T, a *agent) figures {
	t.Helper()
	f := figures{load: st.storm.name, with: "kubelet"}
	order := "kubelet"
	if a != nil {
		f.with, order = "agent", "qos"
	}
	f.predicted = st.predict(t, order)
	var loads sync.WaitGroup
	defer loads.Wait()
	ctx, end := context.WithTimeout(t.Context(), showPatience)
	defer end()
	witness := st.witness(ctx, &loads)
	for name, path := range st.storm.load {
		loads.Go(func() {
			if err := send(ctx, st.pods[name], path); err != nil && st.storm.meter == nil {
				witness.failed(err)
			}
		})
	}
	if st.storm.meter == nil {
		st.endure(t, witness, &f)
		return f
	}
	breached := st.relieved(t, a)
	witness.see(st.list(t))
	end()
	f.died, f.how = witness.deaths()
	f.oom = witness.kills()
	decided, how := st.decided(t, a, breached)
	if decided.IsZero() {
		f.how = "OOM killed"
	} else {
		f.took, f.timed = max(decided.Sub(breached), 0), true
		f.how = how
		if a != nil {
			f.took = max(f.took-st.storm.grace, 0)
		}
	}
	st.judge(t, a, &f)
	return f
}

// relieved waits for the breach, for a death and for the end of the shortage, and returns when the breach was.
func (st *stage) relieved(t *testing.T, a *agent) time.Time {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), showPatience)
	defer cancel()
	limit := st.storm.theirs
	if a != nil {
		limit = st.storm.ours
	}
	meter := st.storm.meter(st.node)
	// On a busy machine the agent may be done with a breach between two readings.
	breached, err := meter.until(ctx, func(now amount) bool { return limit.met(now) || a != nil && len(a.acts()) > 0 })
	if err != nil {
		t.Fatalf("waiting for the breach: %v", err)
	}
	testlab.WaitFor(t, st.lab.Pods(st.space), "a pod to go", func(all []*corev1.Pod) bool {
		return len(st.dead(all)) > 0
	})
	if _, err := meter.until(ctx, func(a amount) bool { return !limit.met(a) }); err != nil {
		t.Fatalf("waiting for the end of the shortage: %v", err)
	}
	return breached
}

// endure is for a load that harms no other pod: it fails, and no pod goes.
func (st *stage) endure(t *testing.T, w *witness, f *figures) {
	t.Helper()
	select {
	case err := <-w.failures:
		t.Logf("the load ended with: %v", err)
		f.how = "no pod goes"
	case <-time.After(showPatience):
		t.Fatal("the load met no limit")
	}
	for name := range st.dead(st.list(t)) {
		if _, its := st.storm.load[name]; !its {
			t.Errorf("%s came to harm", name)
			f.died = append(f.died, name)
		}
	}
	if f.predicted != "" {
		t.Errorf("usher pressure names %s, and no pod has to go", f.predicted)
	}
}

// judge compares with what was predicted. What a kubelet alone lets happen is logged; what the agent lets happen is an error.
func (st *stage) judge(t *testing.T, a *agent, f *figures) {
	t.Helper()
	complain := t.Logf
	if a != nil {
		complain = t.Errorf
	}
	if len(f.died) == 0 || f.died[0] != f.predicted {
		complain("%v went, and usher pressure had named %s", f.died, f.predicted)
	}
	for _, name := range f.oom {
		if name != f.predicted {
			complain("the kernel took %s, and usher pressure had named %s", name, f.predicted)
		}
	}
	t.Logf("%+v", *f)
}

// decided returns when it was decided that a pod is to go, and how; the zero time if it never was.
func (st *stage) decided(t *testing.T, a *agent, after time.Time) (time.Time, string) {
	t.Helper()
	if a == nil {
		return kubeletDecided(t, st.node, after), "evicted"
	}
	for _, e := range a.acts() {
		return e.Time, e.Action + " " + e.Reason
	}
	return time.Time{}, ""
}

// dead are the pods that went or that lost a process, as a list of pods shows it.
func (st *stage) dead(all []*corev1.Pod) map[string]string {
	found := map[string]string{}
	here := map[string]*corev1.Pod{}
	for _, p := range all {
		here[p.Name] = p
	}
	for name, was := range st.pods {
		p := here[name]
		switch {
		case p == nil || p.UID != was.UID:
			found[name] = "gone"
		case p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded:
			found[name] = string(p.Status.Phase)
		default:
			for _, s := range p.Status.ContainerStatuses {
				if s.RestartCount > 0 || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil {
					found[name] = "ended"
				}
			}
		}
	}
	return found
}

// list returns the pods as they are now.
func (st *stage) list(t *testing.T) []*corev1.Pod {
	t.Helper()
	list, err := st.lab.Client().CoreV1().Pods(st.space).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		out[i] = &list.Items[i]
	}
	return out
}

// send sends a pod its task, and waits until the task is done.
func send(ctx context.Context, pod *corev1.Pod, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+pod.Status.PodIP+":8080"+path, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answered %s", pod.Name, response.Status)
	}
	return errors.Join(err, response.Body.Close())
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
