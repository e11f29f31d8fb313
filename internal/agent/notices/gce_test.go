package notices

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"usher.sh/usher/internal/notice"
	"usher.sh/usher/test/httpfault"
	"usher.sh/usher/test/metadatasim"
)

func TestGCEIsWokenByNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := metadatasim.NewGCE()
		w := watch(t, notice.GCE, service.Transport(), nil)
		pass(10 * time.Second)
		w.stands("at first")
		service.TakeRequests()
		pass(10 * time.Minute)
		if n := len(service.TakeRequests()); n < 18 || n > 22 {
			t.Errorf("%d requests in ten minutes without news", n)
		}
		service.Preempt()
		synctest.Wait()
		w.stands("at once", "SpotInterruption preempted in 30s")
		service.Set(metadatasim.GCEMaintenance, "MIGRATE_ON_HOST_MAINTENANCE")
		pass(2 * time.Second)
		w.stands("a migration", "Maintenance MIGRATE_ON_HOST_MAINTENANCE in 58s", "SpotInterruption preempted in 28s")
		service.Set(metadatasim.GCEMaintenance, "TERMINATE_ON_HOST_MAINTENANCE")
		pass(2 * time.Second)
		w.stands("it cannot be migrated", "Maintenance MIGRATE_ON_HOST_MAINTENANCE in 56s withdrawn",
			"Termination TERMINATE_ON_HOST_MAINTENANCE in 58s", "SpotInterruption preempted in 26s")
		service.Set(metadatasim.GCEMaintenance, "NONE")
		pass(2 * time.Second)
		w.stands("over", "Maintenance MIGRATE_ON_HOST_MAINTENANCE in 54s withdrawn",
			"Termination TERMINATE_ON_HOST_MAINTENANCE in 56s withdrawn", "SpotInterruption preempted in 24s")
		w.logged("all along")
	})
}

// A value that is said anew is the same event.
func TestGCERepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := metadatasim.NewGCE()
		w := watch(t, notice.GCE, service.Transport(), nil)
		for range 5 {
			service.Preempt()
			pass(2 * time.Second)
		}
		w.stands("repeated", "SpotInterruption preempted in 20s")
	})
}

// What changes while the server is away is answered at once when it is back.
func TestGCEMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := metadatasim.NewGCE()
		w := watch(t, notice.GCE, service.Transport(), nil)
		pass(10 * time.Second)
		service.Inject(httpfault.Fault{Refuse: true})
		pass(time.Minute) // what hangs already ends
		service.Preempt()
		pass(time.Minute)
		service.Heal()
		pass(longestErrorPause)
		if reports := w.Board().Reports(); len(reports[0].Notices) != 1 {
			t.Errorf("it is back: %+v", reports)
		}
	})
}

func TestGCEBadAnswers(t *testing.T) {
	flavor := map[string]string{"Metadata-Flavor": "Google"}
	const path = "GET /computeMetadata/v1/instance/preempted"
	for name, test := range map[string]struct {
		fault httpfault.Fault
		error string
	}{
		"another service":  {httpfault.Fault{Status: 200, Body: "FALSE"}, path + `: what answered 200 is not the metadata server: the header Metadata-Flavor is missing`},
		"a captive portal": {httpfault.Fault{Status: 302, Header: map[string]string{"Location": "http://example.com"}}, path + `: what answered 302 is not the metadata server: the header Metadata-Flavor is missing`},
		"fails":            {httpfault.Fault{Status: 503, Header: flavor}, path + `: answered 503 \"\"`},
		"not found":        {httpfault.Fault{Status: 404, Header: flavor}, path + `: answered 404 \"\"`},
		"redirects":        {httpfault.Fault{Status: 301, Header: map[string]string{"Metadata-Flavor": "Google", "Location": "/"}}, path + `: answered 301, a redirect to \"/\", which is not followed`},
		"a page":           {httpfault.Fault{Status: 200, Header: flavor, Body: "<html>"}, `preempted: \"<html>\" is neither TRUE nor FALSE`},
		"hangs":            {httpfault.Fault{Silent: true}, path + `: no answer came within 5s`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := metadatasim.NewGCE()
				test.fault.Path = metadatasim.GCEPreempted
				service.Inject(test.fault)
				w := watch(t, notice.GCE, service.Transport(), nil)
				pass(30 * time.Second)
				w.stands("nothing is known", "gce not whole")
				w.logged("once", `msg="the source of notices does not answer, and is asked again: what it has announced stands" question="gce preempted" error="`+test.error+`" standing=0`)
			})
		})
	}
}

// What stood stands while the server hangs, and a question that hangs longer than the server was asked to wait is given up.
func TestGCEHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := metadatasim.NewGCE()
		w := watch(t, notice.GCE, service.Transport(), nil)
		service.Preempt()
		pass(5 * time.Second)
		service.Inject(httpfault.Fault{Path: metadatasim.GCEPreempted, Silent: true})
		service.Set(metadatasim.GCEPreempted, "FALSE")
		pass(5 * time.Second)
		w.logs.take()
		service.TakeRequests()
		pass(10 * time.Minute)
		if n := count(service.TakeRequests(), "GET /computeMetadata/v1/instance/preempted"); n < 7 || n > 9 {
			t.Errorf("%d requests in ten minutes, want one in %s and a pause", n, gceHang+gceSlack)
		}
		service.Heal()
		pass(gceHang + gceSlack + longestErrorPause)
		if n := w.Board().Reports()[0].Notices[0]; !n.Withdrawn {
			t.Errorf("%+v, and it has answered", n)
		}
	})
}

// A server that does not wait, or has no etags, is asked once a second.
func TestGCEThatDoesNotWait(t *testing.T) {
	flavor := map[string]string{"Metadata-Flavor": "Google", "ETag": "1"}
	for name, header := range map[string]map[string]string{"it does not wait": flavor, "it has no etags": {"Metadata-Flavor": "Google"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := metadatasim.NewGCE()
				service.Inject(httpfault.Fault{Path: metadatasim.GCEPreempted, Status: http.StatusOK, Header: header, Body: "TRUE"})
				w := watch(t, notice.GCE, service.Transport(), nil)
				pass(20 * time.Second)
				w.stands("it is announced", "SpotInterruption preempted in 10s")
				if n := count(service.TakeRequests(), "GET /computeMetadata/v1/instance/preempted"); n > 21 {
					t.Errorf("%d requests in 20 s", n)
				}
			})
		})
	}
}
