package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/agent/machine"
	"usher.sh/usher/internal/agent/wake"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/nodepressure"
	"usher.sh/usher/internal/nodepressure/record"
)

func TestLoadConfig(t *testing.T) {
	tests := []struct{ name, text, wrong string }{
		{"nothing", "", ""},
		{"some thresholds", "evictionHard: {memory.available: 1Gi}\norder: kubelet\n", ""},
		{"a name that is not known", "evictionHrad: {}\n", "unknown field"},
		{"another order", "order: random\n", `order is "random"; it can be qos or kubelet`},
		{"a value that is none", "evictionHard: {memory.available: lots}\n", "evictionHard"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "agent.yaml")
			if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := LoadConfig(file)
			if tt.wrong == "" && err != nil || tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)) {
				t.Errorf("got %+v, %v", c, err)
			}
		})
	}
	if _, err := LoadConfig(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is named and not there: %v", err)
	}
}

// TestDefaultsLeaveImagesToTheKubelet: it can remove those that no container uses.
func TestDefaultsLeaveImagesToTheKubelet(t *testing.T) {
	thresholds, err := DefaultConfig().Thresholds()
	if err != nil {
		t.Fatal(err)
	}
	for _, threshold := range thresholds {
		if strings.HasPrefix(string(threshold.Signal), "imagefs") {
			t.Errorf("%+v", threshold)
		}
	}
}

// TestDefaultsAreAboveTheKubelets: out of the box, the two do not fight.
func TestDefaultsAreAboveTheKubelets(t *testing.T) {
	ours, err := DefaultConfig().Thresholds()
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := nodepressure.Default().Thresholds()
	if err != nil {
		t.Fatal(err)
	}
	node := nodepressure.Node{Readings: map[nodepressure.Signal]nodepressure.Reading{}}
	for _, signal := range nodepressure.Signals() {
		node.Readings[signal] = nodepressure.Reading{Available: 1 << 30, Capacity: 8 << 30}
	}
	if got := fights(node, ours, theirs); len(got) > 0 {
		t.Errorf("%q", got)
	}
	ours, err = Config{Config: nodepressure.Config{EvictionHard: map[string]string{"memory.available": "50Mi"}}}.Thresholds()
	if err != nil {
		t.Fatal(err)
	}
	got := fights(node, ours, theirs)
	if len(got) != 2 || !strings.Contains(got[0], "the kubelet evicts at memory.available<100Mi (hard), the agent at memory.available<50Mi (hard)") {
		t.Errorf("%q", got)
	}
}

func TestRates(t *testing.T) {
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration, available int64) map[nodepressure.Signal]nodepressure.Reading {
		return map[nodepressure.Signal]nodepressure.Reading{nodepressure.MemoryAvailable: {Available: available, Capacity: 1000, At: start.Add(d)}}
	}
	steps := []struct {
		name  string
		after time.Duration
		left  int64
		rate  float64
		known bool
	}{
		{"the first says nothing", 0, 1000, 0, false},
		{"falling", 100 * time.Millisecond, 900, -1000, true},
		{"not read anew", 100 * time.Millisecond, 900, -1000, true},
		{"over the whole of what counts", 200 * time.Millisecond, 500, -2500, true},
		{"what is older does not count", 650 * time.Millisecond, 500, 0, true},
		{"rising after a long tick", 9 * time.Second, 1335, 100, true},
		{"after a gap nothing is known", 60 * time.Second, 10, 0, false},
		{"too soon for a rate", 60*time.Second + time.Millisecond, 0, 0, false},
	}
	var tr trend
	for _, s := range steps {
		got, known := tr.add(at(s.after, s.left))[nodepressure.MemoryAvailable]
		if known != s.known || got > s.rate+1 || got < s.rate-1 {
			t.Errorf("%s: %g, %t; want %g, %t", s.name, got, known, s.rate, s.known)
		}
	}
}

