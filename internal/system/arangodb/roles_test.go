package arangodb

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/expression"
)

// What the source says of each kind of pod, in the seconds of its tolerations; -1: for ever.
func TestRolesSayWhatTheSourceSays(t *testing.T) {
	type row struct {
		Seconds  int64
		State    v1alpha1.State
		Identity v1alpha1.Identity
		By       v1alpha1.Successor
		Always   bool // may be evicted without a rule
	}
	want := map[string]row{
		"arangodb-image-id":               {5, v1alpha1.StateNone, v1alpha1.IdentityNone, v1alpha1.SuccessorAnyPod, true},
		"arangodb-coordinator":            {15, v1alpha1.StateNone, v1alpha1.IdentityUnique, v1alpha1.SuccessorNewIdentity, true},
		"arangodb-dbserver":               {300, v1alpha1.StatePersistent, v1alpha1.IdentityUnique, v1alpha1.SuccessorNewIdentity, false},
		"arangodb-agent":                  {300, v1alpha1.StatePersistent, v1alpha1.IdentityUnique, v1alpha1.SuccessorSameIdentity, false},
		"arangodb-single":                 {-1, v1alpha1.StatePersistent, v1alpha1.IdentityUnique, v1alpha1.SuccessorNone, false},
		"arangodb-single-active-failover": {300, v1alpha1.StatePersistent, v1alpha1.IdentityUnique, v1alpha1.SuccessorNewIdentity, false},
		"arangodb-syncmaster":             {15, v1alpha1.StateNone, v1alpha1.IdentityAddress, v1alpha1.SuccessorAnyPod, true},
		"arangodb-gateway":                {15, v1alpha1.StateNone, v1alpha1.IdentityNone, v1alpha1.SuccessorAnyPod, true},
		"arangodb-syncworker":             {60, v1alpha1.StateMemory, v1alpha1.IdentityAddress, v1alpha1.SuccessorAnyPod, true},
	}
	roles, err := eviction.ParseRoles(Kind().Roles)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]row{}
	for _, role := range roles {
		if role.System != Name || role.Description == "" {
			t.Errorf("role %s: system %q, description %q", role.Name, role.System, role.Description)
		}
		ready, reach := seconds(role.Tolerations.NotReady), seconds(role.Tolerations.Unreachable)
		if ready != reach {
			t.Errorf("role %s: not-ready %d, unreachable %d", role.Name, ready, reach)
		}
		got[role.Name] = row{ready, role.State, role.Identity, role.Replace.Successor, len(role.Evict.Rules) == 0}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("roles (-want +got):\n%s", diff)
	}
}

// Admission refuses a DELETE without grace of what runs, so no remedy may lead there.
func TestNoRemedyByForce(t *testing.T) {
	roles, err := eviction.ParseRoles(Kind().Roles)
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range roles {
		for _, rule := range slices.Concat(role.Evict.Rules, role.Replace.Rules) {
			for _, forced := range []string{"--force", "--grace-period", "--now"} {
				if strings.Contains(rule.Remedy, forced) {
					t.Errorf("role %s, rule %s: the remedy has %s", role.Name, rule.Name, forced)
				}
			}
		}
	}
}

func seconds(toleration *v1alpha1.Toleration) int64 {
	switch {
	case toleration == nil:
		return -2
	case toleration.Forever:
		return -1
	case toleration.Seconds == nil:
		return -3
	}
	return *toleration.Seconds
}

// Every fact that a policy may ask for has a description, and what is observed is declared with its type.
func TestFactsAreDeclared(t *testing.T) {
	declared := map[string]expression.Type{}
	for _, field := range Schema.Member {
		if field.Doc == "" {
			t.Errorf("member.%s has no description", field.Name)
		}
		declared[field.Name] = field.Type
	}
	b := newBench(t, plain())
	evidence := b.evidence(prmrA, agntA, "CRDN-a")
	for id, facts := range evidence.Members {
		for name, value := range facts {
			if want, got := declared[name], typeOf(value); want != got {
				t.Errorf("%s: member.%s is declared as %q and observed as %q", id, name, want, got)
			}
		}
	}
	declared = map[string]expression.Type{}
	for _, field := range Schema.System {
		if field.Doc == "" {
			t.Errorf("system.%s has no description", field.Name)
		}
		declared[field.Name] = field.Type
	}
	for name, value := range evidence.System {
		if want, got := declared[name], typeOf(value); want != got {
			t.Errorf("system.%s is declared as %q and observed as %q", name, want, got)
		}
	}
}

func typeOf(value any) expression.Type {
	switch value.(type) {
	case bool:
		return expression.Bool
	case int64:
		return expression.Int
	case string:
		return expression.String
	case []string:
		return expression.Strings
	}
	return ""
}
