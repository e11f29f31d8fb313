package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/agent/notices"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/notice"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/test/httpfault"
	"usher.sh/usher/test/metadatasim"
)

// noticeAPI is an apiserver with one node, its configuration of notices and NodeMaintenances.
type noticeAPI struct {
	mu      sync.Mutex
	config  *notice.Config
	wrong   error
	missing bool // there is no node
	silent  bool // nothing is answered
	objects map[string]*v1alpha1.NodeMaintenance
	changed chan struct{}
	made    int
	events  []string
	looks   int
	follows int
	refuse  error // watches are refused
}

func newNoticeAPI() *noticeAPI {
	return &noticeAPI{config: notice.Default(), objects: map[string]*v1alpha1.NodeMaintenance{}, changed: make(chan struct{})}
}

var errAway = errors.New("connection refused")

func (a *noticeAPI) Look(context.Context) (observe.NoticeView, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.looks++
	if a.silent {
		return observe.NoticeView{}, errAway
	}
	view := observe.NoticeView{Config: a.config, ConfigError: a.wrong}
	if !a.missing {
		view.Node = &notice.Node{Name: "node-1", UID: "uid-1"}
	}
	for _, m := range a.objects {
		view.Maintenances = append(view.Maintenances, m.DeepCopy())
	}
	return view, nil
}

func (a *noticeAPI) Follow(ctx context.Context, name string, uid types.UID, seen func(*v1alpha1.NodeMaintenance) bool) error {
	a.mu.Lock()
	a.follows++
	refuse := a.refuse
	a.mu.Unlock()
	if refuse != nil {
		return refuse
	}
	for {
		a.mu.Lock()
		m, changed := a.objects[name], a.changed
		a.mu.Unlock()
		if m == nil || m.UID != uid {
			seen(nil)
			return nil
		}
		if seen(m) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// do is a write.
func (a *noticeAPI) do(write func() error) answers.Answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.silent {
		return answers.Of(errAway)
	}
	err := write()
	if err == nil {
		close(a.changed)
		a.changed = make(chan struct{})
	}
	return answers.Of(err)
}

var conflict = apierrors.NewConflict(observe.MaintenanceResource.GroupResource(), "m", errors.New("it changed"))

func (a *noticeAPI) put(m *v1alpha1.NodeMaintenance) {
	a.made++
	m = m.DeepCopy()
	m.ResourceVersion = fmt.Sprint(a.made)
	if m.UID == "" {
		m.UID = types.UID(fmt.Sprintf("uid-m%d", a.made))
	}
	a.objects[m.Name] = m
}

func (a *noticeAPI) Begin(_ context.Context, m *v1alpha1.NodeMaintenance) answers.Answer {
	return a.do(func() error {
		if a.objects[m.Name] != nil {
			return conflict
		}
		a.put(m)
		return nil
	})
}

func (a *noticeAPI) Change(_ context.Context, c notice.Change) answers.Answer {
	return a.do(func() error {
		if now := a.objects[c.Seen.Name]; now == nil || now.ResourceVersion != c.Seen.ResourceVersion {
			return conflict
		}
		a.put(c.To)
		return nil
	})
}

func (a *noticeAPI) Withdraw(_ context.Context, m *v1alpha1.NodeMaintenance) answers.Answer {
	return a.do(func() error {
		switch now := a.objects[m.Name]; {
		case now == nil:
			return apierrors.NewNotFound(observe.MaintenanceResource.GroupResource(), m.Name)
		case now.ResourceVersion != m.ResourceVersion:
			return conflict
		}
		delete(a.objects, m.Name)
		return nil
	})
}

func (a *noticeAPI) Record(_ context.Context, e notice.Event) answers.Answer {
	return a.do(func() error {
		a.events = append(a.events, e.Reason)
		return nil
	})
}

// change changes an object of the API.
func (a *noticeAPI) change(what func(m *v1alpha1.NodeMaintenance)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range a.objects {
		what(m)
		a.put(m)
	}
	close(a.changed)
	a.changed = make(chan struct{})
}

// drain says that the maintenances have the node at a step.
func (a *noticeAPI) drain(uid types.UID, step v1alpha1.MaintenanceStep) {
	a.change(func(m *v1alpha1.NodeMaintenance) {
		m.Status.Nodes = []v1alpha1.MaintainedNode{{Name: "node-1", UID: uid, Step: step}}
	})
}

// has are the requesters and events of its maintenances, and what its events say.
func (a *noticeAPI) has() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := slices.Clone(a.events)
	for _, m := range a.objects {
		line := m.Spec.Requester + " " + m.Annotations[notice.EventAnnotation]
		if m.Spec.DeadlineTime != nil {
			line += " in " + time.Until(m.Spec.DeadlineTime.Time).Round(time.Second).String()
		}
		all = append(all, line)
	}
	slices.Sort(all)
	return all
}