func TestStanding(t *testing.T) {
	c := config("")
	thresholds, err := c.Thresholds()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name       string
		available  int64 // of pods' memory, in MiB
		idle       int
		soft, hard bool
		until      time.Duration
	}{
		{"far", 900, 0, false, false, 700 * mib * time.Second / (4 << 30)},
		{"between soft and hard", 150, 0, true, false, wake.Shortest},
		{"below hard", 50, 0, true, true, pressedShortest},
		{"below hard for long", 50, 1000, true, true, pressedLongest},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			node := nodepressure.Node{Readings: map[nodepressure.Signal]nodepressure.Reading{
				nodepressure.AllocatableMemoryAvailable: {Available: tt.available * mib, Capacity: 1000 * mib},
			}}
			got := stand(node, thresholds, nil, tt.idle)
			if got.soft != tt.soft || got.hard != tt.hard || got.until[sensePods].Round(time.Millisecond) != tt.until.Round(time.Millisecond) {
				t.Errorf("got %+v", got)
			}
			if got.until[senseDisks] != wake.Longest {
				t.Errorf("disks, which have no thresholds, are looked at every %s", got.until[senseDisks])
			}
		})
	}
}

// TestSurveyBeginsBeforeADiskIsShort: when it is, it is to be known which pods have filled it.
func TestSurveyBeginsBeforeADiskIsShort(t *testing.T) {
	c := config("")
	c.EvictionHard = map[string]string{"nodefs.available": "10%", "memory.available": "100Mi"}
	thresholds, err := c.Thresholds()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name      string
		available int64   // of 1,000 MiB
		rate      float64 // MiB a second
		pressed   bool
		want      bool
	}{
		{"nothing happens", 500, 0, false, false},
		{"short in a minute", 500, -6.6, false, false},
		{"short in half a minute", 500, -14, false, true},
		{"short", 90, 0, true, true},
		{"short, and getting better", 90, 50, true, true},
		{"something else is short", 500, 0, true, false},
		{"getting better", 101, 50, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			reading := nodepressure.Reading{Available: tt.available * mib, Capacity: 1000 * mib}
			node := nodepressure.Node{Readings: map[nodepressure.Signal]nodepressure.Reading{
				nodepressure.NodeFsAvailable: reading,
				nodepressure.MemoryAvailable: {Available: 50 * mib, Capacity: 1000 * mib},
			}}
			rates := map[nodepressure.Signal]float64{nodepressure.NodeFsAvailable: tt.rate * mib, nodepressure.MemoryAvailable: -mib}
			if got := wantsSurvey(node, thresholds, rates, tt.pressed); got != tt.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// TestWhatIsFarAwayIsNotReadAnew: only what it is time for costs anything.
func TestWhatIsFarAwayIsNotReadAnew(t *testing.T) {
	n := newFakeNode(t)
	m, err := machine.Open(machine.Options{Root: n.root, HostRoot: n.root})
	if err != nil {
		t.Fatal(err)
	}
	e, err := newEyes("a", m)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	e.look(start, false)
	e.until = [senses]time.Duration{senseMachine: time.Second, sensePods: time.Millisecond, sensePIDs: time.Minute, senseDisks: time.Minute}
	if got := e.due(start); got != time.Millisecond {
		t.Errorf("the next look is due in %s", got)
	}
	s := e.look(start.Add(10*time.Millisecond), false)
	for signal, age := range map[nodepressure.Signal]time.Duration{
		nodepressure.AllocatableMemoryAvailable: 10 * time.Millisecond, nodepressure.MemoryAvailable: 0, nodepressure.PIDAvailable: 0, nodepressure.NodeFsAvailable: 0,
	} {
		if got := s.node.Readings[signal].At.Sub(start); got != age {
			t.Errorf("%s was read after %s, want %s", signal, got, age)
		}
	}
}

func TestPolicies(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	policy := func(name string, mode v1alpha1.PressureMode, suspended bool, selector map[string]string) v1alpha1.EvictionPolicy {
		return v1alpha1.EvictionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: v1alpha1.EvictionPolicySpec{Suspend: suspended, Members: []v1alpha1.MemberSelector{
				{Selector: metav1.LabelSelector{MatchLabels: selector}, OnNodePressure: mode},
			}},
		}
	}
	blind := func(name string) v1alpha1.EvictionPolicy {
		p := policy(name, v1alpha1.PressureLastResort, false, nil)
		p.Spec.Members[0].Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}
		return p
	}
	audited := policy("db", v1alpha1.PressureWhenAllowed, false, map[string]string{"app": "db"})
	audited.Spec.Mode = v1alpha1.ModeAudit
	mine, others := map[string]string{"app": "db"}, map[string]string{"app": "web"}
	tests := []struct {
		name string
		all  []v1alpha1.EvictionPolicy
		want v1alpha1.PressureMode
	}{
		{"it says nothing", []v1alpha1.EvictionPolicy{policy("db", "", false, mine)}, v1alpha1.PressureWhenAllowed},
		{"it may be sacrificed", []v1alpha1.EvictionPolicy{policy("db", v1alpha1.PressureLastResort, false, mine)}, v1alpha1.PressureLastResort},
		{"a suspended one says nothing", []v1alpha1.EvictionPolicy{policy("db", v1alpha1.PressureLastResort, true, mine)}, v1alpha1.PressureWhenAllowed},
		{"another policy", []v1alpha1.EvictionPolicy{policy("web", v1alpha1.PressureLastResort, false, mine)}, v1alpha1.PressureWhenAllowed},
		{"one in mode Audit that disagrees", []v1alpha1.EvictionPolicy{policy("db", v1alpha1.PressureLastResort, false, mine), audited}, v1alpha1.PressureLastResort},
		{"a selector that cannot be read", []v1alpha1.EvictionPolicy{blind("db")}, v1alpha1.PressureWhenAllowed},
		{"two that disagree", []v1alpha1.EvictionPolicy{
			policy("db", v1alpha1.PressureLastResort, false, mine), policy("db", v1alpha1.PressureWhenAllowed, false, mine),
		}, v1alpha1.PressureWhenAllowed},
	}
	r := &resident{pod: nodepressure.Pod{Namespace: "shop", Name: "db-0", Governed: true, Policy: "db"}, labels: mine}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPolicies(nil)
			p.known["shop"] = said{read: noon, rules: rulesOf(tt.all)}
			if governed, got := p.of(r, noon); got != tt.want || !governed {
				t.Errorf("got %s, governed: %t; want %s", got, governed, tt.want)
			}
		})
	}
	// Anyone may write the label. It counts where nothing is known, or what is known is old: a policy may be new.
	for name, c := range map[string]struct {
		known    said
		governed bool
	}{
		"nothing was read":               {said{at: noon}, true},
		"no policy":                      {said{read: noon}, false},
		"other members":                  {said{read: noon, rules: rulesOf([]v1alpha1.EvictionPolicy{policy("db", "", false, others)})}, false},
		"one in mode Audit":              {said{read: noon, rules: rulesOf([]v1alpha1.EvictionPolicy{audited})}, false},
		"another policy cannot be read":  {said{read: noon, rules: rulesOf([]v1alpha1.EvictionPolicy{blind("web")})}, false},
		"no policy, as of two minutes":   {said{read: noon.Add(-2 * time.Minute)}, true},
		"no policy, as of half a minute": {said{read: noon.Add(-policiesFor)}, false},
	} {
		p := newPolicies(nil)
		p.known["shop"] = c.known
		if governed, mode := p.of(r, noon); governed != c.governed || mode != v1alpha1.PressureWhenAllowed {
			t.Errorf("%s: governed: %t, %s", name, governed, mode)
		}
	}
}

