package notices

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/internal/notice"
	"usher.sh/usher/test/httpfault"
	"usher.sh/usher/test/metadatasim"
)

// reboot is scheduled in 15 minutes.
func reboot(id string, machines ...string) metadatasim.AzureEvent {
	return metadatasim.AzureEvent{
		EventID: id, EventType: "Reboot", ResourceType: "VirtualMachine", Resources: machines, EventStatus: "Scheduled",
		NotBefore: time.Now().Add(15 * time.Minute).UTC().Format(http.TimeFormat), EventSource: "Platform", DurationInSeconds: -1,
	}
}

func TestAzureEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := metadatasim.NewAzure("vm1")
		service.First = 2 * time.Minute
		w := watch(t, notice.Azure, service.Transport(), nil)
		pass(time.Minute)
		w.stands("while the service is turned on", "azure not whole")
		pass(time.Minute)
		w.stands("it is on")
		w.logged("that it takes long at first is no failure")
		preempted := metadatasim.AzureEvent{
			EventID: "e2", EventType: "Preempt", ResourceType: "VirtualMachine", Resources: []string{"VM1"}, EventStatus: "Scheduled",
			NotBefore: time.Now().Add(30 * time.Second).UTC().Format(http.TimeFormat), EventSource: "Platform", DurationInSeconds: -1,
		}
		service.Schedule(reboot("e1", "vm2"), preempted)
		pass(time.Second)
		w.stands("of this machine alone", "SpotInterruption e2 in 29s")
		preempted.EventStatus, preempted.NotBefore = "Started", ""
		service.Schedule(preempted)
		pass(time.Second)
		w.stands("it begins before its time", "SpotInterruption e2 in 0s")
		service.Schedule()
		pass(time.Second)
		w.stands("over", "SpotInterruption e2 in -1s withdrawn")
	})
}

// An event is approved once its node is drained, once, and only where no other machine is part of it.
func TestAzureApproval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := metadatasim.NewAzure("vm1")
		w := watch(t, notice.Azure, service.Transport(), nil)
		service.Schedule(reboot("own", "vm1"), reboot("shared", "vm1", "vm2"), reboot("other", "vm2"))
		pass(time.Minute)
		for _, id := range []string{"shared", "other", "none"} {
			w.Board().Drained(notice.Azure, id)
		}
		pass(time.Minute)
		if approved := service.Approved(); approved != nil {
			t.Errorf("%q approved of nodes that are not drained, and events of others", approved)
		}
		w.Board().Drained(notice.Azure, "own")
		pass(time.Minute)
		if diff := cmp.Diff([]string{"own"}, service.Approved()); diff != "" {
			t.Errorf("approved (-want +got):\n%s", diff)
		}
		w.stands("it has begun", "Reboot own in -58s", "Reboot shared in 12m0s")
		w.logged("said once", `msg="the node is drained: the event is approved, and begins now" event=own`)
	})
}

