package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/observe"
)

// kvSet is a MemberSet with one member, which has no pod.
func kvSet() *v1alpha1.MemberSet {
	set := &v1alpha1.MemberSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "MemberSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "kv", UID: "set"},
	}
	set.Spec.Groups = []v1alpha1.MemberGroup{{Name: "server", Role: "etcd-member"}}
	set.Status.Formed = &v1alpha1.MemberSetFormed{}
	set.Status.Members = []v1alpha1.SetMember{{ID: "kv-server-1", Group: "server", State: v1alpha1.MemberWhole}}
	return set
}

func waitsFor(blockers ...v1alpha1.ReplacementBlocker) func(*v1alpha1.MemberSet) {
	return func(set *v1alpha1.MemberSet) { set.Status.Formed, set.Status.Blockers = nil, blockers }
}

// A member of a MemberSet is known by its set, whether it has a pod or not, and what the set does not have is not asked for.
func TestReplaceOfAMemberOfASet(t *testing.T) {
	unscheduled := v1alpha1.ReplacementBlocker{Reason: "PodUnscheduled", Message: "pod kv-server-1 is on no node", Remedy: "make room for it"}
	claim := []memberClaim{{v1alpha1.ReplacementMember{Role: "etcd-member", ID: "kv-server-1"}, "kv", true}}
	for name, test := range map[string]struct {
		o    replaceOptions
		set  func(*v1alpha1.MemberSet)
		want []memberClaim
		says string // the error; "": there is none
	}{
		"by its id":               {o: replaceOptions{member: "kv-server-1"}, want: claim},
		"by its id and its set":   {o: replaceOptions{member: "kv-server-1", policy: "kv", role: "etcd-member"}, want: claim},
		"of another role":         {o: replaceOptions{member: "kv-server-1", policy: "kv", role: "x"}, says: "member kv-server-1 of MemberSet kv is not of role x: leave --role out"},
		"of another set":          {o: replaceOptions{member: "kv-server-1", policy: "other"}},
		"no set is named":         {o: replaceOptions{member: "kv-server-9"}},
		"one that there is not":   {o: replaceOptions{member: "kv-server-9", policy: "kv"}, says: `MemberSet kv has no member "kv-server-9", so that there is nothing to replace; it has kv-server-1`},
		"it has not formed":       {o: replaceOptions{member: "kv-server-1"}, set: waitsFor(unscheduled), says: "MemberSet kv has not formed its system yet, and kv-server-1 is not replaced before; it waits: PodUnscheduled: pod kv-server-1 is on no node (make room for it); all that it waits for: kubectl describe memberset kv -n shop"},
		"nor has the set named":   {o: replaceOptions{member: "kv-server-9", policy: "kv"}, set: waitsFor(unscheduled), says: "MemberSet kv has not formed its system yet, and no member is replaced before; it waits: PodUnscheduled: "},
		"and does not say so yet": {o: replaceOptions{member: "kv-server-1"}, set: waitsFor(), says: "see whether usher's manager runs"},
	} {
		t.Run(name, func(t *testing.T) {
			set := kvSet()
			if test.set != nil {
				test.set(set)
			}
			object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(set)
			if err != nil {
				t.Fatal(err)
			}
			kinds := map[schema.GroupVersionResource]string{observe.MemberSetResource: "MemberSetList"}
			objects := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, &unstructured.Unstructured{Object: object})
			test.o.namespace = "shop"
			got, err := test.o.ofSets(test.o.sets(t.Context(), objects))
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(memberClaim{})); diff != "" {
				t.Error(diff)
			}
			if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("it says %v, want %q", err, test.says)
			}
		})
	}
}
