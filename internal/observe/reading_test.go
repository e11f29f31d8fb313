package observe

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"usher.sh/usher/internal/snapshot"
)

// newIdle is an observer that has begun, and reads nothing. Wait lets time pass.
func newIdle() (o *Observer, wait func(time.Duration)) {
	now := time.Now()
	o = newObserver(Options{Now: func() time.Time { return now }})
	o.begun = true
	return o, func(d time.Duration) { now = now.Add(d) }
}

// starts adds a feed that reads from now on.
func (o *Observer) starts(r resource) *feed {
	o.ctx = context.Background()
	_, f := o.open(question{resource: r})
	return f
}

func viewOf(o *Observer) snapshot.View {
	var view snapshot.View
	o.Read(func(v snapshot.View) { view = v })
	return view
}

// What has turned out to be needed is waited for while it may still come in time; then it is a gap.
func TestWhatIsReadLaterIsWaitedFor(t *testing.T) {
	o, wait := newIdle()
	if v := viewOf(o); !v.Whole() {
		t.Error("nothing is read, and the view is not whole")
	}
	f := o.starts(jobs)
	wait(snapshot.ReadingFor - time.Second)
	o.recordEnd(t.Context(), f, "list", errors.New("try again"))
	if v := viewOf(o); v.Whole() {
		t.Error("whole while it is read")
	}
	wait(time.Second)
	v := viewOf(o)
	if gap, some := v.Cluster.Gap("jobs"); !v.Whole() || !some || gap.Final || gap.Reason != "try again" {
		t.Errorf("too late: whole %t, gap %+v", v.Whole(), gap)
	}
}

// What may not be read is not waited for.
func TestWhatMayNotBeReadIsNotWaitedFor(t *testing.T) {
	o, _ := newIdle()
	o.recordEnd(t.Context(), o.starts(jobs), "list", forbidden("bob", "jobs"))
	if v := viewOf(o); !v.Whole() {
		t.Error("the view is not whole")
	}
}

// Question after question, none of which is answered, keeps decisions waiting no longer than one would.
func TestReadingHasAnEnd(t *testing.T) {
	const step = 4 * time.Second
	o, wait := newIdle()
	waited := time.Duration(0)
	for _, r := range []resource{jobs, replicaSets, deployments, autoscalers, statefulSets, daemonSets, controllers} {
		o.starts(r)
		wait(step)
		if !viewOf(o).Whole() {
			waited += step
		}
	}
	if waited > snapshot.ReadingFor {
		t.Errorf("decisions waited for %s", waited)
	}
}

// Of a pod that comes in the middle of a drain nothing is decided before what decides about it has been read.
func TestViewWithALatePodIsNotWhole(t *testing.T) {
	client := fake.NewClientset()
	watched := podsWatched(client, 1)
	o, err := Start(t.Context(), client, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Stop()
	<-watched
	if _, err := client.CoreV1().Pods("shop").Create(t.Context(), podOwnedBy("late", "a", "batch/v1", "Job"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitView(t, o, "a whole view with the pod", func(v snapshot.View) bool {
		_, gap := v.Cluster.Gap("jobs")
		there := len(v.Cluster.PodsOn("a")) == 1
		if there && v.Whole() == gap {
			t.Fatalf("whole %t, and a gap %t", v.Whole(), gap)
		}
		return there && v.Whole()
	})
}

// What every decision needs and does not come is no gap, of which decisions would know: the view is blind.
func TestWhatDecisionsNeedAndDoesNotComeMakesTheViewBlind(t *testing.T) {
	o, wait := newIdle()
	f := o.starts(budgets)
	began := o.now()
	wait(snapshot.ReadingFor)
	if v := viewOf(o); !v.Whole() || !v.Blind.Equal(began) {
		t.Errorf("whole %t, blind since %s", v.Whole(), v.Blind)
	}
	o.mu.Lock()
	o.sync(f)
	o.mu.Unlock()
	if v := viewOf(o); !v.Blind.IsZero() {
		t.Errorf("all has come, and the view is blind since %s", v.Blind)
	}
}

// A gap is what all feeds of a resource say together.
func TestGapOfSeveralFeeds(t *testing.T) {
	o, _ := newIdle()
	o.ctx = t.Context()
	var feeds []*feed
	for _, namespace := range []string{"a", "b", "c"} {
		_, f := o.open(question{resource: jobs, namespace: namespace})
		feeds = append(feeds, f)
	}
	says := func(want string) {
		t.Helper()
		got := ""
		if gap, some := viewOf(o).Cluster.Gap("jobs"); some {
			got = gap.Reason
		}
		if got != want {
			t.Errorf("the gap says %q, want %q", got, want)
		}
	}
	sync := func(f *feed) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.sync(f)
	}
	says("not read yet")
	sync(feeds[0])
	says("not read yet")
	o.recordEnd(t.Context(), feeds[1], "list", errors.New("try again"))
	says("try again")
	refused := forbidden("bob", "jobs")
	o.recordEnd(t.Context(), feeds[2], "list", refused)
	says(refused.Error())
	sync(feeds[1])
	says(refused.Error())
}

// What only says why a pod is not ready is not waited for, unless something else needs it as well.
func TestWhatIsAskedAsideIsNotWaitedFor(t *testing.T) {
	o, wait := newIdle()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no feed reads anything
	o.ctx, o.client = ctx, fake.NewClientset()
	aside, needed := ofName(nodes, "", "a"), ofName(nodes, "", "b")
	do := func(asks ...func()) {
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, ask := range asks {
			ask()
		}
		o.flush()
	}
	do(func() { o.askAside(aside) })
	wait(time.Second)
	if v := viewOf(o); !v.Whole() || !v.Blind.IsZero() {
		t.Errorf("whole %t, blind since %s", v.Whole(), v.Blind)
	}
	do(func() { o.askAside(needed) }, func() { o.ask(needed) }, func() { o.askAside(needed) })
	if !o.feeds[aside].aside || o.feeds[needed].aside || viewOf(o).Whole() {
		t.Error("what is needed is not waited for")
	}
	do(func() { o.ask(aside) }, func() { o.askAside(aside) })
	if o.feeds[aside].aside {
		t.Error("what was asked aside before is not waited for, though it is needed now")
	}
	o.done.Wait()
}
