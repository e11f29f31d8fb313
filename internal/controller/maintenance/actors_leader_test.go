package maintenance

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// leader is a process that leads. It implements runner.Writer.
type leader struct {
	*cluster

	r         *reconciler
	cancel    context.CancelFunc
	dies      bool // it is killed at one of its next writes
	writes    int  // before that
	dead      bool
	evictions int // under way
}

// lead has one process after the other lead, until ctx ends.
func (c *cluster) lead(ctx context.Context) {
	for n := 1; ctx.Err() == nil; n++ {
		l := &leader{cluster: c}
		l.r = l.reconciler(n)
		leading, cancel := context.WithCancel(ctx)
		l.cancel = cancel
		c.mu.Lock()
		c.leader = l
		c.note("-- process %d leads", n)
		c.mu.Unlock()
		poke(c.looks)
		l.work(leading)
		cancel()
		c.mu.Lock()
		c.leader = nil
		pause := c.pause
		c.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// reconciler is the program's own, with fresh drains.
func (l *leader) reconciler(n int) *reconciler {
	through := api{l: l}
	o := Options{
		Act:  &act.Maintenance{Client: through, Hooks: l, Now: now},
		Self: snapshot.Drainer{By: "manager", PID: n, Boot: "boot"}, Now: now, Log: slog.New(slog.DiscardHandler),
	}
	drains := newDrains(o)
	drains.observe, drains.writer = l.observe, l
	return &reconciler{Options: o, client: through, live: through, drains: drains, calls: newCalls()}
}

// work reconciles as the controller does until ctx ends, and returns when all drains were left.
func (l *leader) work(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { _ = l.r.drains.Start(ctx) })
	var again <-chan time.Time
	for {
		select {
		case <-l.r.drains.changed:
		case <-l.looks:
		case <-again:
		case <-ctx.Done():
			return
		}
		<-time.After(l.upTo("looking", 50*time.Millisecond))
		l.mu.Lock()
		l.looked++
		l.mu.Unlock()
		result, err := l.r.reconcile(ctx, reconcile.Request{})
		switch again = nil; {
		case err != nil:
			again = time.After(time.Second)
		case result.RequeueAfter > 0:
			again = time.After(result.RequeueAfter)
		}
	}
}

// killed ends the process at once: what it has under way may be carried out or not. The caller holds the lock.
func (l *leader) killed() {
	l.dead = true
	l.note("-- the process is killed")
	l.lost()
}

// lost ends the lead: drains are left. The caller holds the lock.
func (l *leader) lost() {
	l.excused += l.evictions
	l.cancel()
}

// writing counts a write, which may be the last, and reports whether it is sent. The caller holds the lock.
func (l *leader) writing() bool {
	if l.dead {
		return false
	}
	if l.writes--; l.dies && l.writes < 0 {
		l.killed()
		return l.dice("killed", 2) == 0
	}
	return true
}

// Do implements runner.Writer. Answers take their time.
func (l *leader) Do(ctx context.Context, a drain.Action) answers.Answer {
	unanswered := answers.Answer{Code: answers.Unavailable, Message: "no answer"}
	if !l.sends(a) {
		return unanswered
	}
	most := time.Second
	if l.upTo("slow", 10) == 1 {
		most = 4 * time.Second
	}
	select {
	case <-time.After(l.upTo("to "+string(a.Kind)+string(a.Target()), most)):
	case <-ctx.Done():
	}
	answer := l.arrives(ctx, a)
	select {
	case <-time.After(l.upTo("from "+string(a.Kind)+string(a.Target()), most)):
		return answer
	case <-ctx.Done():
		return unanswered
	}
}

func (l *leader) sends(a drain.Action) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.writing() {
		return false
	}
	l.judge(a)
	if a.Kind == drain.Evict {
		l.evictions++
	}
	return true
}

