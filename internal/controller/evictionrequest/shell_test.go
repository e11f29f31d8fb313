package evictionrequest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/internal/evictionrequest"
)

var now = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

func TestEndingsAreRememberedForAWhile(t *testing.T) {
	e := newEndings()
	first := e.since("a", now)
	if again := e.since("a", now.Add(3*time.Second)); again != first {
		t.Errorf("the pod ended at %s, and then at %s", first, again)
	}
	if e.known("b") {
		t.Error("a pod is known that was not seen")
	}
	e.since("b", now.Add(time.Minute))
	if e.known("a") || !e.known("b") {
		t.Errorf("after a minute: %v", e.seen)
	}
}

func touched(name, manager string, at time.Time) *api.Eviction {
	return &api.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, ManagedFields: []metav1.ManagedFieldsEntry{{
		Manager: manager, Subresource: "status", Operation: metav1.ManagedFieldsOperationApply, Time: &metav1.Time{Time: at},
		FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:conditions":{"k:{\"type\":\"Failed\"}":{}},"f:targetResponders":{}}}`),
	}}}}
}

func TestStandingDownEnds(t *testing.T) {
	o := newOthers(logr.Discard(), nil, false)
	o.see(touched("ours", evictionrequest.FieldManager, now), now)
	if other, left := o.running(now); left != 0 {
		t.Errorf("our own hand is taken for %s", other.Manager)
	}
	o.see(touched("a", "theirs", now), now)
	o.see(touched("b", "theirs", now.Add(-time.Hour)), now)
	if other, left := o.running(now.Add(10 * time.Minute)); left != 20*time.Minute || other.Manager != "theirs" {
		t.Errorf("%s for %s more", other.Manager, left)
	}
	if _, left := o.running(now.Add(30 * time.Minute)); left != 0 {
		t.Errorf("after half an hour of silence, %s more", left)
	}
	o.see(touched("a", "theirs", now.Add(time.Hour)), now.Add(time.Hour))
	if _, left := o.running(now.Add(time.Hour)); left != 30*time.Minute {
		t.Errorf("back again, left to it for %s", left)
	}
	if wait := o.first(&api.EvictionRequest{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now)}}, now); wait != headStart {
		t.Errorf("it gets a head start of %s", wait)
	}
	o.forget(touched("a", "theirs", now))
	if _, left := o.running(now.Add(time.Hour)); left != 0 {
		t.Errorf("after the eviction is gone, %s more", left)
	}
}

// A claimed time, and the clock that goes back, leave the cluster to another for OtherMemory at most.
func TestStandingDownIsBounded(t *testing.T) {
	o := newOthers(logr.Discard(), nil, false)
	o.see(touched("a", "theirs", now.AddDate(70, 0, 0)), now)
	if other, left := o.running(now); left != 0 {
		t.Errorf("the future is believed: %s for %s", other.Manager, left)
	}
	o.see(touched("a", "theirs", now), now)
	if _, left := o.running(now.Add(-time.Hour)); left != evictionrequest.OtherMemory {
		t.Errorf("left to it for %s", left)
	}
}

// Usher's own API has no other controller, and neither has a cluster whose administrator says so.
func TestAloneLooksForNoOther(t *testing.T) {
	o := newOthers(logr.Discard(), nil, true)
	o.see(touched("a", "theirs", now), now)
	if other, left := o.running(now); left != 0 {
		t.Errorf("left to %s for %s", other.Manager, left)
	}
	if wait := o.first(&api.EvictionRequest{}, now); wait != 0 {
		t.Errorf("a head start of %s", wait)
	}
}

// What a client calls itself is printed on one line, without what a terminal obeys, and fits into an event.
func TestTheOthersNameIsPrintable(t *testing.T) {
	recorder := events.NewFakeRecorder(1)
	o := newOthers(logr.Discard(), recorder, false)
	o.announce(&api.EvictionRequest{}, evictionrequest.Other{Manager: "\x1b[2Jthe\nirs\u202e " + strings.Repeat("x", 2000), Seen: now})
	const head, most = "Normal ServedByAnother ", 1024
	note, ok := strings.CutPrefix(<-recorder.Events, head)
	if !ok || !strings.HasPrefix(note, "evictions are run by the irs xxx") || len(note) > most {
		t.Errorf("%d bytes: %q", len(note), note)
	}
}

// Which controller begins first is not known until one has written.
func TestAnotherHasAHeadStart(t *testing.T) {
	request := &api.EvictionRequest{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now)}}
	served := func(manager string) *api.Eviction {
		return &api.Eviction{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: manager, Subresource: "status"}}}}
	}
	o := newOthers(logr.Discard(), nil, false)
	for _, step := range []struct {
		saw   *api.Eviction
		after time.Duration
		wait  time.Duration
	}{
		{nil, -time.Hour, headStart},
		{nil, time.Second, time.Second},
		{served("x"), time.Second, time.Second},
		{nil, 3 * time.Second, -time.Second},
		{served(evictionrequest.FieldManager), 0, 0},
	} {
		if step.saw != nil {
			o.see(step.saw, now)
		}
		if wait := o.first(request, now.Add(step.after)); wait != step.wait {
			t.Errorf("after %s: %s, want %s", step.after, wait, step.wait)
		}
	}
}

// reader knows one pod, or fails.
type reader struct {
	client.Reader
	uid types.UID
	err error
}

func (r reader) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if r.err != nil {
		return r.err
	}
	if r.uid == "" {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, key.Name)
	}
	into.(*corev1.Pod).UID = r.uid
	return nil
}

// cached is a client of which only the reading is used.
type cached struct {
	client.Client
	reader
}

func (c cached) Get(ctx context.Context, key client.ObjectKey, into client.Object, o ...client.GetOption) error {
	return c.reader.Get(ctx, key, into, o...)
}

func TestAPodIsGoneOnlyWhenSeenGone(t *testing.T) {
	broken := reader{err: errors.New("no answer")}
	cases := []struct {
		name        string
		cache, live reader
		watched     bool // the watch has seen its end
		found, fail bool
	}{
		{name: "in the cache", cache: reader{uid: "a"}, live: broken, found: true},
		{name: "not in the cache yet", live: reader{uid: "a"}, found: true},
		{name: "the cache has the one before", cache: reader{uid: "z"}, live: reader{uid: "a"}, found: true},
		{name: "gone", cache: reader{}, live: reader{}},
		{name: "another under the name", cache: reader{uid: "b"}, live: reader{uid: "b"}},
		{name: "seen going by the watch", live: broken, watched: true},
		{name: "not in the cache, server silent", live: broken, fail: true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := &reconciler{client: cached{reader: c.cache}, live: c.live, endings: newEndings()}
			if c.watched {
				s.endings.since("a", now)
			}
			pod, err := s.pod(t.Context(), evictionrequest.Ref{Namespace: "n", Name: "p", UID: "a"})
			if (pod != nil) != c.found || (err != nil) != c.fail {
				t.Errorf("pod %v, error %v", pod, err)
			}
		})
	}
}

var errWritten = errors.New("a status is written")

// unwritable takes no status.
type unwritable struct{ client.SubResourceWriter }

func (unwritable) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return errWritten
}

// noted has one request and its pod, and notes what is read beside the request.
type noted struct {
	client.Client
	request *api.EvictionRequest
	read    *[]string
}

func (n noted) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if request, ok := into.(*api.EvictionRequest); ok {
		n.request.DeepCopyInto(request)
		return nil
	}
	*n.read = append(*n.read, "the pod")
	into.SetUID(n.request.Spec.Target.Pod.UID)
	return nil
}

func (n noted) Status() client.SubResourceWriter { return unwritable{} }

func (n noted) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	*n.read = append(*n.read, fmt.Sprintf("%T", list))
	return nil
}

// A request costs no look at the other requests for its pod, of which there may be any number, and one that has its last answer
// costs nothing.
func TestARequestReadsNoOthers(t *testing.T) {
	settled := metav1.Condition{Type: string(api.EvictionConditionTargetEvicted), Status: metav1.ConditionTrue}
	cases := []struct {
		name       string
		conditions []metav1.Condition
		want       []string
		written    bool
	}{
		{"new", nil, []string{"*v1alpha1.EvictionList", "the pod"}, true},
		{"settled", []metav1.Condition{settled}, nil, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			request := evictionrequest.NewRequest(evictionrequest.Ref{Namespace: "n", Name: "p", UID: "a"}, "x.io/y")
			request.Status.Conditions = c.conditions
			var read []string
			s := &reconciler{
				client: noted{request: request, read: &read}, endings: newEndings(), others: newOthers(logr.Discard(), nil, true), made: newMade(),
				options: Options{Now: time.Now},
			}
			_, err := s.reconcileRequest(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(request)})
			if errors.Is(err, errWritten) != c.written {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(c.want, read); diff != "" {
				t.Errorf("read (-want +got):\n%s", diff)
			}
		})
	}
}

// behind has one request, which is written, and shows the evictions that it is told to show, whatever was created.
type behind struct {
	client.Client
	request   *api.EvictionRequest
	evictions []api.Eviction
	created   int
	meanwhile func() // what happens while an eviction is being created
	fails     error  // what is answered then
}

// show has the cache show an eviction of the pod from now on.
func (b *behind) show(name string) {
	shown := api.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}}
	shown.Spec.Target.Pod = &api.EvictionPodReference{Name: "p", UID: "a"}
	b.evictions = []api.Eviction{shown}
}

func (b *behind) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if request, ok := into.(*api.EvictionRequest); ok {
		b.request.DeepCopyInto(request)
		return nil
	}
	into.SetUID(b.request.Spec.Target.Pod.UID)
	return nil
}

func (b *behind) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*api.EvictionList).Items = b.evictions
	return nil
}

func (b *behind) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	b.created++
	if then := b.meanwhile; then != nil {
		b.meanwhile = nil
		then()
	}
	return b.fails
}

func (b *behind) Status() client.SubResourceWriter { return writable{} }

// writable takes every status.
type writable struct{ client.SubResourceWriter }

func (writable) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return nil
}

// The status of a request, and its eviction, are shown by two watches: the first event wakes the request before the eviction is in the cache.
func TestAnEvictionIsCreatedOnceThoughTheCacheIsBehind(t *testing.T) {
	request := evictionrequest.NewRequest(evictionrequest.Ref{Namespace: "n", Name: "p", UID: "a"}, "x.io/y")
	request.UID = "r"
	store := &behind{request: request}
	s := &reconciler{
		client: store, live: store, endings: newEndings(), others: newOthers(logr.Discard(), nil, true), made: newMade(), options: Options{Now: time.Now},
	}
	look := func(want int) {
		t.Helper()
		if _, err := s.reconcileRequest(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(request)}); err != nil {
			t.Fatal(err)
		}
		if store.created != want {
			t.Errorf("created %d times, want %d", store.created, want)
		}
	}
	look(1)
	look(1)
	store.show("pod-1-p")
	look(1)
	store.evictions = nil // it was seen, and is gone
	look(2)
}

// before does something before it reads.
type before struct {
	client.Reader
	does func()
}

func (b before) Get(ctx context.Context, key client.ObjectKey, into client.Object, o ...client.GetOption) error {
	b.does()
	return b.Reader.Get(ctx, key, into, o...)
}

// Two requests of a pod are looked at by two workers: what one of them creates would take the other's owner away, and the eviction would go with
// the first of them that is deleted.
func TestAnEvictionIsCreatedForOneRequestOfAPod(t *testing.T) {
	alice := evictionrequest.NewRequest(evictionrequest.Ref{Namespace: "n", Name: "p", UID: "a"}, "x.io/alice")
	bob := alice.DeepCopy()
	alice.UID, bob.UID, bob.Spec.Requester = "alice", "bob", "x.io/bob"
	for name, c := range map[string]struct {
		decides, creates bool // the other worker looks when one has decided, or when it creates
		seen             bool // its eviction is seen at once, also by a third
		fails            error
		want             []int
	}{
		"one after the other":                  {want: []int{1, 0}},
		"both decide":                          {decides: true, want: []int{0, 1}},
		"both decide, and one is seen":         {decides: true, seen: true, want: []int{0, 1}},
		"one creates":                          {creates: true, want: []int{1, 0}},
		"one is refused":                       {fails: apierrors.NewForbidden(schema.GroupResource{}, "", nil), want: []int{1, 1}},
		"one is not answered":                  {fails: apierrors.NewServerTimeout(schema.GroupResource{}, "apply", 1), want: []int{1, 0}},
		"one is cut off before it is answered": {fails: io.ErrUnexpectedEOF, want: []int{1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			first, second := &behind{request: alice}, &behind{request: bob}
			shared := newMade()
			look := func(store *behind, live client.Reader) {
				s := &reconciler{
					client: store, live: live, endings: newEndings(), others: newOthers(logr.Discard(), nil, true), made: shared, options: Options{Now: time.Now},
				}
				if _, err := s.reconcileRequest(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(store.request)}); !errors.Is(err, store.fails) {
					t.Error(err)
				}
			}
			other := func() { look(second, second) }
			live := before{first, func() {}}
			first.fails = c.fails
			if c.decides {
				live.does = func() {
					other()
					if c.seen {
						first.show("pod-1-p")
						second.show("pod-1-p")
						other() // which forgets what was created
					}
				}
			}
			if c.creates {
				first.meanwhile = other
			}
			look(first, live)
			other()
			if diff := cmp.Diff(c.want, []int{first.created, second.created}); diff != "" {
				t.Errorf("created (-want +got):\n%s", diff)
			}
		})
	}
}

// A pod, its requests and its eviction are shown by three watches: the eviction may be seen collected before the request and the pod are
// seen gone.
func TestNoEvictionIsCreatedForARequestThatIsGone(t *testing.T) {
	request := evictionrequest.NewRequest(evictionrequest.Ref{Namespace: "n", Name: "p", UID: "a"}, "x.io/y")
	request.UID = "r"
	withdrawn, another := request.DeepCopy(), request.DeepCopy()
	withdrawn.Spec.Intent, another.UID = api.EvictionRequestIntentWithdrawn, "r2"
	for name, c := range map[string]struct {
		live    client.Reader
		created int
		fail    bool
	}{
		"it is there":                    {live: &behind{request: request}, created: 1},
		"it is gone":                     {live: reader{}},
		"it is withdrawn":                {live: &behind{request: withdrawn}},
		"another one has its name":       {live: &behind{request: another}},
		"the server does not answer now": {live: reader{err: errors.New("no answer")}, fail: true},
	} {
		t.Run(name, func(t *testing.T) {
			store := &behind{request: request}
			s := &reconciler{
				client: store, live: c.live, endings: newEndings(), others: newOthers(logr.Discard(), nil, true), made: newMade(),
				options: Options{Now: time.Now},
			}
			_, err := s.reconcileRequest(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(request)})
			if store.created != c.created || (err != nil) != c.fail {
				t.Errorf("created %d times, error %v", store.created, err)
			}
		})
	}
}

// ownerless has one request for a pod, which has no owner: nothing collects it with the pod.
type ownerless struct {
	client.Client
	request *api.EvictionRequest
	pod     types.UID // that has the name now; "": none
}

func (o ownerless) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if o.pod == "" {
		return apierrors.NewNotFound(corev1.Resource("pods"), key.Name)
	}
	into.SetUID(o.pod)
	return nil
}

func (o ownerless) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*api.EvictionRequestList).Items = []api.EvictionRequest{*o.request}
	return nil
}

// A request that no eviction serves ends with its pod, of which nothing but the pod's end brings an event.
func TestTheEndOfAPodWakesItsRequests(t *testing.T) {
	request := evictionrequest.NewRequest(evictionrequest.Ref{Namespace: "n", Name: "p", UID: "a"}, "x.io/y")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "a"}}
	for name, now := range map[string]types.UID{"it is gone": "", "another one has its name": "b"} {
		t.Run(name, func(t *testing.T) {
			s := &reconciler{client: ownerless{request: request, pod: now}, endings: newEndings()}
			want := []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(request)}}
			if diff := cmp.Diff(want, s.requestsOfEnded(t.Context(), pod)); diff != "" {
				t.Errorf("woken (-want +got):\n%s", diff)
			}
			if !s.endings.known("a") {
				t.Error("the end is not dated")
			}
		})
	}
}
