package arangodb

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/test/arangosim"
)

// lastCase is the highest number of the list of cases that docs/arangodb.md speaks of.
const lastCase = 77

// numbered is a case; its name begins with its number in that list, if it has one there.
type numbered struct {
	name  string
	check func(*testing.T)
}

func conformanceCases() []numbered {
	return slices.Concat(
		statelessCases(), dbserverEvictions(), dbserverReplacements(), agentCases(), singleCases(), failoverCases(),
		writeCases(), departureCases(), tolerationCases(),
	)
}

func TestConformance(t *testing.T) {
	for _, c := range conformanceCases() {
		t.Run(c.name, c.check)
	}
}

var caseNumber = regexp.MustCompile(`^(\d+) \S`)

// Every number of the list is either tested or named on the page with the reason why not, and none is both.
func TestEveryCaseIsAccountedFor(t *testing.T) {
	tested := map[int]bool{}
	for _, c := range conformanceCases() {
		if found := caseNumber.FindStringSubmatch(c.name); found != nil {
			number, err := strconv.Atoi(found[1])
			if err != nil {
				t.Fatal(err)
			}
			tested[number] = true
		}
	}
	excused := excusedCases(t)
	for number := 1; number <= lastCase; number++ {
		switch {
		case tested[number] && excused[number]:
			t.Errorf("case %d is tested, and the page says why it is not", number)
		case !tested[number] && !excused[number]:
			t.Errorf("case %d is not tested, and the page does not say why", number)
		}
	}
	for number := range maps.Keys(tested) {
		if number < 1 || number > lastCase {
			t.Errorf("there is no case %d", number)
		}
	}
}

// excusedCases reads the page's table of cases that are not tested. Each row must have numbers and a reason, and no number
// may stand there twice.
func excusedCases(t *testing.T) map[int]bool {
	t.Helper()
	excused := map[int]bool{}
	for _, row := range rows(t, "Cases that are not tested", 2) {
		if len(strings.Fields(row[1])) < 4 {
			t.Errorf("cases %s: %q is no reason", row[0], row[1])
		}
		for text := range strings.SplitSeq(row[0], ", ") {
			number, err := strconv.Atoi(text)
			if err != nil || number < 1 || number > lastCase || excused[number] {
				t.Errorf("%q of row %q is no number of a case, or stands there twice", text, row[0])
			}
			excused[number] = true
		}
	}
	return excused
}

// conformance is a case of what a role says of one member.
type conformance struct {
	name    string
	sim     func() *arangosim.Cluster
	role    string
	member  string
	arrange func(*testing.T, *bench)
	given   func(*eviction.Input)
	evict   []string // reasons of the blockers; nil: allowed
	replace []string
	// deleted: what replace says once the pod is known to be gone; only where it differs.
	deleted []string
	never   bool
	needed  []string
	// evictOnly: the case says nothing on replacement.
	evictOnly, replaceOnly bool
}

// cases are those of a table, each changed first.
func cases(table []conformance, each ...func(*conformance)) []numbered {
	all := make([]numbered, len(table))
	for i, c := range table {
		for _, change := range each {
			change(&c)
		}
		all[i] = numbered{c.name, c.check}
	}
	return all
}

func (c conformance) check(t *testing.T) {
	t.Helper()
	b := newBench(t, c.sim())
	if c.arrange != nil {
		c.arrange(t, b)
	}
	in := b.input(c.role, c.member, b.evidence(c.member))
	if c.given != nil {
		c.given(&in)
	}
	if !c.replaceOnly {
		verdict := eviction.Judge(in)
		c.compare(t, "evict", verdict, c.evict)
		var needed []string
		for _, step := range verdict.Needed {
			needed = append(needed, step.Name)
		}
		if diff := cmp.Diff(c.needed, needed); diff != "" {
			t.Errorf("steps needed (-want +got):\n%s", diff)
		}
	}
	if c.evictOnly {
		return
	}
	c.compare(t, "replace", eviction.JudgeReplace(in), c.replace)
	if c.deleted != nil {
		in.Deleted = true
		c.compare(t, "replace once deleted", eviction.JudgeReplace(in), c.deleted)
	}
}

func (c conformance) compare(t *testing.T, what string, verdict eviction.Verdict, want []string) {
	t.Helper()
	answer := eviction.Allowed
	switch {
	case len(want) > 0 && c.never:
		answer = eviction.Never
	case len(want) > 0:
		answer = eviction.Blocked
	}
	if want == nil {
		want = []string{}
	}
	if diff := cmp.Diff(want, reasons(verdict)); diff != "" || verdict.Answer != answer {
		t.Errorf("%s: answer %s, want %s; reasons (-want +got):\n%s", what, verdict.Answer, answer, diff)
	}
	for _, blocker := range verdict.Blockers {
		t.Logf("%s: %s: %s [%s]", what, blocker.Reason, blocker.Message, blocker.Remedy)
	}
}
