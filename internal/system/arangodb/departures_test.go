package arangodb

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
)

const (
	statefulSets = "system:serviceaccount:kube-system:statefulset-controller"
	collector    = "system:serviceaccount:kube-system:generic-garbage-collector"
)

// departure is a pod that ends although no rule of its role passes: what is no eviction waits for nothing.
type departure struct {
	name, role, member string
	given              func(*eviction.AdmissionInput)
	want               eviction.NoteKind
}

func departureCases() []numbered {
	by := func(user string) func(*eviction.AdmissionInput) {
		return func(in *eviction.AdmissionInput) {
			in.Verb, in.User, in.Pod.Owner = eviction.VerbDelete, user, snapshot.Owner{APIVersion: "apps/v1", Kind: "StatefulSet"}
		}
	}
	ended := func(in *eviction.AdmissionInput) { in.Pod.Phase = corev1.PodFailed }
	var all []numbered
	for _, c := range []departure{
		{"17 the dbserver's containers have ended for good", "dbserver", prmrA, ended, eviction.LetThrough},
		{"17 the dbserver's containers are started again", "dbserver", prmrA, func(*eviction.AdmissionInput) {}, eviction.Refused},
		{"20 the deployment is deleted, and its pods with it", "dbserver", prmrA, by(collector), eviction.ByGarbage},
		{"52 an agent's pod is restarted by its own controller", "agent", agntA, by(statefulSets), eviction.ByOwner},
		{"52 an agent's pod is evicted", "agent", agntA, func(*eviction.AdmissionInput) {}, eviction.Refused},
		{"53 the single server's pod is restarted by its own controller", "single", "SNGL-a", by(statefulSets), eviction.ByOwner},
		{"53 the single server's containers have ended for good", "single", "SNGL-a", ended, eviction.LetThrough},
	} {
		all = append(all, numbered{c.name, c.check})
	}
	return all
}

// check runs with all servers down, so that nothing can pass on what the deployment reports.
func (c departure) check(t *testing.T) {
	t.Helper()
	b := newBench(t, plain())
	down(t, b)
	in := eviction.AdmissionInput{Input: b.input(c.role, c.member, b.evidence(c.member)), Verb: eviction.VerbEvict, User: "alice"}
	c.given(&in)
	if result := eviction.Admit(in); result.Note.Kind != c.want || result.Allow != (c.want != eviction.Refused) {
		t.Errorf("answer is %s (allowed: %t), want %s: %s", result.Note.Kind, result.Allow, c.want, result.Note.Message)
	}
}

func tolerationCases() []numbered {
	wait := func(taint string, seconds int64) corev1.Toleration {
		return corev1.Toleration{Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds}
	}
	both := func(seconds int64) []corev1.Toleration {
		return []corev1.Toleration{wait(corev1.TaintNodeNotReady, seconds), wait(corev1.TaintNodeUnreachable, seconds)}
	}
	forever := both(0)
	forever[0].TolerationSeconds, forever[1].TolerationSeconds = nil, nil
	noSchedule := corev1.Toleration{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
	equal := corev1.Toleration{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpEqual, Value: "x", Effect: corev1.TaintEffectNoExecute}
	var all []numbered
	for _, c := range []toleration{
		{"1 tolerations of an image-ID pod", "image-id", nil, both(5)},
		{"2 tolerations of a coordinator", "coordinator", nil, both(15)},
		{"4 tolerations of a syncmaster", "syncmaster", nil, both(15)},
		{"5 tolerations of a syncworker", "syncworker", nil, both(60)},
		{"53 tolerations of a single server", "single", nil, forever},
		{"53 tolerations of a single server that the apiserver has given its own", "single", both(300), forever},
		{"tolerations of a dbserver", "dbserver", nil, both(300)},
		{"tolerations of an agent", "agent", nil, both(300)},
		{"tolerations of an active failover server", "single-active-failover", nil, both(300)},
		{"its author's seconds win", "coordinator", both(60), both(60)},
		{"73 an image-ID pod comes with its operator's 5 s", "image-id", both(5), both(5)},
		{"73 an image-ID pod comes with its author's 60 s", "image-id", both(60), both(60)},
		{"74 another effect: both are there", "coordinator", []corev1.Toleration{noSchedule}, slices.Concat([]corev1.Toleration{noSchedule}, both(15))},
		{"74 another operator: its author has spoken of that taint", "coordinator", []corev1.Toleration{equal}, []corev1.Toleration{equal, both(15)[1]}},
	} {
		all = append(all, numbered{c.name, c.check})
	}
	return all
}

// toleration is what a pod comes with and what it gets.
type toleration struct {
	name, role string
	own, want  []corev1.Toleration
}

func (c toleration) check(t *testing.T) {
	t.Helper()
	roles, err := eviction.ParseRoles(Kind().Roles)
	if err != nil {
		t.Fatal(err)
	}
	for i := range roles {
		if roles[i].Name != "arangodb-"+c.role {
			continue
		}
		claim := &eviction.Claim{Role: &roles[i], Tolerations: v1alpha1.TolerationsKeepOwn}
		if diff := cmp.Diff(c.want, eviction.NewTolerations(claim, c.own, "").Apply(c.own)); diff != "" {
			t.Errorf("tolerations (-want +got):\n%s", diff)
		}
		return
	}
	t.Errorf("there is no role %s", c.role)
}
