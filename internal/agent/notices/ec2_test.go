package notices

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"usher.sh/usher/internal/notice"
	"usher.sh/usher/test/httpfault"
	"usher.sh/usher/test/metadatasim"
)

func TestEC2Interruption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := metadatasim.NewEC2()
		w := watch(t, notice.EC2, service.Transport(), nil)
		synctest.Wait()
		w.stands("at first")
		if requests := service.TakeRequests(); count(requests, "PUT /latest/api/token") != 1 || len(requests) != 6 {
			t.Errorf("a first look of %q", requests)
		}
		service.Interrupt("terminate", time.Now().Add(2*time.Minute))
		pass(5 * time.Second)
		w.stands("5 s after it was announced", "SpotInterruption interruption in 1m55s")
		pass(time.Minute)
		w.stands("a minute later", "SpotInterruption interruption in 55s")
		service.Withdraw(metadatasim.EC2SpotAction)
		pass(5 * time.Second)
		w.stands("while the older path has it", "SpotInterruption interruption in 50s")
		service.Withdraw(metadatasim.EC2TerminationTime)
		pass(5 * time.Second)
		w.stands("withdrawn", "SpotInterruption interruption in 45s withdrawn")
		w.Board().Stored(&w.Board().Reports()[0])
		w.stands("and stored")
		w.logged("all along")
	})
}

// A service that says so each time in other words has announced one event, and the earliest time counts.
func TestEC2InterruptionThatMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := metadatasim.NewEC2()
		w := watch(t, notice.EC2, service.Transport(), nil)
		service.Interrupt("terminate", time.Now().Add(2*time.Minute))
		pass(5 * time.Second)
		service.Interrupt("stop", time.Now().Add(time.Minute))
		pass(5 * time.Second)
		w.stands("earlier", "SpotInterruption interruption in 55s")
		service.Interrupt("terminate", time.Now().Add(time.Hour))
		pass(5 * time.Second)
		w.stands("later", "SpotInterruption interruption in 50s")
		service.Interrupt("hibernate", time.Now().Add(time.Hour))
		pass(5 * time.Second)
		w.stands("hibernation has begun when it is announced", "SpotInterruption interruption in 0s")
		pass(5 * time.Second)
		w.stands("and began then", "SpotInterruption interruption in -5s")
	})
}

func TestEC2EachEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := metadatasim.NewEC2()
		w := watch(t, notice.EC2, service.Transport(), nil)
		service.Set(metadatasim.EC2TerminationTime, time.Now().Add(2*time.Minute).UTC().Format(time.RFC3339))
		service.Set(metadatasim.EC2Rebalance, `{"noticeTime":"2000-01-01T00:00:00Z"}`)
		service.Set(metadatasim.EC2Lifecycle, "Terminated")
		reboot := metadatasim.EC2Event{
			NotBefore: time.Now().Add(48 * time.Hour).UTC().Format("2 Jan 2006 15:04:05 GMT"), Code: "system-reboot", EventID: "instance-event-1", State: "active",
		}
		service.Schedule(reboot)
		pass(time.Minute)
		w.stands("announced", "Reboot instance-event-1 in 47h59m0s", "SpotInterruption interruption in 1m0s", "Termination lifecycle", "Rebalance rebalance")
		reboot.State = "completed"
		service.Schedule(reboot)
		service.Withdraw(metadatasim.EC2TerminationTime)
		service.Withdraw(metadatasim.EC2Rebalance)
		service.Set(metadatasim.EC2Lifecycle, "InService")
		pass(time.Minute)
		w.stands("over", "Reboot instance-event-1 in 47h58m0s withdrawn", "SpotInterruption interruption in 0s withdrawn",
			"Termination lifecycle withdrawn", "Rebalance rebalance withdrawn")
	})
}