// TestALabelWithoutAPolicyIsAskedAboutAgain: a policy that is new is not learned of an hour later.
func TestALabelWithoutAPolicyIsAskedAboutAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, noon := 0, time.Now()
		p := newPolicies(func(context.Context, string) ([]v1alpha1.EvictionPolicy, error) {
			asked++
			return nil, nil
		})
		r := &resident{pod: nodepressure.Pod{Namespace: "shop", Name: "db-0", Governed: true, Policy: "db"}}
		for _, after := range []time.Duration{0, policiesFor, policiesFor + time.Second} {
			p.refresh(t.Context(), []*resident{r}, noon.Add(after), time.Hour)
			synctest.Wait()
		}
		if asked != 2 {
			t.Errorf("asked %d times, want 2", asked)
		}
	})
}

// TestPoliciesAreKeptWithoutAnAnswer: what a policy said holds on while the apiserver is away.
func TestPoliciesAreKeptWithoutAnAnswer(t *testing.T) {
	answers := []error{nil, errors.New("away")}
	p := newPolicies(func(context.Context, string) ([]v1alpha1.EvictionPolicy, error) {
		err := answers[0]
		answers = answers[1:]
		return []v1alpha1.EvictionPolicy{{
			ObjectMeta: metav1.ObjectMeta{Name: "db"},
			Spec:       v1alpha1.EvictionPolicySpec{Members: []v1alpha1.MemberSelector{{OnNodePressure: v1alpha1.PressureLastResort}}},
		}}, err
	})
	r := &resident{pod: nodepressure.Pod{Namespace: "shop", Governed: true, Policy: "db"}}
	for range 2 {
		p.ask(t.Context(), "shop", time.Now())
		if governed, got := p.of(r, time.Now()); !governed || got != v1alpha1.PressureLastResort {
			t.Errorf("got %s, governed: %t", got, governed)
		}
	}
}

