package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/observe"
)

var (
	othersUnready = v1alpha1.ReplacementBlocker{Rule: "others-ready", Reason: "OtherReplicaNotReady", Message: "only db-0 is ready", Remedy: "bring them back", WaivedBy: []string{"others-ready"}}
	notProvenOff  = v1alpha1.ReplacementBlocker{Reason: "NodeNotProvenOff", Message: "node a does not report", Remedy: "usher fence a --confirm"}
	noAnswer      = v1alpha1.ReplacementBlocker{Reason: "NoEvidence", Message: "refused", WaivedBy: []string{"serves", "copies"}}
	itRuns        = v1alpha1.ReplacementBlocker{Reason: "PredecessorRuns", Message: "pod db-2 is on node a, which reports", Remedy: "evict it"}
)

// waitingFor is a request of db-2 that the manager has looked at.
func waitingFor(blockers ...v1alpha1.ReplacementBlocker) *v1alpha1.ReplacementRequest {
	q := &v1alpha1.ReplacementRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ReplacementRequest"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-2-x", UID: "q", ResourceVersion: "7", Generation: 1},
	}
	q.Spec.Source, q.Spec.Member = v1alpha1.ReplacementSource{Kind: v1alpha1.SourceEvictionPolicy, Name: "db"}, v1alpha1.ReplacementMember{Role: "replica", ID: "db-2"}
	q.Status.Step, q.Status.ObservedGeneration, q.Status.Blockers = v1alpha1.ReplacementWaiting, 1, blockers
	return q
}

func TestWaivable(t *testing.T) {
	w := waivableOf(waitingFor(notProvenOff, othersUnready, noAnswer))
	if diff := cmp.Diff([]string{"copies", "others-ready", "serves"}, w.rules); diff != "" {
		t.Error(diff)
	}
	want := `To be given up for member db-2 of role replica, policy db:
  rule others-ready: OtherReplicaNotReady: only db-0 is ready
  rules serves, copies, of which it is not known whether they pass: NoEvidence: refused
What only this member has is then lost to its system, and cannot be had back from it.
Not given up, and waited for all the same:
  NodeNotProvenOff: node a does not report (usher fence a --confirm)
Its volumes stay as Released PersistentVolumes (volumeClaims: Retain); status.predecessor.claims of the request names them.`
	if diff := cmp.Diff(want, strings.Join(w.lines(waitingFor(), true), "\n")); diff != "" {
		t.Error(diff)
	}
	if said := strings.Join(w.lines(waitingFor(), false), "\n"); !strings.Contains(said, "the disk is destroyed") {
		t.Error(said)
	}
}