// What is wrong with an answer withdraws nothing, and adds nothing.
func TestEC2BadAnswers(t *testing.T) {
	long := strings.Repeat(" ", mostBody) + "{}"
	for name, fault := range map[string]struct {
		fault httpfault.Fault
		error string
	}{
		"refuses":   {httpfault.Fault{Refuse: true}, `GET /latest/meta-data/spot/instance-action: Get \"http://169.254.169.254/latest/meta-data/spot/instance-action\": dial tcp: connection refused`},
		"hangs":     {httpfault.Fault{Silent: true}, `GET /latest/meta-data/spot/instance-action: no answer came within 5s`},
		"breaks":    {httpfault.Fault{Lost: true}, `GET /latest/meta-data/spot/instance-action: Get \"http://169.254.169.254/latest/meta-data/spot/instance-action\": read: connection reset by peer`},
		"is cut":    {httpfault.Fault{Cut: 9}, `GET /latest/meta-data/spot/instance-action: reading the answer: unexpected EOF`},
		"fails":     {httpfault.Fault{Status: 500, Body: "oh no"}, `GET /latest/meta-data/spot/instance-action: answered 500 \"oh no\"`},
		"overload":  {httpfault.Fault{Status: 503}, `GET /latest/meta-data/spot/instance-action: answered 503 \"\"`},
		"page":      {httpfault.Fault{Status: 200, Body: "<html>"}, `spot/instance-action: \"<html>\" is not the JSON that was expected: invalid character '<' looking for beginning of value`},
		"empty":     {httpfault.Fault{Status: 200}, `spot/instance-action: \"\" is not the JSON that was expected: unexpected end of JSON input`},
		"too long":  {httpfault.Fault{Status: 200, Body: long}, `GET /latest/meta-data/spot/instance-action: the answer has more than 1048576 bytes`},
		"redirects": {httpfault.Fault{Status: 302, Header: map[string]string{"Location": "http://example.com/"}}, `GET /latest/meta-data/spot/instance-action: answered 302, a redirect to \"http://example.com/\", which is not followed`},
		"refuses tokens": {
			httpfault.Fault{Status: 401},
			`GET /latest/meta-data/spot/instance-action: answered 401 \"\"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := metadatasim.NewEC2()
				w := watch(t, notice.EC2, service.Transport(), nil)
				service.Interrupt("terminate", time.Now().Add(time.Hour))
				pass(5 * time.Second)
				w.logged("at first")
				service.TakeRequests()
				fault.fault.Path = metadatasim.EC2SpotAction
				service.Inject(fault.fault)
				service.Withdraw(metadatasim.EC2SpotAction)
				service.Withdraw(metadatasim.EC2TerminationTime)
				pass(2 * time.Minute)
				w.stands("all the time", "SpotInterruption interruption in 57m55s")
				w.logged("once", `msg="the source of notices does not answer, and is asked again: what it has announced stands" question="ec2 spot" error="`+fault.error+`" standing=1`)
				if n := count(service.TakeRequests(), "GET /latest/meta-data/spot/"); n < 7 || n > 60 {
					t.Errorf("%d requests in two minutes", n)
				}
				service.Heal()
				pass(20 * time.Second)
				w.stands("healed", "SpotInterruption interruption in 57m35s withdrawn")
				w.logged("healed", `msg="the source of notices answers again" question="ec2 spot"`)
			})
		})
	}
}

// As long as one question has had no answer, nothing is known of what an earlier process has stored.
func TestEC2NotWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := metadatasim.NewEC2()
		service.Inject(httpfault.Fault{Path: metadatasim.EC2Scheduled, Status: 500})
		w := watch(t, notice.EC2, service.Transport(), nil)
		pass(time.Minute)
		w.stands("one path fails", "ec2 not whole")
		<-w.Board().Changed()
		service.Heal()
		pass(time.Minute)
		w.stands("all have answered")
		select {
		case <-w.Board().Changed():
		default:
			t.Error("that the report is whole was no change")
		}
		service.Inject(httpfault.Fault{Silent: true})
		pass(time.Minute)
		w.stands("it has answered before")
	})
}

func TestEC2Tokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := metadatasim.NewEC2()
		w := watch(t, notice.EC2, service.Transport(), nil)
		pass(metadatasim.EC2TokenTTL)
		if n := count(service.TakeRequests(), "PUT "); n != 2 {
			t.Errorf("%d tokens while one was good, want a second before its end", n)
		}
		w.logged("all the time: no token was used after its end")
		service.ExpireTokens()
		pass(10 * time.Second)
		if n := count(service.TakeRequests(), "PUT "); n != 1 {
			t.Errorf("%d new tokens where one was not accepted any more", n)
		}
		w.logged("a token that was not accepted is no failure")
	})
}

// A token is not used longer than the service says, whatever was asked for.
func TestEC2ShortToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := metadatasim.NewEC2()
		short := httpfault.Fault{Method: http.MethodPut, Status: 200, Header: map[string]string{"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": "100"}, Body: "forged"}
		service.Inject(short)
		watch(t, notice.EC2, service.Transport(), nil)
		synctest.Wait()
		service.TakeRequests()
		service.Inject(httpfault.Fault{Path: "meta-data", Status: 404})
		pass(48 * time.Second)
		if n := count(service.TakeRequests(), "PUT "); n > 1 { // the forged one was not accepted at first
			t.Errorf("%d tokens within half its time", n)
		}
		pass(10 * time.Second)
		if n := count(service.TakeRequests(), "PUT "); n != 1 {
			t.Errorf("%d tokens after half its time", n)
		}
	})
}

// Whatever is wrong with the token, nothing is asked without one.
func TestEC2WithoutAToken(t *testing.T) {
	const hops = `fetching a token (in a pod without the host's network, the instance's hop limit has to be 2 or more): PUT /latest/api/token: `
	good := map[string]string{"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": "21600"}
	for name, test := range map[string]struct {
		fault httpfault.Fault
		error string
	}{
		"version 1 alone":    {httpfault.Fault{Status: 404}, `fetching a token: PUT /latest/api/token: answered 404 \"\"`},
		"another service":    {httpfault.Fault{Status: 405}, `fetching a token: PUT /latest/api/token: answered 405 \"\"`},
		"turned off":         {httpfault.Fault{Status: 403}, `the metadata service is turned off for this instance: turn it on (aws ec2 modify-instance-metadata-options --http-endpoint enabled)`},
		"hangs":              {httpfault.Fault{Silent: true}, hops + `no answer came within 5s`},
		"redirects":          {httpfault.Fault{Status: 307, Header: map[string]string{"Location": "/elsewhere"}}, `fetching a token: PUT /latest/api/token: answered 307, a redirect to \"/elsewhere\", which is not followed`},
		"a page":             {httpfault.Fault{Status: 200, Header: good, Body: "<html> </html>"}, `fetching a token: the answer of 14 bytes is no token`},
		"nothing":            {httpfault.Fault{Status: 200, Header: good}, `fetching a token: the answer of 0 bytes is no token`},
		"too long":           {httpfault.Fault{Status: 200, Header: good, Body: strings.Repeat("a", mostToken+1)}, `fetching a token: the answer of 4097 bytes is no token`},
		"of unknown length":  {httpfault.Fault{Status: 200, Body: "token"}, `fetching a token: the answer does not say how long the token is good for`},
		"of no length":       {httpfault.Fault{Status: 200, Header: map[string]string{"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": "0"}, Body: "token"}, `fetching a token: the answer does not say how long the token is good for`},
		"of negative length": {httpfault.Fault{Status: 200, Header: map[string]string{"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": "-1"}, Body: "token"}, `fetching a token: the answer does not say how long the token is good for`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := metadatasim.NewEC2()
				test.fault.Path = "/latest/api/token"
				service.Inject(test.fault)
				w := watch(t, notice.EC2, service.Transport(), nil)
				pass(30 * time.Second)
				if n := count(service.TakeRequests(), "GET "); n > 0 {
					t.Errorf("%d requests without a token", n)
				}
				w.stands("without a token", "ec2 not whole")
				lines := w.logs.take()
				if len(lines) != 4 || !strings.Contains(lines[0], `error="`+test.error+`"`) {
					t.Errorf("the log %q", lines)
				}
			})
		})
	}
}

// Times are the service's. Where its clock and the cluster's differ, what counts is how long is left.
func TestClocksThatDiffer(t *testing.T) {
	for name, test := range map[string]struct {
		service, cluster time.Duration // ahead of this machine's
	}{
		"the machine's is behind":   {time.Hour, time.Hour},
		"the machine's is ahead":    {-time.Hour, -time.Hour},
		"the service's is ahead":    {10 * time.Minute, 0},
		"the service's is behind":   {-10 * time.Minute, 0},
		"the cluster's is ahead":    {0, 10 * time.Minute},
		"all three are different":   {-7 * time.Minute, 9 * time.Minute},
		"they differ by one second": {time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := metadatasim.NewEC2()
				service.Skew = test.service
				w := watch(t, notice.EC2, service.Transport(), func() time.Time { return time.Now().Add(test.cluster) })
				service.Interrupt("terminate", time.Now().Add(test.service+2*time.Minute))
				pass(5 * time.Second)
				n := w.Board().Reports()[0].Notices[0]
				if left := n.EffectiveTime.Sub(time.Now().Add(test.cluster)); (left - 115*time.Second).Abs() > time.Second {
					t.Errorf("%s are left by the cluster's clock, want 1m55s", left)
				}
			})
		})
	}
}
