package policycache

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/rest"
)

// sharing is a budget and the observations of some policies, which end as soon as they are broken off.
type sharing struct {
	t      *rapid.T
	budget *budget
	asking *meter            // whose Take is under way
	open   map[string]*meter // observations under way, by policy
	kept   map[string]*meter // evidence, by policy
	needs  map[string]int64  // as policies remember it
}

func newSharing(t *rapid.T) *sharing {
	total := rapid.Int64Range(8, 64).Draw(t, "total") * mib
	return &sharing{t: t, budget: newBudget(total), open: map[string]*meter{}, kept: map[string]*meter{}, needs: map[string]int64{}}
}

// meter is of a policy whose name begins with its namespace.
func (s *sharing) meter(policy string) *meter {
	m := &meter{budget: s.budget, namespace: policy[:1], source: types.UID(policy), need: s.needs[policy], over: make(chan struct{})}
	m.revoke = func(err error) {
		s.displaced(m)
		if !errors.Is(err, system.ErrTooLarge) {
			s.t.Fatalf("an observation is broken off for %v", err)
		}
		s.end(policy)
	}
	m.drop = func() {
		if m.source != s.asking.source {
			s.displaced(m)
		}
		delete(s.kept, policy)
	}
	return m
}

// displaced: nothing is taken from the asker's own namespace.
func (s *sharing) displaced(m *meter) {
	if m.namespace == s.asking.namespace {
		s.t.Fatalf("an observation of %s breaks off one of its own namespace", m.namespace)
	}
}

func (s *sharing) uses() (uses map[string]int64) {
	uses = map[string]int64{}
	for m := range s.budget.meters {
		uses[m.namespace] += m.taken
	}
	return uses
}

// read lets an observation take some memory, and checks a refusal against a share that is computed in another way.
func (s *sharing) read(policy string, bytes int64) (fits bool) {
	m := s.open[policy]
	before := s.uses()
	former := int64(0)
	if old := s.kept[policy]; old != nil {
		former = old.taken
	}
	s.asking = m
	err := m.Take(bytes)
	own := before[m.namespace] - former + max(bytes, m.need-m.taken)
	namespaces := int64(len(before))
	if before[m.namespace] == 0 {
		namespaces++
	}
	if err != nil && own <= s.budget.total/namespaces {
		s.t.Fatalf("%s is refused %d bytes although it would have %d, and its share of %d is a %dth: %v", policy, bytes, own, s.budget.total, namespaces, err)
	}
	for namespace, used := range s.uses() {
		if lost := before[namespace] > used; lost && namespace != m.namespace && before[namespace] <= s.budget.total/namespaces {
			s.t.Fatalf("%s has lost memory to %s, and had only %d bytes", namespace, policy, before[namespace])
		}
	}
	if err != nil {
		s.end(policy)
	}
	return err == nil
}

func (s *sharing) end(policy string) {
	m := s.open[policy]
	s.needs[policy] = max(s.needs[policy], m.peak())
	_ = m.settle(0)
	delete(s.open, policy)
}

func (s *sharing) land(policy string) {
	m := s.open[policy]
	if old := s.kept[policy]; old != nil {
		_ = old.settle(0)
	}
	s.needs[policy] = m.peak()
	if err := m.settle(m.taken / 2); err != nil || !m.keep() {
		s.t.Fatalf("half of what was taken cannot be kept: %v", err)
	}
	s.kept[policy] = m
	delete(s.open, policy)
}

func (s *sharing) check(*rapid.T) {
	used := int64(0)
	for m := range s.budget.meters {
		used += m.taken
	}
	if used != s.budget.used || used > s.budget.total {
		s.t.Fatalf("%d of %d bytes are taken, and counted are %d", used, s.budget.total, s.budget.used)
	}
}