func (a *noticeAPI) expect(t *testing.T, when string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, a.has()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

func (a *noticeAPI) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

// keeping runs an agent's part of notices in a bubble; it returns what ends it, as the death of the process does.
func keeping(t *testing.T, api *noticeAPI, source notice.Source, transport http.RoundTripper) (stop func(), board *notices.Board) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	w, err := notices.New(notices.Options{Node: "node-1", Sources: []notice.Source{source}, Transport: transport, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	keeper := newNoticeKeeper([]notice.Source{source}, w.Board(), &Options{NoticeReader: api, NoticeWriter: api, Now: time.Now, Log: log})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	running.Go(func() { keeper.run(ctx) })
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return stop, w.Board()
}

func passes(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

func TestNoticeBecomesAMaintenance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, service := newNoticeAPI(), metadatasim.NewEC2()
		_, board := keeping(t, api, notice.EC2, service.Transport())
		passes(time.Minute)
		api.expect(t, "nothing is announced")
		service.Interrupt("terminate", time.Now().Add(2*time.Minute))
		passes(5 * time.Second)
		api.expect(t, "announced", "ec2.notice.usher.sh/SpotInterruption interruption in 1m50s")
		service.Interrupt("terminate", time.Now().Add(time.Minute))
		passes(5 * time.Second)
		api.expect(t, "earlier", "ec2.notice.usher.sh/SpotInterruption interruption in 50s")
		looks := api.looks
		passes(30 * time.Second)
		if api.looks > looks+1 {
			t.Errorf("%d looks without news", api.looks-looks)
		}
		service.Withdraw(metadatasim.EC2SpotAction)
		service.Withdraw(metadatasim.EC2TerminationTime)
		passes(5 * time.Second)
		api.expect(t, "withdrawn")
		if stored := board.Reports()[0].Notices; len(stored) > 0 {
			t.Errorf("%+v is kept, and what follows from it is stored", stored)
		}
	})
}

func TestNoticeThatIsOnlyReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, service := newNoticeAPI(), metadatasim.NewEC2()
		keeping(t, api, notice.EC2, service.Transport())
		service.Set(metadatasim.EC2Rebalance, `{"noticeTime":"2000-01-01T00:00:00Z"}`)
		passes(5 * time.Second)
		api.expect(t, "reported", "NoticeRebalance")
		service.Set(metadatasim.EC2Lifecycle, "Terminated")
		passes(5 * time.Second)
		api.expect(t, "once", "NoticeRebalance", "ec2.notice.usher.sh/Termination lifecycle")
	})
}

// What could not be stored is tried until it is, and what is withdrawn meanwhile is not made.
func TestNoticeWhileTheAPIServerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, service := newNoticeAPI(), metadatasim.NewEC2()
		keeping(t, api, notice.EC2, service.Transport())
		passes(5 * time.Second)
		api.set(func() { api.silent = true; api.looks = 0 })
		service.Interrupt("terminate", time.Now().Add(2*time.Minute))
		passes(30 * time.Second)
		if api.looks < 5 || api.looks > 10 {
			t.Errorf("%d looks in half a minute", api.looks)
		}
		api.set(func() { api.silent = false })
		passes(noticeLongestAgain)
		api.expect(t, "it is back", "ec2.notice.usher.sh/SpotInterruption interruption in 1m15s")
		api.set(func() { api.silent = true })
		service.Withdraw(metadatasim.EC2SpotAction)
		service.Withdraw(metadatasim.EC2TerminationTime)
		passes(time.Minute)
		api.set(func() { api.silent = false })
		passes(noticeLongestAgain)
		api.expect(t, "withdrawn while it was away")
	})
}

// An agent that is started anew goes on from what is stored: what stands stays, with the deadline that it had, and what does not stand any more goes once
// the source has said so in whole.
func TestNoticesOfAnEarlierLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, service := newNoticeAPI(), metadatasim.NewEC2()
		stop, _ := keeping(t, api, notice.EC2, service.Transport())
		service.Interrupt("hibernate", time.Now().Add(2*time.Minute))
		service.Set(metadatasim.EC2Lifecycle, "Terminated")
		passes(10 * time.Second)
		stop()
		before := api.has()
		service.Inject(httpfault.Fault{Path: metadatasim.EC2Scheduled, Status: 500})
		service.Set(metadatasim.EC2Lifecycle, "InService")
		alert := notice.Notice{Source: notice.Alertmanager, Node: "node-1"} // another's to end
		others := &v1alpha1.NodeMaintenance{
			ObjectMeta: metav1.ObjectMeta{Name: alert.Name(), Annotations: map[string]string{notice.EndAnnotation: "1999-01-01T00:00:00Z"}},
			Spec:       v1alpha1.NodeMaintenanceSpec{Requester: "alertmanager.notice.usher.sh/Problem", Nodes: v1alpha1.NodeSelection{Names: []string{"node-1"}}},
		}
		api.set(func() { api.put(others) })
		keeping(t, api, notice.EC2, service.Transport())
		passes(30 * time.Second)
		api.expect(t, "not all is answered", append([]string{"alertmanager.notice.usher.sh/Problem "}, before...)...)
		service.Heal()
		passes(time.Minute)
		api.expect(t, "all is answered", "alertmanager.notice.usher.sh/Problem ", "ec2.notice.usher.sh/SpotInterruption interruption")
	})
}