func TestRecordsAreARing(t *testing.T) {
	r, err := openRecords(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for i := range mostRecords + 5 {
		if err := r.write(record.New(start.Add(time.Duration(i)*time.Second), nodepressure.Node{Name: "a"}, nil)); err != nil {
			t.Fatal(err)
		}
	}
	files, err := os.ReadDir(r.dir)
	if err != nil || len(files) != mostRecords || !strings.HasPrefix(files[0].Name(), "20261121T120005") {
		t.Errorf("%d files, the first %v, %v", len(files), files[0], err)
	}
}

func TestARecordThatCannotBeKeptLeavesNothing(t *testing.T) {
	r := &records{dir: filepath.Join(t.TempDir(), "none")}
	if err := r.write(record.New(time.Now(), nodepressure.Node{Name: "a"}, nil)); err == nil {
		t.Error("it was kept where there is no folder")
	}
}

func TestResidentOf(t *testing.T) {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system", Name: "etcd-a", UID: "mirror",
			Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x", configHash: "static"},
		},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "etcd", ContainerID: "containerd://1"}, {Name: "late"}}},
	}
	r := residentOf(p)
	if r.cgroup != "static" || r.pod.Exempt == "" || r.labels != nil || len(r.containers) != 1 {
		t.Errorf("got %+v", r)
	}
	delete(p.Annotations, corev1.MirrorPodAnnotationKey)
	if r := residentOf(p); r.cgroup != p.UID {
		t.Errorf("by what is written on it, it is taken for the pod %s", r.cgroup)
	}
	p.Status.Phase = corev1.PodSucceeded
	if r := residentOf(p); r != nil {
		t.Errorf("one that has ended is kept: %+v", r)
	}
}

func TestReach(t *testing.T) {
	var turns []bool
	r := &apiserverHealth{changed: func(now bool) { turns = append(turns, now) }}
	refused := apierrors.NewForbidden(schema.GroupResource{}, "a", nil)
	for _, err := range []error{nil, refused, context.DeadlineExceeded, errUnanswered, context.Canceled, fmt.Errorf("reading: %w", refused), nil} {
		r.record(err)
	}
	if diff := cmp.Diff([]bool{false, true}, turns); diff != "" {
		t.Errorf("a refusal is an answer, and so is a wrapped one; silence is none: %s", diff)
	}
}

func TestLedger(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		name    string
		kind    nodepressure.ActionKind
		answer  answers.Answer
		leaving bool
		refused time.Duration // 0: not
	}{
		{"accepted", nodepressure.Evict, answers.Answer{Code: answers.Accepted}, true, 0},
		{"gone meanwhile", nodepressure.Remove, answers.Answer{Code: answers.Gone}, true, 0},
		{"refused", nodepressure.Evict, answers.Answer{Code: answers.RefusedByBudget}, false, refusalStands},
		{"refused for longer", nodepressure.Evict, answers.Answer{Code: answers.RefusedForNow, RetryAfter: time.Minute}, false, time.Minute},
		{"forbidden", nodepressure.Remove, answers.Answer{Code: answers.Forbidden}, false, forbiddenStands},
		{"not answered: it may be on its way", nodepressure.Remove, answers.Answer{Code: answers.Unavailable}, false, 0},
		{"a webhook did not answer, so it is not on its way", nodepressure.Evict, answers.Answer{Code: answers.Unavailable, Message: `Internal error occurred: failed calling webhook "evict.usher.sh": EOF`}, false, refusalStands},
		{"killed, and not deleted", nodepressure.KillLocally, answers.Answer{Code: answers.Denied}, false, 0},
		{"requests are none of it", nodepressure.Request, answers.Answer{Code: answers.Forbidden}, false, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLedger(nil)
			o := outcome{action: nodepressure.Action{Kind: tt.kind, Pod: &nodepressure.Pod{UID: "u", Grace: 30 * time.Second}}, answer: tt.answer}
			l.begin(&o.action, now)
			l.end(&o, now)
			if _, leaving := l.leaving["u"]; leaving != tt.leaving {
				t.Errorf("leaving: %t", leaving)
			}
			refusal, refused := l.refused["u"]
			if refused != (tt.refused > 0) || refused && refusal.LookAgain != now.Add(tt.refused) {
				t.Errorf("refused: %+v, %t", refusal, refused)
			}
			l.settle(map[types.UID]*resident{}, true)
			if len(l.leaving)+len(l.refused) > 0 {
				t.Error("a pod that is gone is remembered")
			}
		})
	}
}

