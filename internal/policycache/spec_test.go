package policycache

import (
	"context"
	"encoding/pem"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system"
)

// authority is a certificate as a Secret holds it.
func authority(t *testing.T) string {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

// edits are changes of a policy after which what its system has said before says nothing.
func edits(t *testing.T) map[string]func(*stage, *v1alpha1.EvictionPolicy) {
	t.Helper()
	pem := authority(t)
	return map[string]func(*stage, *v1alpha1.EvictionPolicy){
		"endpoint": func(w *stage, p *v1alpha1.EvictionPolicy) {
			w.systems["http://elsewhere"] = &fakeSystem{takes: time.Second}
			p.Spec.System.HTTP.Endpoints = []string{"http://elsewhere"}
		},
		"authority": func(w *stage, p *v1alpha1.EvictionPolicy) {
			w.putSecret("tls", "1", map[string]string{"ca.crt": pem})
			p.Spec.System.HTTP.CA = &v1alpha1.SecretKey{Name: "tls", Key: "ca.crt"}
		},
		"id": func(_ *stage, p *v1alpha1.EvictionPolicy) {
			p.Spec.Members = []v1alpha1.MemberSelector{{ID: "pod.hostname"}}
		},
	}
}

// listing makes sources that note whose members were listed last.
func listing() (noting func(*v1alpha1.EvictionPolicy) *Source, last func() int64) {
	var mu sync.Mutex
	var generation int64
	noting = func(p *v1alpha1.EvictionPolicy) *Source {
		source := of(p)
		source.Members = func(context.Context) ([]system.Member, error) {
			mu.Lock()
			defer mu.Unlock()
			generation = source.Generation
			return nil, nil
		}
		return source
	}
	return noting, func() int64 {
		mu.Lock()
		defer mu.Unlock()
		return generation
	}
}

func TestWhatWasSaidBeforeAnEditIsNotGiven(t *testing.T) {
	for name, edit := range edits(t) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newStage()
				k := w.observer()
				of, listed := listing()
				before := w.policy("a", &fakeSystem{takes: time.Second})
				early := k.Evidence(t.Context(), of(before), 0, time.Minute)
				after := before.DeepCopy()
				after.Generation++
				edit(w, after)
				k.Track(of(after))
				if known := k.Known(of(after)); known != nil {
					t.Errorf("of the edited policy is known %+v", known)
				}
				// A caller whose cache is behind is not served with it either.
				if late := k.Evidence(t.Context(), of(before), 0, time.Minute); late == early || late.Error != "" {
					t.Errorf("got %+v", late)
				}
				if w.opens() != 2 || listed() != after.Generation {
					t.Errorf("opened %d times, members of generation %d", w.opens(), listed())
				}
			})
		})
	}
}

func TestAnEditOvertakesWhatIsUnderWay(t *testing.T) {
	for name, edit := range edits(t) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newStage()
				k := w.observer()
				of, listed := listing()
				before := w.policy("a", &fakeSystem{takes: time.Second})
				after := before.DeepCopy()
				after.Generation++
				edit(w, after)
				var first *eviction.Evidence
				var all sync.WaitGroup
				all.Go(func() { first = k.Evidence(t.Context(), of(before), 0, time.Minute) })
				wait(500 * time.Millisecond)
				second := k.Evidence(t.Context(), of(after), 0, time.Minute)
				all.Wait()
				if first != second || second.Error != "" {
					t.Errorf("who asked before got %+v, who asked after %+v", first, second)
				}
				if w.opens() != 2 || listed() != after.Generation {
					t.Errorf("opened %d times, members of generation %d", w.opens(), listed())
				}
			})
		})
	}
}

// In the background an edit is not left until the next time, whether the system answers, fails or is being asked.
func TestAnEditIsFollowedAtOnce(t *testing.T) {
	for name, s := range map[string]*fakeSystem{
		"it has answered": {}, "it has failed": {fails: errDown}, "it is being asked": {takes: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newStage()
				k, p := w.observer(), w.policy("a", s)
				p.Spec.Evidence.Timeout.Duration = time.Hour
				k.Track(of(p))
				run(t, k)
				wait(10 * time.Minute)
				edited := p.DeepCopy()
				edited.Generation++
				edited.Spec.System.HTTP.Endpoints = []string{"http://b"}
				other := &fakeSystem{}
				w.systems["http://b"] = other
				k.Track(of(edited))
				wait(time.Second)
				if asked, _ := other.count(); asked != 1 {
					t.Errorf("a second after the edit its system was asked %d times", asked)
				}
			})
		})
	}
}

// TestForgetDoesNotWait: an informer forgets policies, and must not wait for a Secret that does not come.
func TestForgetDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newStage(), &fakeSystem{}
		k, p := w.observer(), w.policy("a", s)
		k.Evidence(t.Context(), of(p), 0, 0)
		e := k.entry(of(p))
		e.connection.mu.Lock()
		k.Forget(p.UID)
		if _, closed := s.count(); closed != 0 {
			t.Error("closed while it was held")
		}
		e.connection.mu.Unlock()
		synctest.Wait()
		if _, closed := s.count(); closed != 1 {
			t.Errorf("closed %d times, want once", closed)
		}
	})
}

func TestAPolicyThatIsGoneLeavesNoFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStage()
		k, p := w.observer(), w.policy("figures", &fakeSystem{takes: time.Second, ignores: true})
		go k.Evidence(t.Context(), of(p), 0, 0)
		wait(500 * time.Millisecond)
		k.Forget(p.UID)
		wait(2 * time.Second)
		if n := observations.DeletePartialMatch(map[string]string{"policy": "figures"}); n != 0 {
			t.Errorf("%d figures are left", n)
		}
	})
}

func TestAFailureOfBeforeAnEditIsNotGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStage()
		k, p := w.observer(), w.policy("a", &fakeSystem{fails: errDown})
		k.Evidence(t.Context(), of(p), 0, time.Minute)
		edited := p.DeepCopy()
		edited.Generation++
		edited.Spec.System.HTTP.Endpoints = []string{"http://b"}
		w.systems["http://b"] = &fakeSystem{}
		if e := k.Evidence(t.Context(), of(edited), 0, time.Minute); e.Error != "" {
			t.Errorf("error %q", e.Error)
		}
	})
}