// Azure is asked to begin once the node was seen to be drained: this one, and not before.
func TestDrainedIsReportedBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, service := newNoticeAPI(), metadatasim.NewAzure("vm1")
		keeping(t, api, notice.Azure, service.Transport())
		service.Schedule(metadatasim.AzureEvent{
			EventID: "e1", EventType: "Preempt", ResourceType: "VirtualMachine", Resources: []string{"vm1"}, EventStatus: "Scheduled",
			NotBefore: time.Now().Add(10 * time.Minute).UTC().Format(http.TimeFormat),
		})
		passes(5 * time.Second)
		api.expect(t, "announced", "azure.notice.usher.sh/SpotInterruption e1 in 9m50s")
		api.drain("uid-1", v1alpha1.StepDraining)
		passes(5 * time.Second)
		api.drain("uid-of-an-earlier-node", v1alpha1.StepDrained)
		passes(5 * time.Second)
		if approved := service.Approved(); approved != nil {
			t.Errorf("%q are approved, and the node is not drained", approved)
		}
		api.drain("uid-1", v1alpha1.StepDrained)
		passes(5 * time.Second)
		if diff := cmp.Diff([]string{"e1"}, service.Approved()); diff != "" {
			t.Errorf("approved (-want +got):\n%s", diff)
		}
		if api.follows != 1 {
			t.Errorf("%d watches of one maintenance", api.follows)
		}
		service.Schedule()
		passes(5 * time.Second)
		api.expect(t, "over")
	})
}

// A watch that is refused is begun again, and not without a pause.
func TestDrainedIsNotSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, service := newNoticeAPI(), metadatasim.NewAzure("vm1")
		api.refuse = errors.New("forbidden")
		keeping(t, api, notice.Azure, service.Transport())
		service.Schedule(metadatasim.AzureEvent{
			EventID: "e1", EventType: "Preempt", ResourceType: "VirtualMachine", Resources: []string{"vm1"}, EventStatus: "Scheduled",
			NotBefore: time.Now().Add(30 * time.Minute).UTC().Format(http.TimeFormat),
		})
		passes(time.Minute)
		if api.follows < 5 || api.follows > 7 {
			t.Errorf("%d watches in a minute", api.follows)
		}
		api.set(func() { api.refuse = nil })
		api.drain("uid-1", v1alpha1.StepDrained)
		passes(20 * time.Second)
		if diff := cmp.Diff([]string{"e1"}, service.Approved()); diff != "" {
			t.Errorf("approved (-want +got):\n%s", diff)
		}
	})
}

// While a maintenance of the same notice is being given back, its name is waited for.
func TestNoticeThatComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, service := newNoticeAPI(), metadatasim.NewGCE()
		keeping(t, api, notice.GCE, service.Transport())
		service.Preempt()
		passes(5 * time.Second)
		api.change(func(m *v1alpha1.NodeMaintenance) { m.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
		service.Set(metadatasim.GCEPreempted, "FALSE")
		passes(5 * time.Second)
		service.Preempt()
		passes(10 * time.Second)
		before := api.has()
		if len(before) != 1 {
			t.Fatalf("%q", before)
		}
		api.set(func() { clear(api.objects) })
		passes(2 * time.Second)
		api.expect(t, "it is made anew", "gce.notice.usher.sh/SpotInterruption preempted in 13s")
	})
}

func TestNoticesLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines strings.Builder
		api := newNoticeAPI()
		api.missing, api.wrong = true, errors.New("it is not YAML")
		service := metadatasim.NewGCE()
		log := slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelWarn}))
		w, err := notices.New(notices.Options{Node: "node-1", Sources: []notice.Source{notice.GCE}, Transport: service.Transport(), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		keeper := newNoticeKeeper([]notice.Source{notice.GCE}, w.Board(), &Options{NoticeReader: api, NoticeWriter: api, Now: time.Now, Log: log})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { w.Run(ctx) })
		running.Go(func() { keeper.run(ctx) })
		service.Preempt()
		passes(5 * time.Second)
		service.Set(metadatasim.GCEMaintenance, "MIGRATE_ON_HOST_MAINTENANCE")
		passes(5 * time.Second)
		cancel()
		running.Wait()
		for want, times := range map[string]int{"it is not YAML": 1, "event=preempted": 1, "event=MIGRATE_ON_HOST_MAINTENANCE": 1, "there is no node node-1": 2} {
			if got := strings.Count(lines.String(), want); got != times {
				t.Errorf("%q is logged %d times, want %d: %s", want, got, times, lines.String())
			}
		}
	})
}
