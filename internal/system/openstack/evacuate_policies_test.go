package openstack_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/openstack"
	"usher.sh/usher/test/openstacksim"
)

// others are policies beside the one of newLoss that may care for the same host.
var others = map[string]system.Access{
	"of another namespace":  {Namespace: "other", Name: "usher"},
	"of the same namespace": {Namespace: "cloud", Name: "other"},
}

// of is the loss as another policy's controller goes on with it; before is called before each of its requests.
func (l *loss) of(access system.Access, before func(*http.Request)) loss {
	l.t.Helper()
	access.Timeout, access.Loopback, access.Secrets = time.Minute, true, map[v1alpha1.SecretKey][]byte{cloudsKey: l.site.clouds()}
	access.Transport = interleaved{l.cloud.Transport(), before}
	opened, err := openstack.OpenAt(&v1alpha1.System{OpenStack: &v1alpha1.OpenStack{Clouds: cloudsKey}}, access, l.cloud.Now)
	if err != nil {
		l.t.Fatal(err)
	}
	return loss{&bench{t: l.t, site: l.site, system: opened, policy: l.policy, role: l.role}, l.cloud}
}

// givenBack takes the evacuation back to its end.
func (l *loss) givenBack() (undone eviction.Undone) {
	l.t.Helper()
	for range 5 {
		var err error
		if undone, err = l.undoEvacuation(); err != nil {
			l.t.Fatal(err)
		}
		if undone.Done {
			return undone
		}
	}
	l.t.Fatalf("it is not taken back: %+v", l.cloud.Host("compute-1"))
	return undone
}

// Two policies care for one host: each looks before the other has asked for anything. One of them evacuates, and the other says which.
func TestTwoPoliciesCareForOneHost(t *testing.T) {
	for name, access := range others {
		t.Run(name, func(t *testing.T) {
			l := newLoss(t, "active", "active")
			first := func(*http.Request) {}
			second := l.of(access, func(r *http.Request) { first(r) })
			var err error
			first = func(r *http.Request) {
				if r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/v3/auth") {
					first = func(*http.Request) {}
					_, err = l.system.Prepare(t.Context(), l.evacuation())
				}
			}
			if err := second.evacuate(); err != nil { // both mark it as down
				t.Fatal(err)
			}
			l.job = second.job
			again := first
			first = func(r *http.Request) {
				if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/action") {
					first = again
					_, err = l.system.Prepare(t.Context(), l.evacuation())
				}
			}
			for range 3 {
				if err := second.evacuate(); err != nil {
					t.Fatal(err)
				}
			}
			want := "host compute-1 is evacuated for policy " + access.Namespace + "/" + access.Name + " already: have one policy be for it"
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v", err)
			}
			if len(l.cloud.Migrations()) != 2 || len(l.cloud.Twice) > 0 {
				t.Errorf("%+v, twice %v", l.cloud.Migrations(), l.cloud.Twice)
			}
		})
	}
}

// What a policy evacuates it gives back itself: another one that has to take its own step back leaves the host marked, and has no person take the mark off.
func TestAHostThatAnotherPolicyEvacuates(t *testing.T) {
	for name, access := range others {
		t.Run(name, func(t *testing.T) {
			l := newLoss(t, "active")
			second := l.of(access, func(*http.Request) {})
			for range 3 {
				if err := second.evacuate(); err != nil {
					t.Fatal(err)
				}
			}
			l.job = second.job
			l.cloud.Start("compute-1")
			undone := l.givenBack()
			if h := l.cloud.Host("compute-1"); !h.Forced || h.Enabled || strings.Contains(undone.Left, "marked as down") {
				t.Errorf("%+v, %+v", h, undone)
			}
			second.givenBack()
			if h := l.cloud.Host("compute-1"); h.Forced || !h.Enabled {
				t.Errorf("%+v", h)
			}
		})
	}
}

