package cgroup2

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/agent"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/snapshot"
)

// tenant is a pod that runs, and what the API says of it.
type tenant struct {
	pod

	worker *worker
	object *corev1.Pod
}

func (n *node) tenant(t *testing.T, number int, name, takes string) tenant {
	t.Helper()
	p := n.pod(t, number)
	w := startWorker(t, p.container)
	w.do(t, "take "+takes)
	return tenant{pod: p, worker: w, object: &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: p.uid, ResourceVersion: "1"},
		Spec:       corev1.PodSpec{NodeName: "here", Containers: []corev1.Container{{Name: "c"}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBurstable,
			ContainerStatuses: []corev1.ContainerStatus{{Name: "c", ContainerID: p.id}},
		},
	}}
}

// kubelet ends pods that are removed, as long as the apiserver answers it.
type kubelet struct {
	apiserver *apiserver
	tenants   []tenant
	shown     chan struct{} // closed when the agent has said for the first time how the node is
	removed   chan string
	once      sync.Once

	mu   sync.Mutex
	away bool
}

var _ agent.Cluster = (*kubelet)(nil)

func newKubelet(t *testing.T, tenants ...tenant) *kubelet {
	t.Helper()
	k := &kubelet{tenants: tenants, shown: make(chan struct{}), removed: make(chan string, len(tenants))}
	var objects []*corev1.Pod
	for _, one := range tenants {
		objects = append(objects, one.object)
	}
	k.apiserver = serve(t, objects...)
	return k
}

// cutOff takes the apiserver away.
func (k *kubelet) cutOff() {
	k.mu.Lock()
	k.away = true
	k.mu.Unlock()
	k.apiserver.end()
}

func (k *kubelet) answer() answers.Answer {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.away {
		return answers.Answer{Code: answers.Unavailable, Message: "cut off"}
	}
	return answers.Answer{Code: answers.Accepted}
}

// Remove ends the pod's process, its cgroup and its object.
func (k *kubelet) Remove(_ context.Context, pod *snapshot.Pod, _ time.Duration) answers.Answer {
	answer := k.answer()
	if answer.Code != answers.Accepted {
		return answer
	}
	for _, one := range k.tenants {
		if one.uid != pod.UID {
			continue
		}
		_ = one.worker.Process.Kill()
		_ = one.worker.Wait()
		for _, folder := range []string{one.container, one.folder} {
			if err := os.Remove(folder); err != nil {
				return answers.Answer{Code: answers.Unavailable, Message: err.Error()}
			}
		}
		k.apiserver.remove(pod.Name)
		k.removed <- pod.Name
	}
	return answer
}

func (k *kubelet) Show(context.Context, act.NodeSays) answers.Answer {
	k.once.Do(func() { close(k.shown) })
	return k.answer()
}

func (k *kubelet) Evict(context.Context, *snapshot.Pod, time.Duration) answers.Answer {
	return k.answer()
}

func (k *kubelet) Ask(context.Context, *snapshot.Pod) answers.Answer { return k.answer() }

func (k *kubelet) Withdraw(context.Context, *snapshot.Pod) answers.Answer { return k.answer() }

func (k *kubelet) BreakGlass(context.Context, *snapshot.Pod, string, bool) answers.Answer {
	return k.answer()
}

func (k *kubelet) Unbreak(context.Context, *snapshot.Pod, string) answers.Answer { return k.answer() }

func (k *kubelet) Disrupted(context.Context, *snapshot.Pod, time.Time, string) answers.Answer {
	return k.answer()
}

func (k *kubelet) Record(context.Context, act.Event) answers.Answer { return k.answer() }