// TestMemoryIsSharedFairly: the total is never exceeded, a namespace within its share is never refused for what others have, and loses
// nothing to them.
func TestMemoryIsSharedFairly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSharing(t)
		policies := []string{"a1", "a2", "b1", "b2", "c1", "d1"}
		draw := func() string { return rapid.SampledFrom(policies).Draw(s.t, "policy") }
		t.Repeat(map[string]func(*rapid.T){
			"read": func(t *rapid.T) {
				s.t = t
				policy := draw()
				if s.open[policy] == nil {
					s.open[policy] = s.meter(policy)
				}
				s.read(policy, rapid.SampledFrom([]int64{1, mib, 6 * mib, 12 * mib, 24 * mib}).Draw(t, "bytes"))
			},
			"land": func(t *rapid.T) {
				s.t = t
				if policy := draw(); s.open[policy] != nil {
					s.land(policy)
				}
			},
			"fail": func(t *rapid.T) {
				s.t = t
				if policy := draw(); s.open[policy] != nil {
					s.end(policy)
				}
			},
			"forget what is needed": func(t *rapid.T) {
				s.t = t
				delete(s.needs, draw())
			},
			"": s.check,
		})
	})
}

// TestRefusalEndsWhenItFits: whatever was refused before is taken once that much is free.
func TestRefusalEndsWhenItFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSharing(t)
		size := rapid.Int64Range(mib, s.budget.total).Draw(t, "size")
		for i := range rapid.IntRange(0, 6).Draw(t, "others") {
			policy := fmt.Sprint("b", i)
			s.open[policy] = s.meter(policy)
			if s.read(policy, rapid.Int64Range(1, 32*mib).Draw(t, "bytes")) {
				s.land(policy)
			}
		}
		s.needs["a"] = rapid.Int64Range(0, 128*mib).Draw(t, "need")
		for range 3 {
			s.open["a"] = s.meter("a")
			if s.read("a", size) {
				s.land("a")
			}
		}
		for policy, m := range s.kept {
			if s.budget.total-s.budget.used < size && policy != "a" {
				_ = m.settle(0)
				delete(s.kept, policy)
			}
		}
		for range 3 { // beside its own former evidence, too
			s.open["a"] = s.meter("a")
			if !s.read("a", size) {
				t.Fatalf("%d bytes are refused, and %d of %d are taken", size, s.budget.used, s.budget.total)
			}
			s.land("a")
		}
	})
}

// TestLevel: no key gets more than another that gets less than it wants.
func TestLevel(t *testing.T) {
	for _, c := range []struct {
		wanted map[string]int64
		want   int64
	}{
		{map[string]int64{"a": 4}, 100},
		{map[string]int64{"a": 400}, 100},
		{map[string]int64{"a": 400, "b": 400}, 50},
		{map[string]int64{"a": 400, "b": 10}, 90},
		{map[string]int64{"a": 400, "b": 10, "c": 60}, 45},
	} {
		if got := level(100, c.wanted); got != c.want {
			t.Errorf("of 100 for %v the share is %d, want %d", c.wanted, got, c.want)
		}
	}
}

// TestManyNamespacesStayWithinTheTotal: the floor of each is no memory beside the total.
func TestManyNamespacesStayWithinTheTotal(t *testing.T) {
	b := newBudget(8 * mib)
	served := 0
	for i := range 100 {
		m := &meter{budget: b, namespace: fmt.Sprint(i), source: types.UID(fmt.Sprint(i)), drop: func() { t.Errorf("the floor of %d is taken away", i) }}
		bytes := int64(mib)
		if served == 8 {
			bytes /= 2
		}
		if m.Take(bytes) == nil && m.keep() {
			served++
		}
	}
	if b.used > b.total || served != 8 {
		t.Errorf("%d namespaces were served, and %d MiB are taken", served, b.used/mib)
	}
}

// greedySystem takes memory when it is asked, and has it until its time is over where it is slow.
type greedySystem struct {
	fakeSystem
	bytes int64
	slow  bool

	budget   *budget
	exceeded bool
}

func (s *greedySystem) Observe(ctx context.Context, _ []system.Member) (*eviction.Evidence, error) {
	s.mu.Lock()
	bytes := s.bytes
	s.mu.Unlock()
	if err := system.Take(ctx, bytes); err != nil {
		return nil, err
	}
	s.budget.mu.Lock()
	s.exceeded = s.exceeded || s.budget.used > s.budget.total
	s.budget.mu.Unlock()
	if s.slow {
		<-ctx.Done()
		<-time.After(time.Second) // it takes a while to notice
		return nil, ctx.Err()
	}
	return &eviction.Evidence{Summary: "well", System: expression.Facts{"all": string(make([]byte, bytes-64<<10))}}, nil
}

func (s *greedySystem) answer(bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes = bytes
}

