package cli

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic/fake"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/observe"
)

// replicas is a policy over the pods of an app, whose ids begin with a prefix.
func replicas(name, app, prefix string) v1alpha1.EvictionPolicy {
	return v1alpha1.EvictionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "uid-" + "x"},
		Spec: v1alpha1.EvictionPolicySpec{
			System:  v1alpha1.System{Kubernetes: &v1alpha1.Kubernetes{}},
			Members: []v1alpha1.MemberSelector{{Role: "replica", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, ID: `"` + prefix + `" + pod.name`}},
		},
	}
}

func appPod(name, app string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": app}}}
}

func TestReplaceFindsTheMember(t *testing.T) {
	db, cache := replicas("db", "db", "m-"), replicas("cache", "cache", "m-")
	cache.UID = "uid-cache"
	pods := []*corev1.Pod{appPod("db-0", "db"), appPod("db-1", "db"), appPod("m-db-1", "cache"), appPod("web-0", "web")}
	policies := []v1alpha1.EvictionPolicy{db, cache}
	for name, want := range map[string][]memberClaim{
		"db-0":   {{v1alpha1.ReplacementMember{Role: "replica", ID: "m-db-0"}, "db", false}},
		"m-db-0": {{v1alpha1.ReplacementMember{Role: "replica", ID: "m-db-0"}, "db", false}},
		"m-db-1": {{v1alpha1.ReplacementMember{Role: "replica", ID: "m-db-1"}, "db", false}, {v1alpha1.ReplacementMember{Role: "replica", ID: "m-m-db-1"}, "cache", false}},
		"web-0":  nil,
	} {
		got, err := claims(policies, pods, name)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%s: %v, %v; want %v", name, got, err, want)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%s: %v, want %v", name, got[i], want[i])
			}
		}
	}
}

