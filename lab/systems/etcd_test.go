package systems

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/system"
	driver "usher.sh/usher/internal/system/etcd"
)

// timeout of one call: long enough for a busy machine, since only members that are frozen or cut off use it up.
const timeout = 10 * time.Second

func (c *etcd) endpoints() []string {
	var urls []string
	for _, m := range c.members {
		urls = append(urls, m.client)
	}
	return urls
}

// open makes a System of the cluster, as a policy would.
func (c *etcd) open(t *testing.T, change ...func(*v1alpha1.Etcd, *system.Access)) system.System {
	t.Helper()
	spec := &v1alpha1.System{Etcd: &v1alpha1.Etcd{MaxLag: 10}}
	access := system.Access{Endpoints: c.endpoints(), TLS: c.tls, Timeout: timeout, Loopback: true}
	for _, f := range change {
		f(spec.Etcd, &access)
	}
	s, err := driver.Kind().Open(spec, access)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func observe(t *testing.T, s system.System, ids ...string) *eviction.Evidence {
	t.Helper()
	var members []system.Member
	for _, id := range ids {
		members = append(members, system.Member{MemberRef: v1alpha1.MemberRef{ID: id}})
	}
	e, err := s.Observe(t.Context(), members)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// until observes until the evidence says so; only the patience of the whole test ends it.
func until(t *testing.T, s system.System, what string, done func(*eviction.Evidence) bool) *eviction.Evidence {
	t.Helper()
	ctx := patience(t)
	var last any
	for {
		e, err := s.Observe(ctx, nil)
		if err == nil && done(e) {
			return e
		}
		last = err
		if err == nil {
			last = e
		}
		if ctx.Err() != nil {
			t.Fatalf("waiting for %s, saw last: %v", what, last)
		}
	}
}

func quiet(e *eviction.Evidence) bool {
	return e.System["agreed"] == true && e.System["healthyVoters"] == e.System["voters"]
}

// pick returns the facts of those names.
func pick(facts expression.Facts, names ...string) expression.Facts {
	some := expression.Facts{}
	for _, n := range names {
		if v, ok := facts[n]; ok {
			some[n] = v
		}
	}
	return some
}

func equal(t *testing.T, what string, want, got expression.Facts) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func (c *etcd) named(t *testing.T, name any) *member {
	t.Helper()
	for _, m := range c.members {
		if m.name == name {
			return m
		}
	}
	t.Fatalf("no member %v", name)
	return nil
}

// follower is some member that does not lead.
func (c *etcd) follower(t *testing.T, e *eviction.Evidence) *member {
	t.Helper()
	for _, m := range c.members {
		if m.name != e.System["leader"] {
			return m
		}
	}
	t.Fatal("no follower")
	return nil
}

func TestThreeMembers(t *testing.T) {
	t.Parallel()
	c := start(t, options{members: 3})
	s := c.open(t)
	e := until(t, s, "three healthy voters", quiet)
	equal(t, "system", expression.Facts{
		"members": int64(3), "learners": int64(0), "voters": int64(3), "healthyVoters": int64(3), "quorum": int64(2),
		"agreed": true, "unhealthy": []string{}, "alarms": []string{}, "corrupt": []string{}, "maxLag": int64(10),
		"leader": e.System["leader"], "leaderId": e.System["leaderId"], "leaders": []string{fmt.Sprint(e.System["leader"])},
	}, e.System)
	for _, m := range c.members {
		f := e.Members[m.name]
		equal(t, m.name, expression.Facts{
			"name": m.name, "memberId": c.id(t, m), "learner": false, "leader": e.System["leader"] == m.name, "healthy": true,
			"unhealthyBecause": "", "isolated": false, "appliedIndex": f["appliedIndex"], "lag": f["lag"], "alarms": []string{},
			"version": "3.7.3", "votersWithout": int64(2), "quorumWithout": true, "othersUnhealthy": []string{}, "othersBehind": []string{},
		}, f)
		byID := observe(t, s, c.id(t, m))
		if got := byID.Members[c.id(t, m)]["name"]; got != m.name {
			t.Errorf("by the id of %s: %v", m.name, got)
		}
	}
}

// id asks the member itself.
func (c *etcd) id(t *testing.T, m *member) string {
	t.Helper()
	r, err := c.dial(t, m).Status(patience(t), m.client)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", r.Header.MemberId)
}

func TestMoveLeader(t *testing.T) {
	t.Parallel()
	c := start(t, options{members: 3})
	s := c.open(t)
	before := until(t, s, "quiet", quiet).System["leader"]
	step := eviction.Preparation{Name: driver.MoveLeader, Member: v1alpha1.MemberRef{ID: fmt.Sprint(before)}}
	if _, err := s.Prepare(t.Context(), step); err != nil {
		t.Fatal(err)
	}
	after := until(t, s, "quiet", quiet).System["leader"]
	if after == before {
		t.Fatalf("%v still leads", before)
	}
	if _, err := s.Prepare(t.Context(), step); err != nil {
		t.Fatal(err)
	}
	if again := until(t, s, "quiet", quiet).System["leader"]; again != after {
		t.Errorf("leadership went from %v to %v because of a step that was done", after, again)
	}
	if undone, err := s.Undo(t.Context(), step); !undone.Done || err != nil {
		t.Errorf("undo: %v, %v", undone, err)
	}
}

func TestStoppedMember(t *testing.T) {
	t.Parallel()
	c := start(t, options{members: 3})
	s := c.open(t)
	e := until(t, s, "quiet", quiet)
	down := c.follower(t, e)
	c.stop(t, down)
	e = observe(t, s)
	if why := fmt.Sprint(e.Members[down.name]["unhealthyBecause"]); !strings.Contains(why, "does not answer at "+down.client) {
		t.Errorf("why: %s", why)
	}
	equal(t, "the one that is down", expression.Facts{"healthy": false, "leader": false, "votersWithout": int64(2), "quorumWithout": true},
		pick(e.Members[down.name], "healthy", "leader", "votersWithout", "quorumWithout", "isolated", "appliedIndex", "lag", "version"))
	equal(t, "the leader", expression.Facts{"healthy": true, "leader": true, "votersWithout": int64(1), "quorumWithout": false},
		pick(e.Members[fmt.Sprint(e.System["leader"])], "healthy", "leader", "votersWithout", "quorumWithout"))

	c.run(t, down)
	until(t, s, "three healthy voters again", quiet)
}

func TestStoppedLeader(t *testing.T) {
	t.Parallel()
	c := start(t, options{members: 3})
	s := c.open(t)
	old := c.named(t, until(t, s, "quiet", quiet).System["leader"])
	c.stop(t, old)
	e := until(t, s, "another leader", func(e *eviction.Evidence) bool {
		return e.System["agreed"] == true && e.System["leader"] != old.name && e.System["healthyVoters"] == int64(2)
	})
	equal(t, "system", expression.Facts{"voters": int64(3)}, pick(e.System, "voters"))
	if e.Members[old.name]["leader"] != false {
		t.Errorf("%s is gone and leads: %v", old.name, e)
	}
}

func TestQuorumLost(t *testing.T) {
	t.Parallel()
	c := start(t, options{members: 3})
	s := c.open(t)
	until(t, s, "quiet", quiet)
	c.stop(t, c.members[0])
	c.stop(t, c.members[1])
	_, err := s.Observe(t.Context(), nil)
	if err == nil {
		t.Fatal("two of three are gone, and there is evidence")
	}
	for _, m := range c.members {
		if !strings.Contains(err.Error(), m.client) {
			t.Errorf("%s is not named: %v", m.client, err)
		}
	}
}

func TestFrozenMember(t *testing.T) {
	t.Parallel()
	c := start(t, options{members: 3})
	s := c.open(t)
	m := c.follower(t, until(t, s, "quiet", quiet))
	thaw := m.freeze(t)
	e := observe(t, s)
	equal(t, "system", expression.Facts{"healthyVoters": int64(2)}, pick(e.System, "healthyVoters"))
	if why := fmt.Sprint(e.Members[m.name]["unhealthyBecause"]); !strings.Contains(why, "no answer in time") {
		t.Errorf("why: %s", why)
	}
	thaw()
	until(t, s, "three healthy voters again", quiet)
}

func TestIsolatedMemberFallsBehind(t *testing.T) {
	t.Parallel()
	c := start(t, options{members: 3})
	s := c.open(t)
	e := until(t, s, "quiet", quiet)
	m := c.follower(t, e)
	c.isolate(m, c.id(t, m))
	client := c.dial(t, c.named(t, e.System["leader"]))
	for i := range 100 {
		if _, err := client.Put(patience(t), fmt.Sprint("key", i), "value"); err != nil {
			t.Fatal(err)
		}
	}
	e = until(t, s, "an isolated member", func(e *eviction.Evidence) bool {
		return e.System["agreed"] == true && e.System["healthyVoters"] == int64(2) && e.Members[m.name]["isolated"] == true
	})
	if lag, ok := e.Members[m.name]["lag"].(int64); !ok || lag < 90 {
		t.Errorf("lag of %s: %v", m.name, e.Members[m.name]["lag"])
	}
	leader := e.Members[fmt.Sprint(e.System["leader"])]
	if behind, ok := leader["othersBehind"].([]string); !ok || len(behind) != 1 || !strings.HasPrefix(behind[0], m.name+" (") {
		t.Errorf("others behind: %v", leader["othersBehind"])
	}
	equal(t, "the leader", expression.Facts{"votersWithout": int64(1), "quorumWithout": false}, pick(leader, "votersWithout", "quorumWithout"))

	c.heal()
	until(t, s, "all members caught up", func(e *eviction.Evidence) bool {
		return quiet(e) && e.Members[m.name]["lag"] == int64(0)
	})
}

func TestLearner(t *testing.T) {
	t.Parallel()
	c := start(t, options{members: 3})
	s := c.open(t)
	until(t, s, "quiet", quiet)
	running := c.dial(t)
	m := c.add(t, "etcd-3", nil)
	if _, err := running.MemberAddAsLearner(patience(t), []string{m.link.url}); err != nil {
		t.Fatal(err)
	}
	e := observe(t, s)
	equal(t, "before it has started", expression.Facts{"members": int64(4), "learners": int64(1), "voters": int64(3), "quorum": int64(2)},
		pick(e.System, "members", "learners", "voters", "quorum"))

	m.args = append(m.args, "--initial-cluster="+c.initial(), "--initial-cluster-state=existing")
	c.run(t, m)
	e = until(t, s, "a healthy learner", func(e *eviction.Evidence) bool { return quiet(e) && e.Members[m.name]["healthy"] == true })
	equal(t, "the learner", expression.Facts{"learner": true, "leader": false, "votersWithout": int64(3), "quorumWithout": true, "isolated": false},
		pick(e.Members[m.name], "learner", "leader", "votersWithout", "quorumWithout", "isolated"))
}

func TestUnstartedVoter(t *testing.T) {
	t.Parallel()
	c := start(t, options{members: 3})
	s := c.open(t)
	until(t, s, "quiet", quiet)
	m := c.add(t, "etcd-3", nil)
	if _, err := c.dial(t, c.members[:3]...).MemberAdd(patience(t), []string{m.link.url}); err != nil {
		t.Fatal(err)
	}
	e := until(t, s, "an agreement of those that have started", func(e *eviction.Evidence) bool {
		return e.System["agreed"] == true && e.System["healthyVoters"] == int64(3)
	})
	equal(t, "system", expression.Facts{"voters": int64(4), "healthyVoters": int64(3), "quorum": int64(3)}, pick(e.System, "voters", "healthyVoters", "quorum"))
	unhealthy, ok := e.System["unhealthy"].([]string)
	if !ok || len(unhealthy) != 1 || !strings.Contains(unhealthy[0], "was added and has not started") {
		t.Errorf("unhealthy: %v", e.System["unhealthy"])
	}
	equal(t, "a voter", expression.Facts{"votersWithout": int64(2), "quorumWithout": false}, pick(e.Members["etcd-0"], "votersWithout", "quorumWithout"))
}

func TestAlarms(t *testing.T) {
	t.Parallel()
	for _, alarm := range []etcdserverpb.AlarmType{etcdserverpb.AlarmType_NOSPACE, etcdserverpb.AlarmType_CORRUPT} {
		t.Run(alarm.String(), func(t *testing.T) {
			t.Parallel()
			c := start(t, options{members: 3})
			s := c.open(t)
			until(t, s, "quiet", quiet)
			m := c.members[1]
			id := c.id(t, m)
			raise(t, c.dial(t), id, alarm)
			e := observe(t, s)
			corrupt := []string{}
			if alarm == etcdserverpb.AlarmType_CORRUPT {
				corrupt = []string{m.name}
			}
			equal(t, "system", expression.Facts{"alarms": []string{alarm.String()}, "corrupt": corrupt, "healthyVoters": int64(3)},
				pick(e.System, "alarms", "corrupt", "healthyVoters"))
			equal(t, "its member", expression.Facts{"alarms": []string{alarm.String()}}, pick(e.Members[m.name], "alarms"))
			equal(t, "another member", expression.Facts{"alarms": []string{}}, pick(e.Members["etcd-0"], "alarms"))
			if !strings.Contains(e.Summary, alarm.String()) {
				t.Errorf("summary: %s", e.Summary)
			}
		})
	}
}

func raise(t *testing.T, client *clientv3.Client, id string, alarm etcdserverpb.AlarmType) {
	t.Helper()
	var member uint64
	if _, err := fmt.Sscanf(id, "%x", &member); err != nil {
		t.Fatal(err)
	}
	_, err := etcdserverpb.NewMaintenanceClient(client.ActiveConnection()).Alarm(patience(t), &etcdserverpb.AlarmRequest{
		Action: etcdserverpb.AlarmRequest_ACTIVATE, MemberID: member, Alarm: alarm,
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSingleMember(t *testing.T) {
	t.Parallel()
	c := start(t, options{members: 1})
	e := until(t, c.open(t), "quiet", quiet)
	equal(t, "system", expression.Facts{"voters": int64(1), "quorum": int64(1)}, pick(e.System, "voters", "quorum"))
	equal(t, "member", expression.Facts{"votersWithout": int64(0), "quorumWithout": false}, pick(e.Members["etcd-0"], "votersWithout", "quorumWithout"))
}

func TestAuth(t *testing.T) {
	t.Parallel()
	c := start(t, options{members: 3})
	admin := c.dial(t)
	ctx := patience(t)
	mustAll(t,
		func() error { _, err := admin.UserAdd(ctx, "root", "secret"); return err },
		func() error { _, err := admin.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := admin.UserAdd(ctx, "guest", "guest"); return err },
		func() error { _, err := admin.AuthEnable(ctx); return err },
	)
	// It is in force where it was applied; a linearizable read waits until the member has.
	for _, m := range c.members {
		if _, err := c.dial(t, m).Get(ctx, "any"); !errors.Is(err, rpctypes.ErrUserEmpty) {
			t.Fatalf("reading from %s without a user: %v", m.name, err)
		}
	}
	t.Run("no user", func(t *testing.T) {
		_, err := c.open(t).Observe(t.Context(), nil)
		if err == nil || !strings.Contains(err.Error(), "user name is empty") {
			t.Errorf("error: %v", err)
		}
	})
	t.Run("wrong password", func(t *testing.T) {
		_, err := c.open(t, as("root", "guess")).Observe(t.Context(), nil)
		if err == nil || !strings.Contains(err.Error(), "authentication failed") {
			t.Errorf("error: %v", err)
		}
	})
	t.Run("guest sees and may not move", func(t *testing.T) {
		s := c.open(t, as("guest", "guest"))
		e := until(t, s, "quiet", quiet)
		_, err := s.Prepare(t.Context(), eviction.Preparation{Name: driver.MoveLeader, Member: v1alpha1.MemberRef{ID: fmt.Sprint(e.System["leader"])}})
		if err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("error: %v", err)
		}
	})
	t.Run("root", func(t *testing.T) {
		s := c.open(t, as("root", "secret"))
		e := until(t, s, "quiet", quiet)
		if _, err := s.Prepare(t.Context(), eviction.Preparation{Name: driver.MoveLeader, Member: v1alpha1.MemberRef{ID: fmt.Sprint(e.System["leader"])}}); err != nil {
			t.Error(err)
		}
	})
}

func as(user, password string) func(*v1alpha1.Etcd, *system.Access) {
	return func(spec *v1alpha1.Etcd, access *system.Access) {
		spec.Auth = &v1alpha1.SecretName{Name: "auth"}
		access.Secrets = map[v1alpha1.SecretKey][]byte{
			{Name: "auth", Key: "username"}: []byte(user), {Name: "auth", Key: "password"}: []byte(password),
		}
	}
}

func mustAll(t *testing.T, steps ...func() error) {
	t.Helper()
	for _, step := range steps {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	certs := newCertificates(t)
	c := start(t, options{members: 1, tls: certs})
	until(t, c.open(t), "quiet", quiet)
	stranger := newCertificates(t)
	_, err := c.open(t, func(_ *v1alpha1.Etcd, a *system.Access) { a.TLS = stranger.client }).Observe(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "certificate signed by unknown authority") {
		t.Errorf("error: %v", err)
	}
}

func TestEndpointsThatAreDown(t *testing.T) {
	t.Parallel()
	c := start(t, options{members: 3})
	s := c.open(t, func(_ *v1alpha1.Etcd, a *system.Access) {
		a.Endpoints = []string{"http://" + address(t), c.members[2].client}
	})
	e := until(t, s, "quiet", quiet)
	equal(t, "system", expression.Facts{"healthyVoters": int64(3)}, pick(e.System, "healthyVoters"))
}

// A caller's deadline bounds an observation, even while a member hangs, and leaves the others healthy.
func TestDeadline(t *testing.T) {
	t.Parallel()
	c := start(t, options{members: 3})
	s := c.open(t, func(_ *v1alpha1.Etcd, a *system.Access) { a.Timeout = time.Hour })
	m := c.follower(t, until(t, s, "quiet", quiet))
	m.freeze(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	e, err := s.Observe(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "system", expression.Facts{"healthyVoters": int64(2), "alarms": []string{}}, pick(e.System, "healthyVoters", "alarms"))
}