func (l *leader) arrives(ctx context.Context, a drain.Action) answers.Answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.Kind == drain.Evict {
		l.evictions--
	}
	if (l.dead || ctx.Err() != nil) && l.dice("arrives", 2) == 0 {
		return answers.Answer{Code: answers.Unavailable, Message: "no answer"}
	}
	return l.carryOut(a)
}

// RoundTrip implements http.RoundTripper for hooks, which fail now and then.
func (l *leader) RoundTrip(*http.Request) (*http.Response, error) {
	code := http.StatusOK
	if l.upTo("hook", 3) == 1 {
		code = http.StatusInternalServerError
	}
	<-time.After(l.upTo("hook answers", 2*time.Second))
	return &http.Response{StatusCode: code, Body: http.NoBody}, nil
}

// api is the apiserver as the controller sees it. It implements what the controller uses of client.Client.
type api struct {
	client.Client

	l *leader
}

var unavailable = apierrors.NewServiceUnavailable("no answer")

func (a api) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	switch list := list.(type) {
	case *v1alpha1.NodeMaintenanceList:
		for _, m := range a.l.objects {
			list.Items = append(list.Items, *m.DeepCopy())
		}
	case *corev1.NodeList:
		for _, n := range a.l.sim.View().Cluster.Nodes() {
			list.Items = append(list.Items, *nodeObject(n))
		}
	}
	return nil
}

func (a api) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	n := a.l.sim.Truth().Cluster.Node(key.Name)
	if n == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, key.Name)
	}
	if into, is := object.(*corev1.Node); is {
		*into = *nodeObject(n)
	}
	return nil
}

// nodeObject is a node as the apiserver has it.
func nodeObject(n *snapshot.Node) *corev1.Node {
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion, Labels: n.Labels}}
	object.Spec.Unschedulable = n.Unschedulable
	object.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if n.Drain != nil {
		if record, err := n.Drain.Encode(); err == nil {
			object.Annotations = map[string]string{snapshot.DrainAnnotation: record}
		}
	}
	return object
}

func (a api) Patch(_ context.Context, object client.Object, _ client.Patch, _ ...client.PatchOption) error {
	return a.write(object, func(to, from *v1alpha1.NodeMaintenance) { to.Finalizers = from.Finalizers })
}

func (a api) Delete(_ context.Context, object client.Object, options ...client.DeleteOption) error {
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	if !a.l.writing() {
		return unavailable
	}
	insists := new(client.DeleteOptions).ApplyOptions(options).Preconditions
	if n := a.l.sim.Truth().Cluster.Node(object.GetName()); n != nil && *insists.ResourceVersion != n.ResourceVersion {
		return apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, n.Name, nil)
	}
	a.l.note("-- node %s is deleted", object.GetName())
	a.l.sim.DeleteNode(object.GetName())
	a.l.changed()
	return nil
}

func (a api) Status() client.SubResourceWriter { return statusAPI{of: a} }

type statusAPI struct {
	client.SubResourceWriter

	of api
}

func (s statusAPI) Patch(_ context.Context, object client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.of.write(object, func(to, from *v1alpha1.NodeMaintenance) { to.Status = *from.Status.DeepCopy() })
}

// write changes a stored object that is what was seen. Conditions of nodes are for others, and are not kept.
func (a api) write(object client.Object, change func(to, from *v1alpha1.NodeMaintenance)) error {
	from, is := object.(*v1alpha1.NodeMaintenance)
	if !is {
		return nil
	}
	<-time.After(a.l.upTo("api", 10*time.Millisecond))
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	stored := a.l.objects[from.Name]
	resource := schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "nodemaintenances"}
	switch {
	case !a.l.writing():
		return unavailable
	case stored == nil:
		return apierrors.NewNotFound(resource, from.Name)
	case stored.ResourceVersion != from.ResourceVersion:
		return apierrors.NewConflict(resource, from.Name, nil)
	}
	to := stored.DeepCopy()
	change(to, from)
	a.l.put(to)
	return nil
}