func TestReplaceOfAMemberWithoutAPod(t *testing.T) {
	two := replicas("db", "db", "")
	two.Spec.Members = append(two.Spec.Members, v1alpha1.MemberSelector{Role: "workload"})
	for name, test := range map[string]struct {
		policies []v1alpha1.EvictionPolicy
		role     string
		policy   string
		want     string // in the error; "": there is none
	}{
		"the only role":      {policies: []v1alpha1.EvictionPolicy{replicas("db", "db", "")}, policy: "db"},
		"one of two roles":   {policies: []v1alpha1.EvictionPolicy{two}, policy: "db", role: "workload"},
		"no role is named":   {policies: []v1alpha1.EvictionPolicy{two}, policy: "db", want: "--role"},
		"another role":       {policies: []v1alpha1.EvictionPolicy{two}, policy: "db", role: "x", want: "only of replica, workload"},
		"no policy is named": {policies: []v1alpha1.EvictionPolicy{two}, want: "--policy"},
	} {
		o := &replaceOptions{namespace: "shop", member: "db-9", role: test.role, policy: test.policy}
		member, policy, err := o.absent(test.policies)
		if test.want == "" && (err != nil || policy != "db" || member.ID != "db-9" || test.role != "" && member.Role != test.role) {
			t.Errorf("%s: %v, %s, %v", name, member, policy, err)
		}
		if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// The command that was ended is typed again while the member has no pod.
func TestReplaceFindsWhatIsRequested(t *testing.T) {
	db, over, cache := waitingFor(), waitingFor(), waitingFor()
	db.Spec.Member.ID, db.Status.PodName, db.Status.Step = "PRMR-1", "db-2", v1alpha1.ReplacementRemoving
	over.Name, over.Spec.Member.ID, over.Status.Step = "over", "db-2", v1alpha1.ReplacementComplete
	cache.Name, cache.Spec.Source.Name, cache.Spec.Member.ID = "cache", "cache", "db-3"
	var objects []runtime.Object
	for _, q := range []*v1alpha1.ReplacementRequest{db, over, cache} {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(q)
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, &unstructured.Unstructured{Object: object})
	}
	kinds := map[schema.GroupVersionResource]string{observe.ReplacementResource: "ReplacementRequestList"}
	there := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, objects...)
	asked := memberClaim{member: db.Spec.Member, policy: "db"}
	for name, test := range map[string]struct {
		o    replaceOptions
		want []memberClaim
	}{
		"by its pod's name":      {replaceOptions{member: "db-2"}, []memberClaim{asked}},
		"by its id":              {replaceOptions{member: "PRMR-1", policy: "db", role: "replica"}, []memberClaim{asked}},
		"of another policy":      {replaceOptions{member: "db-2", policy: "cache"}, nil},
		"of another role":        {replaceOptions{member: "db-2", role: "x"}, nil},
		"a member without any":   {replaceOptions{member: "db-9"}, nil},
		"that of another policy": {replaceOptions{member: "db-3"}, []memberClaim{{member: cache.Spec.Member, policy: "cache"}}},
	} {
		test.o.namespace = "shop"
		if got := test.o.requested(t.Context(), there); !slices.Equal(got, test.want) {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func TestReplaceRefusesWrongFlags(t *testing.T) {
	for want, args := range map[string][]string{
		"it goes with --abandon":   {"db-0", "--confirm"},
		"name one member":          {},
		"--timeout is negative":    {"db-0", "--timeout=-1s"},
		"give a domain and a name": {"db-0", "--requester=anna"},
		"it can be none":           {"db-0", "--dry-run=maybe"},
	} {
		cmd := newReplaceCommand(genericclioptions.NewConfigFlags(false), genericiooptions.NewTestIOStreamsDiscard())
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(args)
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}

// Each line says which member it is, and what can be done.
func TestReplacementLines(t *testing.T) {
	q := &v1alpha1.ReplacementRequest{}
	q.Spec.Member = v1alpha1.ReplacementMember{Role: "replica", ID: "db-0"}
	q.Status.Step = v1alpha1.ReplacementWaiting
	q.Status.Blockers = []v1alpha1.ReplacementBlocker{
		{Reason: "NodeNotProvenOff", Message: "node a does not report", Remedy: "usher fence a --confirm"}, {Reason: "TooManyInFlight", Message: "1 member in flight", Remedy: "wait"},
	}
	want := "member db-0: Waiting: NodeNotProvenOff: node a does not report (usher fence a --confirm)\nmember db-0: Waiting: TooManyInFlight: 1 member in flight"
	if got := strings.Join(replacementLines(q), "\n"); got != want {
		t.Errorf("%s", got)
	}
	q.Spec.Abandonment = &v1alpha1.ReplacementAbandonment{Requester: "anna", Rules: []string{"others-ready"}}
	q.Status.Step, q.Status.Blockers, q.Status.Waived = v1alpha1.ReplacementRemoving, nil, []v1alpha1.ReplacementBlocker{{Rule: "others-ready", Reason: "OtherReplicaNotReady", Message: "only db-1"}}
	want = "member db-0: Removing: given up by anna: OtherReplicaNotReady: only db-1\nmember db-0: Removing"
	if got := strings.Join(replacementLines(q), "\n"); got != want {
		t.Errorf("%s", got)
	}
	q.Status = v1alpha1.ReplacementRequestStatus{
		Step: v1alpha1.ReplacementComplete, Successor: &v1alpha1.ReplacementSuccessor{PodName: "db-0", Node: "b"},
		Predecessor: &v1alpha1.ReplacementPredecessor{Claims: []v1alpha1.ReplacementClaim{{Name: "data-db-0", Volume: "v1"}}},
	}
	want = "member db-0 is replaced: pod db-0 is on node b; its former volumes, unless the policy has them deleted: v1"
	if got := strings.Join(replacementLines(q), "\n"); got != want {
		t.Errorf("%s", got)
	}
}

// A pod that is being deleted is Ready until it has ended.
func TestReplaceWarnsOfAMemberThatStays(t *testing.T) {
	for name, test := range map[string]struct {
		ready, deleted, want bool
	}{
		"it runs":          {ready: true, want: true},
		"it is going":      {ready: true, deleted: true},
		"it does not work": {},
	} {
		pod := appPod("db-0", "db")
		if test.ready {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
		if test.deleted {
			pod.DeletionTimestamp = &metav1.Time{}
		}
		var out bytes.Buffer
		(&replaceOptions{IOStreams: genericiooptions.IOStreams{ErrOut: &out}, member: "db-0"}).warnReady([]*corev1.Pod{pod})
		if got := strings.HasPrefix(out.String(), "warning: pod db-0 is Ready"); got != test.want {
			t.Errorf("%s: %q", name, out.String())
		}
	}
}

// Following ends once nothing more is done for a request, whether the object goes or stays.
func TestFollowingAReplacementEnds(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.ReplacementRequest)
		code   int
		said   string
	}{
		"it is complete": {func(q *v1alpha1.ReplacementRequest) { q.Status.Step = v1alpha1.ReplacementComplete }, exitDone, "member db-2 is replaced"},
		"repair had no reason any more": {func(q *v1alpha1.ReplacementRequest) {
			q.Status.Step = v1alpha1.ReplacementCancelled
			q.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Message: "what was wrong does not stand any more; nothing was removed"}}
		}, exitBlocked, "it was not deleted, and ended: what was wrong does not stand any more; nothing was removed. To have the member replaced all the same, type the command again\n"},
		"it was deleted, and another finalizer keeps it": {func(q *v1alpha1.ReplacementRequest) {
			q.Status.Step, q.DeletionTimestamp = v1alpha1.ReplacementCancelled, &metav1.Time{Time: time.Unix(0, 0)}
		}, exitBlocked, "member db-2: the replacement is cancelled, and nothing was removed\n"},
	} {
		t.Run(name, func(t *testing.T) {
			q := waitingFor()
			c.change(q)
			object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(q)
			if err != nil {
				t.Fatal(err)
			}
			objects := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{observe.ReplacementResource: "ReplacementRequestList"},
				&unstructured.Unstructured{Object: object})
			ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
			defer stop()
			var out bytes.Buffer
			o := &replaceOptions{IOStreams: genericiooptions.IOStreams{Out: &out, ErrOut: &out}, namespace: "shop", member: "db-2"}
			if code := settle(o.follow(ctx, objects, q), &out); code != c.code || !strings.Contains(out.String(), c.said) {
				t.Errorf("exit code %d, want %d; %s", code, c.code, out.String())
			}
		})
	}
}