// pool is an Observer whose systems take memory.
func pool(memory int64, systems map[string]*greedySystem) *Observer {
	w := newStage()
	k := w.observer()
	k.budget = newBudget(memory)
	for _, s := range systems {
		s.budget = k.budget
	}
	k.config.Kind = func(*v1alpha1.System) (system.Kind, bool) {
		kind := rest.Kind()
		kind.Open = func(s *v1alpha1.System, _ system.Access) (system.System, error) {
			return systems[s.HTTP.Endpoints[0]], nil
		}
		return kind, true
	}
	return k
}

func consumer(namespace string) *v1alpha1.EvictionPolicy {
	p := tenant(namespace, "db", namespace, "")
	p.Spec.System.HTTP.Endpoints[0] = namespace
	return p
}

// TestRefusedAnswerIsTakenOnceItFits: it does not count more than it is because it was refused once, and is asked for again.
func TestRefusedAnswerIsTakenOnceItFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		systems := map[string]*greedySystem{"a": {bytes: 30 * mib}, "b": {bytes: 40 * mib}}
		k := pool(40*mib, systems)
		k.Track(of(consumer("a")))
		run(t, k)
		wait(time.Second)
		systems["a"].answer(60 * mib)
		wait(time.Minute)
		if known := k.Known(of(consumer("a"))); !known.TooLarge {
			t.Fatalf("more than there is: %+v", known.Error)
		}
		systems["a"].answer(30 * mib)
		for range 3 { // beside the former evidence there is no room for the next
			wait(idleRefresh)
			if known := k.Known(of(consumer("a"))); known.Error != "" {
				t.Errorf("an answer that fits is refused: %s", known.Error)
			}
		}
	})
}

// TestOthersExcessIsTakenBack: a namespace within its share is served although all memory is taken, at once where others keep
// evidence, and where they are being observed as soon as they have been broken off; what they lost is refused by name.
func TestOthersExcessIsTakenBack(t *testing.T) {
	for _, slow := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			systems := map[string]*greedySystem{"a": {bytes: 24 * mib, slow: slow}, "b": {bytes: 16 * mib, slow: slow}, "c": {bytes: 8 * mib}}
			k := pool(40*mib, systems)
			for _, namespace := range []string{"a", "b"} {
				go k.Evidence(t.Context(), of(consumer(namespace)), 0, time.Hour)
				synctest.Wait()
			}
			if k.budget.used < 20*mib {
				t.Fatalf("only %d MiB are taken", k.budget.used/mib)
			}
			for range 3 {
				if said := k.Evidence(t.Context(), of(consumer("c")), 0, time.Nanosecond); said.Error != "" {
					t.Errorf("slow %t: a namespace within its share: %s", slow, said.Error)
				}
				wait(time.Second)
			}
			if systems["c"].exceeded {
				t.Error("what is broken off still has its memory, and another has it, too")
			}
			k.closeAll()
			wait(time.Hour)
			if k.budget.used != 0 || len(k.budget.meters) != 0 {
				t.Errorf("%d bytes belong to no key", k.budget.used)
			}
		})
	}
}

// TestNeedIsForgotten: what a policy needed once does not keep it from its share for ever, and not at all once its spec has changed.
func TestNeedIsForgotten(t *testing.T) {
	for _, edited := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			systems := map[string]*greedySystem{"a": {bytes: 24 * mib}, "b": {bytes: 30 * mib}}
			k := pool(40*mib, systems)
			ask := func(p *v1alpha1.EvictionPolicy) *eviction.Evidence {
				return k.Evidence(t.Context(), of(p), 0, time.Nanosecond)
			}
			p := consumer("a")
			ask(consumer("b"))
			if said := ask(p); !said.TooLarge {
				t.Fatalf("more than the share, while the rest is taken: %q", said.Error)
			}
			systems["a"].answer(15 * mib)
			wait(failureAge)
			if said := ask(p); !said.TooLarge {
				t.Fatalf("a policy that needed more than its share displaces another: %q", said.Error)
			}
			if edited {
				p = p.DeepCopy()
				p.Generation++
			} else {
				wait(needLife)
			}
			wait(failureAge)
			if said := ask(p); said.Error != "" {
				t.Errorf("edited %t: within its share: %s", edited, said.Error)
			}
			k.closeAll()
		})
	}
}
