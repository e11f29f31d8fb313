package realetcd

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"usher.sh/usher/lab/testlab"
)

// leaves are the deletions of members' pods, in the order in which a watch has delivered them.
type leaves struct {
	mu   sync.Mutex
	seen map[types.UID]bool
	all  []leave
}

type leave struct {
	member int
	at     time.Time // when the watch delivered it, which is no earlier than the deletion
}

func (e *etcd) watchLeaves(t *testing.T) *leaves {
	t.Helper()
	l := &leaves{seen: map[types.UID]bool{}}
	factory := informers.NewSharedInformerFactoryWithOptions(e.lab.Client(), 0, informers.WithNamespace(e.namespace))
	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: l.see,
		UpdateFunc: func(before, o any) {
			// A watch that was away may have missed that one pod went and the next came.
			if uid(before) != uid(o) {
				l.gone(before)
			}
			l.see(o)
		},
		DeleteFunc: l.gone,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	factory.StartWithContext(ctx)
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	if err := factory.WaitForCacheSyncWithContext(t.Context()).AsError(); err != nil {
		t.Fatal(err)
	}
	return l
}

func uid(o any) types.UID {
	if pod, ok := o.(*corev1.Pod); ok {
		return pod.UID
	}
	return ""
}

func (l *leaves) see(o any) {
	if pod, ok := o.(*corev1.Pod); ok && pod.DeletionTimestamp != nil {
		l.gone(pod)
	}
}

func (l *leaves) gone(o any) {
	if missed, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = missed.Obj
	}
	pod, ok := o.(*corev1.Pod)
	if !ok || pod.Labels["app"] != testlab.Labels(name)["app"] {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.seen[pod.UID] {
		l.seen[pod.UID] = true
		l.all = append(l.all, leave{member: index(pod.Name), at: time.Now()})
	}
}

func index(pod string) int { return int(pod[strings.LastIndexByte(pod, '-')+1] - '0') }

func (l *leaves) list() []leave {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]leave(nil), l.all...)
}