// What can still be done about a request is said of it as it is.
func TestWhatBecomesOfAReplacement(t *testing.T) {
	const cancels = "ReplacementRequest q stands; kubectl delete replacementrequest q -n shop cancels it as long as nothing was removed\n"
	for name, test := range map[string]struct {
		step    v1alpha1.ReplacementStep
		deleted bool
		want    string
	}{
		"it waits":                  {step: v1alpha1.ReplacementWaiting, want: cancels},
		"it removes":                {step: v1alpha1.ReplacementRemoving, want: cancels},
		"it removes and is deleted": {step: v1alpha1.ReplacementRemoving, deleted: true, want: "ReplacementRequest q is being deleted, and goes on if something of the predecessor was removed by then\n"},
		"nothing is left":           {step: v1alpha1.ReplacementJoining, deleted: true, want: "ReplacementRequest q goes on: nothing of the predecessor is left\n"},
	} {
		q := &v1alpha1.ReplacementRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "q"}}
		if q.Status.Step = test.step; test.deleted {
			q.DeletionTimestamp = &metav1.Time{}
		}
		var out bytes.Buffer
		(&replaceOptions{IOStreams: genericiooptions.IOStreams{Out: &out}}).sayStands(q)
		if diff := cmp.Diff(test.want, out.String()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// Each refusal names the role that is missing, in the namespace alone.
func TestReplaceRefused(t *testing.T) {
	resource := schema.GroupResource{Group: "usher.sh", Resource: "replacementrequests"}
	o := &replaceOptions{namespace: "shop"}
	for name, why := range map[string]string{
		"by RBAC":      `User "anna" cannot create resource "replacementrequests" in API group "usher.sh" in the namespace "shop"`,
		"by admission": `admission webhook "replacement.usher.sh" denied the request: anna may not delete persistentvolumeclaims in namespace shop, and this ReplacementRequest has Usher do so`,
	} {
		const want = "kubectl create rolebinding edit-anna -n shop --clusterrole=edit --user=anna"
		if got := o.writeRefused("creating a ReplacementRequest", apierrors.NewForbidden(resource, "", errors.New(why))).Error(); !strings.Contains(got, want) {
			t.Errorf("%s: %s\nwant %s", name, got, want)
		}
	}
}
