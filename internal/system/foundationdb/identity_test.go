package foundationdb_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/foundationdb"
	"usher.sh/usher/test/fdbsim"
)

// at is a member of a pod at an IP.
func (b *bench) at(id, ip string) system.Member {
	return system.Member{MemberRef: b.ref(id), Pod: &snapshot.Pod{Namespace: "db", Name: id, UID: "uid-of-pod", IP: ip}}
}

func (b *bench) observeAll(members ...system.Member) *eviction.Evidence {
	b.t.Helper()
	b.members = members
	evidence, err := b.system.Observe(b.t.Context(), members)
	if err != nil {
		b.t.Fatal(err)
	}
	evidence.Observed = b.site.now()
	return evidence
}

// A member whose pod's process has another instance_id runs and is full, however long no process has had the member's own.
func TestAMemberWhosePodHasAnotherInstance(t *testing.T) {
	for _, role := range []string{"foundationdb-storage", "foundationdb-log", "foundationdb-stateless"} {
		t.Run(role, func(t *testing.T) {
			sim := fdbsim.New(5, 2)
			b := newBench(t, simulated{sim}, 5, v1alpha1.FoundationDBWaits{})
			b.roles["db-storage-5"] = role
			member := b.at("db-storage-5", "10.0.0.15")
			b.observeAll(member)
			b.pass(sim, 6*time.Minute)
			evidence := b.observeAll(member)
			facts := evidence.Members["db-storage-5"]
			if facts["otherInstance"] != "p5" || facts["reports"] != false || facts["missingSeconds"] != int64(0) || facts["empty"] != false {
				t.Errorf("%v", facts)
			}
			if does, known := foundationdb.Kind().Reports(facts); does || known {
				t.Errorf("it is known to do its work or not to: %t", does)
			}
			v := eviction.Judge(b.input(evidence, "db-storage-5"))
			if !slices.Equal(reasons(v), []string{"InstanceIDDiffers"}) || !strings.Contains(v.Blockers[0].Message, "db-storage-5 has the instance_id p5") ||
				!strings.Contains(v.Blockers[0].Remedy, "set id in the policy's members") {
				t.Errorf("%v %+v", v.Answer, v.Blockers)
			}
			const says = "the process at the IP of its pod has the instance_id p5, and the member's id is db-storage-5: set id in the policy's members"
			for _, step := range []string{foundationdb.Exclude, foundationdb.MoveCoordinators} {
				if _, err := b.prepare("db-storage-5", step, eviction.Job{}); err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("%s: %v", step, err)
				}
			}
			list := b.system.(system.Membership)
			if missing, err := list.Leave(t.Context(), member, nil); err != nil || !strings.HasPrefix(missing, says) {
				t.Errorf("it leaves: %q %v", missing, err)
			}
			if missing, err := list.Join(t.Context(), member, nil); err != nil || !strings.HasPrefix(missing, says) {
				t.Errorf("it joins: %q %v", missing, err)
			}
			listing, err := list.Listed(t.Context(), member, &v1alpha1.MemberRegistration{ID: member.ID})
			if err != nil || !listing.Predecessor || listing.Joined {
				t.Errorf("%+v %v", listing, err)
			}
			if len(sim.Commands()) != 0 {
				t.Errorf("commands: %v", sim.Commands())
			}
		})
	}
}

// A process of the member's id elsewhere does not make up for another one at the IP of its pod; one there does.
func TestInstancesAtTheIPOfAPod(t *testing.T) {
	sim := fdbsim.New(5, 2)
	b := newBench(t, simulated{sim}, 5, v1alpha1.FoundationDBWaits{})
	for _, test := range []struct{ id, ip, other string }{
		{"p4", "10.0.0.15", "p5"}, {"p5", "10.0.0.15", ""}, {"p5", "10.0.0.99", ""}, {"p5", "", ""}, {"p9", "10.0.0.99", ""},
	} {
		if facts := b.observeAll(b.at(test.id, test.ip)).Members[test.id]; facts["otherInstance"] != test.other {
			t.Errorf("%s at %s: %v", test.id, test.ip, facts)
		}
	}
}

// What a stateless member had is not known before it counts as lost.
func TestAStatelessMemberThatIsMissed(t *testing.T) {
	sim := fdbsim.New(7, 2)
	b := newBench(t, simulated{sim}, 7, v1alpha1.FoundationDBWaits{})
	b.roles["p7"] = "foundationdb-stateless"
	sim.Kill("p7")
	sim.Advance(2 * time.Minute)
	b.observe()
	b.pass(sim, 299*time.Second)
	if v := b.evict("p7"); !slices.Equal(reasons(v), []string{"HoldsData"}) || !strings.Contains(v.Blockers[0].Message, "for 299 s") {
		t.Errorf("%v %+v", v.Answer, v.Blockers)
	}
	sim.Advance(time.Second)
	if v := b.evict("p7"); v.Answer != eviction.Allowed {
		t.Errorf("%v %+v", v.Answer, v.Blockers)
	}
}