func TestLedgerByCgroupsWhileTheApiserverIsAway(t *testing.T) {
	n := newFakeNode(t)
	n.uses("u", 1)
	m, err := machine.Open(machine.Options{Root: n.root, HostRoot: n.root})
	if err != nil {
		t.Fatal(err)
	}
	l := newLedger(m)
	here := map[types.UID]*resident{"u": {cgroup: "u"}}
	l.begin(&nodepressure.Action{Kind: nodepressure.Evict, Pod: &nodepressure.Pod{UID: "u"}}, time.Now())
	if l.settle(here, false); len(l.leaving) != 1 {
		t.Error("it still runs, and counts as gone")
	}
	n.ends("u")
	if l.settle(here, true); len(l.leaving) != 1 {
		t.Error("the apiserver answers and still has it")
	}
	if l.settle(here, false); len(l.leaving) != 0 {
		t.Error("its cgroup is gone, and it counts as leaving")
	}
}

func TestLastResortBreaksTheGlassFirst(t *testing.T) {
	action := nodepressure.Action{
		Kind: nodepressure.Remove, BreakGlass: true, Grace: time.Second, Message: "no other pod can help",
		Pod: &nodepressure.Pod{Namespace: "shop", Name: "db-0", UID: "u"},
	}
	tests := []struct {
		name    string
		answers map[string]answers.Answer
		want    []string
	}{
		{"it goes", nil, []string{"break db-0", "remove db-0 1s"}},
		{"nothing without the annotation", map[string]answers.Answer{"break db-0": {Code: answers.Forbidden}}, []string{"break db-0"}},
		{"another's value stays, and lets it through as well", map[string]answers.Answer{"break db-0": {Code: answers.Conflict}}, []string{"break db-0", "remove db-0 1s"}},
		{"another's value does not help, and stays", map[string]answers.Answer{"break db-0": {Code: answers.Conflict}, "remove db-0": {Code: answers.Denied}}, []string{"break db-0", "remove db-0 1s"}},
		{"it does not help, and is taken back", map[string]answers.Answer{"remove db-0": {Code: answers.Denied}}, []string{"break db-0", "remove db-0 1s", "mend db-0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cluster := &fakeCluster{answers: tt.answers}
			c := &executor{cluster: cluster, node: "worker-1", apiserver: &apiserverHealth{changed: func(bool) {}}, blank: newResidents().blank}
			c.one(t.Context(), action)
			if diff := cmp.Diff(tt.want, cluster.log()); diff != "" {
				t.Error(diff)
			}
			if want := "pressure.usher.sh/agent on node worker-1: no other pod can help"; cluster.glass != want {
				t.Errorf("the annotation says %q, want %q", cluster.glass, want)
			}
		})
	}
}

func TestWaitsAreLoggedOnce(t *testing.T) {
	var text strings.Builder
	log := slog.New(slog.NewTextHandler(&text, nil))
	wait := nodepressure.Action{Kind: nodepressure.Wait, Reason: nodepressure.ReasonGrace, Message: "its grace runs", Threshold: &nodepressure.Threshold{Signal: nodepressure.PIDAvailable}}
	var w waits
	for range 3 {
		w.report(log, []nodepressure.Action{wait})
	}
	if got := strings.Count(text.String(), "its grace runs"); got != 1 {
		t.Errorf("logged %d times", got)
	}
	w.report(log, nil)
	w.report(log, []nodepressure.Action{wait})
	if got := strings.Count(text.String(), "its grace runs"); got != 2 {
		t.Errorf("one that begins anew was logged %d times in all", got)
	}
}
