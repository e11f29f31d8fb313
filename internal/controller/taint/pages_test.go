package taint

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/policycache"
)

// live is an apiserver that takes a limit where its answer must not be of any version, as real ones do.
type live struct {
	client.Reader

	lists int
	most  int // pods at once
}

func (l *live) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	asked := (&client.ListOptions{}).ApplyOptions(options)
	pods, is := list.(*corev1.PodList)
	if !is {
		return fmt.Errorf("%T is not served", list)
	}
	if err := l.Reader.List(ctx, pods, &client.ListOptions{LabelSelector: asked.LabelSelector, FieldSelector: asked.FieldSelector}); err != nil {
		return err
	}
	if asked.Limit > 0 && (asked.Raw == nil || asked.Raw.ResourceVersion != "0") {
		first, _ := strconv.Atoi(asked.Continue)
		last := min(len(pods.Items), first+int(asked.Limit))
		if last < len(pods.Items) {
			pods.Continue = strconv.Itoa(last)
		}
		pods.Items = pods.Items[first:last]
	}
	l.lists++
	l.most = max(l.most, len(pods.Items))
	return nil
}

// The governed pods of a node are read at once from what the apiserver has by node, unless they are too large for it: their owners may make each as large as the
// apiserver takes it.
func TestLargePodsOfANodeAreReadInPages(t *testing.T) {
	const pods = 2*observe.AtOnce + 1
	for name, c := range map[string]struct {
		bytes       int // of each pod
		lists, most int
	}{
		"small":         {1 << 10, 1, pods},
		"just small":    {mostAtOnce / pods, 1, pods},
		"just too much": {mostAtOnce/pods + 1, 3, observe.AtOnce},
		"large":         {3 << 19, 3, observe.AtOnce},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{member("else", 15, func(p *corev1.Pod) {
				p.Spec.NodeName = "n2"
				policycache.SetSize(p, 1<<30)
			})}
			for i := range pods {
				objects = append(objects, member(fmt.Sprintf("db-%02d", i), 15, func(p *corev1.Pod) { policycache.SetSize(p, c.bytes) }))
			}
			r := newReconciler(t, objects...)
			from := &live{Reader: r.live}
			r.live = from
			if requested, next := r.look(t); len(requested) != pods || next != again {
				t.Errorf("requested %v, looks again in %s", requested, next)
			}
			if from.lists != c.lists || from.most != c.most {
				t.Errorf("%d lists of %d at most, want %d of %d", from.lists, from.most, c.lists, c.most)
			}
		})
	}
}