func TestVolumesKept(t *testing.T) {
	with := func(keep v1alpha1.VolumeClaimMode) v1alpha1.EvictionPolicy {
		p := replicas("db", "db", "")
		p.Spec.Members[0].Provider = &v1alpha1.Provider{StatefulSet: &v1alpha1.StatefulSetProvider{VolumeClaims: keep}}
		return p
	}
	two := with(v1alpha1.VolumeClaimsRetain)
	two.Spec.Members = append(two.Spec.Members, with(v1alpha1.VolumeClaimsDelete).Spec.Members...)
	other := with(v1alpha1.VolumeClaimsDelete)
	other.Name = "cache"
	for name, test := range map[string]struct {
		policies []v1alpha1.EvictionPolicy
		want     bool
	}{
		"by default":        {[]v1alpha1.EvictionPolicy{replicas("db", "db", "")}, true},
		"kept":              {[]v1alpha1.EvictionPolicy{with(v1alpha1.VolumeClaimsRetain), other}, true},
		"deleted":           {[]v1alpha1.EvictionPolicy{with(v1alpha1.VolumeClaimsDelete)}, false},
		"of one of entries": {[]v1alpha1.EvictionPolicy{two}, false},
	} {
		if got := volumesKept(test.policies, waitingFor()); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestAnswersYes(t *testing.T) {
	for typed, want := range map[string]bool{"yes\n": true, " yes \n": true, "y\n": false, "YES\n": false, "\n": false, "": false, "yes": false, "no\nyes\n": false} {
		if got, err := answersYes(t.Context(), strings.NewReader(typed)); got != want || err != nil {
			t.Errorf("%q: %t, %v", typed, got, err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	in, out := io.Pipe()
	t.Cleanup(func() { _ = out.Close() })
	stop()
	if yes, err := answersYes(ctx, in); yes || err == nil {
		t.Errorf("interrupted: %t, %v", yes, err)
	}
}

// abandons tries to give data up where the API has a request, and returns what was printed, the patches that were sent and the exit code.
func abandons(t *testing.T, q *v1alpha1.ReplacementRequest, change func(*abandoner, *fake.FakeDynamicClient)) (said string, patches []string, code int) {
	t.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(q)
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	objects := fake.NewSimpleDynamicClientWithCustomListKinds(scheme, map[schema.GroupVersionResource]string{observe.ReplacementResource: "ReplacementRequestList"},
		&unstructured.Unstructured{Object: object})
	kube := kubefake.NewClientset()
	kube.PrependReactor("create", "selfsubjectreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &authenticationv1.SelfSubjectReview{Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: authenticationv1.UserInfo{Username: "anna"}}}, nil
	})
	var out bytes.Buffer
	o := &replaceOptions{IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out}, abandon: true, confirm: true, dryRun: dryRunNone, namespace: "shop", member: "db-2"}
	a := &abandoner{replaceOptions: o, conn: &connection{client: kube, clock: &observe.Clock{}}, objects: objects, last: q}
	if change != nil {
		change(a, objects)
	}
	for again := true; again && err == nil; {
		again, err = a.try(t.Context())
	}
	for _, action := range objects.Actions() {
		if patch, is := action.(clienttesting.PatchAction); is {
			patches = append(patches, string(patch.GetPatch()))
		}
	}
	var errOut strings.Builder
	code = settle(err, &errOut)
	return out.String() + errOut.String(), patches, code
}

// conflicts has the first patch refused since the request has changed.
func conflicts(objects *fake.FakeDynamicClient, meanwhile func()) {
	refused := false
	objects.PrependReactor("patch", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		if refused {
			return false, nil, nil
		}
		refused = true
		meanwhile()
		return true, nil, apierrors.NewConflict(observe.ReplacementResource.GroupResource(), "db-2-x", io.EOF)
	})
}

func TestAbandonData(t *testing.T) {
	given := waitingFor(notProvenOff)
	given.Spec.Abandonment = &v1alpha1.ReplacementAbandonment{Requester: "bert", Rules: []string{"others-ready"}}
	less := waitingFor(othersUnready, v1alpha1.ReplacementBlocker{Rule: "copies", Reason: "X", WaivedBy: []string{"copies"}})
	less.Spec.Abandonment = given.Spec.Abandonment
	ended, deleted := waitingFor(othersUnready), waitingFor(othersUnready)
	ended.Status.Step, deleted.DeletionTimestamp = v1alpha1.ReplacementComplete, &metav1.Time{}
	deleted.DeletionTimestamp.Time = metav1.Now().Time
	set := func(objects *fake.FakeDynamicClient, q *v1alpha1.ReplacementRequest) {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(q)
		if err != nil {
			t.Error(err)
		}
		if err := objects.Tracker().Update(observe.ReplacementResource, &unstructured.Unstructured{Object: object}, "shop"); err != nil {
			t.Error(err)
		}
	}
	for name, test := range map[string]struct {
		q       *v1alpha1.ReplacementRequest
		change  func(*abandoner, *fake.FakeDynamicClient)
		code    int
		patches int
		said    []string
	}{
		"it is given up": {q: waitingFor(othersUnready, notProvenOff), patches: 1, said: []string{"rule others-ready: OtherReplicaNotReady", "NodeNotProvenOff", "anna has given up rule others-ready of member db-2"}},
		"no terminal": {q: waitingFor(othersUnready), change: func(a *abandoner, _ *fake.FakeDynamicClient) { a.confirm = false }, code: exitBlocked, said: []string{
			"only db-0 is ready", "nothing was given up: there is no terminal to ask on", "usher replace db-2 -n shop --policy db --role replica --abandon-data --confirm", "stands",
		}},
		"no rule holds it":      {q: waitingFor(notProvenOff), said: []string{"nothing needs to be given up"}},
		"it is over":            {q: ended, said: []string{"is over (Complete)"}},
		"it is given up before": {q: given, said: []string{"bert has given up rule others-ready already"}},
		"and more holds it":     {q: less, said: []string{"bert has given up rule others-ready already, and of what holds it now rules copies, others-ready was not given up"}},
		"it is being deleted":   {q: deleted, code: exitBlocked, said: []string{"the request is being deleted"}},
		"it runs":               {q: waitingFor(othersUnready, itRuns), code: exitBlocked, said: []string{"nothing was given up: the member is not lost: pod db-2 is on node a"}},
		"it was restated meanwhile": {q: waitingFor(othersUnready), patches: 2, said: []string{"anna has given up"}, change: func(_ *abandoner, objects *fake.FakeDynamicClient) {
			conflicts(objects, func() {})
		}},
		"more holds it meanwhile": {q: waitingFor(othersUnready), patches: 1, code: exitBlocked, said: []string{"what is to be given up has changed meanwhile"}, change: func(_ *abandoner, objects *fake.FakeDynamicClient) {
			conflicts(objects, func() {
				set(objects, waitingFor(othersUnready, v1alpha1.ReplacementBlocker{Rule: "copies", Reason: "X", WaivedBy: []string{"copies"}}))
			})
		}},
		"client dry run": {q: waitingFor(othersUnready), said: []string{"only db-0 is ready", "nothing was given up (client dry run)"}, change: func(a *abandoner, _ *fake.FakeDynamicClient) {
			a.confirm, a.dryRun = false, dryRunClient
		}},
		"server dry run": {q: waitingFor(othersUnready), patches: 1, said: []string{"anna would give up rule others-ready of member db-2 (server dry run)"}, change: func(a *abandoner, _ *fake.FakeDynamicClient) {
			a.confirm, a.dryRun = false, dryRunServer
		}},
		"it may not": {q: waitingFor(othersUnready), patches: 1, code: exitUsage, said: []string{"kubectl create rolebinding edit-anna -n shop --clusterrole=edit --user=anna"}, change: func(_ *abandoner, objects *fake.FakeDynamicClient) {
			objects.PrependReactor("patch", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewForbidden(observe.ReplacementResource.GroupResource(), "db-2-x", errNoRight)
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			said, patches, code := abandons(t, test.q, test.change)
			if code != test.code || len(patches) != test.patches {
				t.Errorf("exit code %d and %d patches, want %d and %d:\n%s", code, len(patches), test.code, test.patches, said)
			}
			for _, words := range test.said {
				if !strings.Contains(said, words) {
					t.Errorf("it does not say %q:\n%s", words, said)
				}
			}
			for _, patch := range patches {
				if !strings.Contains(patch, `"uid":"q"`) || !strings.Contains(patch, `"resourceVersion":"7"`) || !strings.Contains(patch, `"requester":"anna"`) || !strings.Contains(patch, `"rules":["others-ready"]`) {
					t.Errorf("%s", patch)
				}
			}
		})
	}
}

var errNoRight = errors.New(`"replacementrequests.usher.sh" is forbidden: User "anna" cannot patch resource "replacementrequests" in API group "usher.sh" in the namespace "shop"`)

// A system that has not answered may answer in a moment, and what was said of an earlier spec is not what holds it now.
func TestJudged(t *testing.T) {
	earlier := waitingFor(othersUnready)
	earlier.Generation = 2
	for name, test := range map[string]struct {
		q    *v1alpha1.ReplacementRequest
		want bool
	}{
		"a rule":        {waitingFor(othersUnready), true},
		"nothing":       {waitingFor(), true},
		"no answer":     {waitingFor(othersUnready, noAnswer), false},
		"not known yet": {waitingFor(v1alpha1.ReplacementBlocker{Reason: eviction.MemberUnknown, Message: "the system does not know a member"}), false},
		"of before":     {earlier, false},
		"not looked at": {&v1alpha1.ReplacementRequest{}, false},
	} {
		if got := judged(test.q); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