// A policy that is gone has left its mark on a host. Once a person has taken that off another policy goes on, and gives the host back as it was before the first.
func TestAPolicyTakesADeadHostOver(t *testing.T) {
	for _, was := range []string{"", "bad memory"} {
		l := newLoss(t, "active")
		l.cloud.ChangeHost("compute-1", func(h *openstacksim.Host) { h.Enabled, h.Reason = was == "", was })
		gone := l.of(others["of the same namespace"], func(*http.Request) {})
		if err := gone.evacuate(); err != nil {
			t.Fatal(err)
		}
		_ = l.evacuate()
		if err := l.evacuate(); err == nil || !strings.Contains(err.Error(), "openstack compute service set --up compute-1 nova-compute has this one go on") {
			t.Errorf("%v", err)
		}
		l.cloud.ChangeHost("compute-1", func(h *openstacksim.Host) { h.Forced = false })
		for range 3 {
			if err := l.evacuate(); err != nil {
				t.Fatal(err)
			}
		}
		if on := l.cloud.On("compute-1"); len(on) > 0 {
			t.Errorf("on it %v", on)
		}
		l.cloud.Start("compute-1")
		l.givenBack()
		if h := l.cloud.Host("compute-1"); h.Forced || h.Enabled != (was == "") || h.Reason != was {
			t.Errorf("%+v", h)
		}
	}
}

// A host dies while a policy empties it, and another policy evacuates it: it gets servers again in the end, whichever step ends first.
func TestAHostThatIsEmptiedForOnePolicyDiesForAnother(t *testing.T) {
	long := strings.Repeat("n", 63)
	for name, both := range map[string][2]system.Access{
		"of another namespace":  {{Namespace: "cloud", Name: "usher"}, others["of another namespace"]},
		"of the same namespace": {{Namespace: "cloud", Name: "usher"}, others["of the same namespace"]},
		"the same":              {{Namespace: "cloud", Name: "usher"}, {Namespace: "cloud", Name: "usher"}},
		"of long names":         {{Namespace: long, Name: long + "1"}, {Namespace: long, Name: long + "2"}},
		"of one long name":      {{Namespace: long, Name: long}, {Namespace: long, Name: long}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoss(t, "stopped")
			l.cloud.ChangeHost("compute-1", func(h *openstacksim.Host) { h.Up = true })
			first, second := l.of(both[0], func(*http.Request) {}), l.of(both[1], func(*http.Request) {})
			emptying := first.bench
			if err := emptying.prepare("compute-1"); err != nil {
				t.Fatal(err)
			}
			l.cloud.Die("compute-1")
			for range 3 {
				if err := second.evacuate(); err != nil {
					t.Fatal(err)
				}
			}
			if h := l.cloud.Host("compute-1"); len(h.Reason) > 255 {
				t.Errorf("the reason has %d characters: %s", len(h.Reason), h.Reason)
			}
			first.job = second.job
			if err := first.evacuate(); (err == nil) != (both[0].Namespace+both[0].Name == both[1].Namespace+both[1].Name) {
				t.Errorf("the first policy evacuates as well: %v", err)
			}
			emptying.undoAll(l.cloud)
			l.cloud.Start("compute-1")
			second.givenBack()
			if h := l.cloud.Host("compute-1"); h.Forced || !h.Enabled {
				t.Errorf("%+v", h)
			}
		})
	}
}

// A host that is emptied dies, and what was begun is taken back while it is marked as down: whichever has looked first, it counts as Usher's own and is given back.
func TestAHostDiesWhileItIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoss(t, "stopped")
		l.cloud.ChangeHost("compute-1", func(h *openstacksim.Host) { h.Up = true })
		before := func(*http.Request) {}
		policy := l.of(system.Access{Namespace: "cloud", Name: "usher"}, func(r *http.Request) { before(r) })
		defer policy.system.Close()
		emptying := policy.bench
		if err := emptying.prepare("compute-1"); err != nil {
			t.Fatal(err)
		}
		l.cloud.Die("compute-1")
		marked := make(chan error, 1)
		before = func(r *http.Request) {
			if r.Method == http.MethodPut {
				before = func(*http.Request) {}
				go func() { marked <- policy.evacuate() }()
				synctest.Wait()
			}
		}
		if _, err := emptying.undo("compute-1"); err != nil {
			t.Fatal(err)
		}
		if err := <-marked; err != nil {
			t.Fatal(err)
		}
		if h := l.cloud.Host("compute-1"); !h.Forced || h.Enabled || !strings.HasPrefix(h.Reason, "Usher (policy cloud/usher)") {
			t.Errorf("%+v", h)
		}
	})
}