// An approval whose answer was lost, or that was refused, is tried again while the event is scheduled.
func TestAzureApprovalFails(t *testing.T) {
	for name, fault := range map[string]httpfault.Fault{
		"lost":    {Method: http.MethodPost, Lost: true},
		"refused": {Method: http.MethodPost, Status: 400, Body: "no", Times: 2},
		"silent":  {Method: http.MethodPost, Silent: true, Times: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := metadatasim.NewAzure("vm1")
				w := watch(t, notice.Azure, service.Transport(), nil)
				service.Schedule(reboot("e1", "vm1"))
				pass(5 * time.Second)
				service.Inject(fault)
				w.Board().Drained(notice.Azure, "e1")
				pass(3 * time.Minute)
				if n := count(service.TakeRequests(), "POST "); n > 3 {
					t.Errorf("%d approvals", n)
				}
				if diff := cmp.Diff([]string{"e1"}, service.Approved()); diff != "" {
					t.Errorf("approved (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// A document that is older than one that was read withdraws nothing, and an event that it has stands.
func TestAzureOlderDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := metadatasim.NewAzure("vm1")
		w := watch(t, notice.Azure, service.Transport(), nil)
		service.Schedule(reboot("e1", "vm1"))
		pass(5 * time.Second)
		older := httpfault.Fault{Path: "scheduledevents", Times: 1, Status: 200, Body: `{"DocumentIncarnation":1,"Events":[
			{"EventId":"e2","EventType":"Freeze","ResourceType":"VirtualMachine","Resources":["vm1"],"EventStatus":"Scheduled","NotBefore":""}]}`}
		service.Inject(older)
		pass(time.Second)
		w.stands("an older document", "Reboot e1 in 14m54s", "Maintenance e2 in 0s")
		w.logged("an older document", `msg="the source of notices does not answer, and is asked again: what it has announced stands" question="azure scheduledevents" error="not all of its answer can be read: its document 1 is older than 2, which was read before" standing=2`)
		pass(time.Second)
		w.stands("the newest again", "Reboot e1 in 14m53s", "Maintenance e2 in -1s withdrawn")
		service.Schedule()
		service.Rewind(1)
		pass(2 * time.Second)
		w.stands("a service that counts anew", "Reboot e1 in 14m51s withdrawn", "Maintenance e2 in -3s withdrawn")
	})
}

func TestAzureBadAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		fault httpfault.Fault
		error string
	}{
		"empty object": {httpfault.Fault{Status: 200, Body: "{}"}, `scheduledevents: \"{}\" is no list of scheduled events: DocumentIncarnation or Events is missing`},
		"a page":       {httpfault.Fault{Status: 200, Body: "<html>"}, `scheduledevents: \"<html>\" is not the JSON that was expected: invalid character '<' looking for beginning of value`},
		"fails":        {httpfault.Fault{Status: 500}, `GET /metadata/scheduledevents?api-version=2020-07-01: answered 500 \"\"`},
		"too many":     {httpfault.Fault{Status: 429}, `GET /metadata/scheduledevents?api-version=2020-07-01: answered 429 \"\"`},
		"hangs":        {httpfault.Fault{Silent: true}, `GET /metadata/scheduledevents?api-version=2020-07-01: no answer came within 10s`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := metadatasim.NewAzure("vm1")
				w := watch(t, notice.Azure, service.Transport(), nil)
				service.Schedule(reboot("e1", "vm1"))
				pass(5 * time.Second)
				service.Schedule()
				test.fault.Path = "scheduledevents"
				service.Inject(test.fault)
				pass(time.Minute)
				w.stands("it stands", "Reboot e1 in 13m55s")
				w.logged("once", `msg="the source of notices does not answer, and is asked again: what it has announced stands" question="azure scheduledevents" error="`+strings.ReplaceAll(test.error, `\\`, `\`)+`" standing=1`)
			})
		})
	}
}

// Without a name, no event is known to be this machine's.
func TestAzureWithoutAName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := metadatasim.NewAzure("vm1")
		service.Inject(httpfault.Fault{Path: "compute/name", Status: 200, Body: "<html>"})
		service.Schedule(reboot("e1", "vm1"))
		w := watch(t, notice.Azure, service.Transport(), nil)
		pass(time.Minute)
		w.stands("without a name", "azure not whole")
		service.Heal()
		pass(longestErrorPause)
		if reports := w.Board().Reports(); len(reports[0].Notices) != 1 {
			t.Errorf("with a name: %+v", reports)
		}
	})
}

// An approval that is refused is not asked for at each look.
func TestAzureApprovalIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := metadatasim.NewAzure("vm1")
		w := watch(t, notice.Azure, service.Transport(), nil)
		service.Schedule(reboot("e1", "vm1"))
		pass(5 * time.Second)
		service.Inject(httpfault.Fault{Method: http.MethodPost, Status: 400, Body: "no"})
		w.Board().Drained(notice.Azure, "e1")
		pass(3 * time.Minute)
		if n := count(service.TakeRequests(), "POST "); n < 6 || n > 7 {
			t.Errorf("%d approvals in three minutes", n)
		}
	})
}
