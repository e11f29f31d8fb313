package policy

import (
	"context"
	"fmt"
	"testing"
	"time"

	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/evictionrequest"
)

// requestOf asks for the eviction of a pod.
func requestOf(pod string, n int) *api.EvictionRequest {
	return evictionrequest.NewRequest(evictionrequest.Ref{Namespace: "prod", Name: pod, UID: types.UID(pod)}, evictionrequest.Requester(fmt.Sprint("user-", n)))
}

// requestsOfOthers are requests for pods that are no members, which are few, as the pods of a namespace cost as much as there are.
func requestsOfOthers(n int) []client.Object {
	var all []client.Object
	for i := range n {
		all = append(all, requestOf(fmt.Sprint("web-", i%10), i))
	}
	return all
}

// busyPolicies are policies in the states in which the most is read.
func busyPolicies() map[string]*v1alpha1.EvictionPolicy {
	asked := metav1.NewTime(time.Now().Add(-time.Minute).Truncate(time.Second))
	member := v1alpha1.MemberRef{Role: "node", ID: "db-0", PodName: "db-0", PodUID: "db-0"}
	held := func(p *v1alpha1.EvictionPolicy) { p.Finalizers = []string{v1alpha1.UndoFinalizer} }
	prepared := func(p *v1alpha1.EvictionPolicy) {
		held(p)
		p.Status.Preparations = []v1alpha1.PreparationStatus{{MemberRef: member, Name: "Empty", State: v1alpha1.PreparationBegun, StartTime: asked, LastRequestTime: asked}}
	}
	return map[string]*v1alpha1.EvictionPolicy{
		"nothing is under way": newPolicy("db", func(*v1alpha1.EvictionPolicy) {}),
		"it is held":           newPolicy("db", held),
		"a member is prepared": newPolicy("db", prepared),
		"a member leaves": newPolicy("db", func(p *v1alpha1.EvictionPolicy) {
			prepared(p)
			p.Status.Leaving = []v1alpha1.Leaving{{MemberRef: member, StartTime: asked, Requester: "jane"}}
		}),
		"it is being deleted": newPolicy("db", func(p *v1alpha1.EvictionPolicy) {
			prepared(p)
			p.DeletionTimestamp = &asked
		}),
		"it is in mode Audit": newPolicy("db", func(p *v1alpha1.EvictionPolicy) { p.Spec.Mode = v1alpha1.ModeAudit }),
	}
}

// TestCostDoesNotGrowWithRequests: of how many requests there are in the namespace it does not depend how many objects the cache hands out
// at an event, nor how often it is asked. Each of them would be paid at each event of each pod, policy and request.
func TestCostDoesNotGrowWithRequests(t *testing.T) {
	for name, policy := range busyPolicies() {
		t.Run(name, func(t *testing.T) {
			few, many := readsOf(t, policy, requestsOfOthers(10)), readsOf(t, policy, requestsOfOthers(1000))
			if few != many {
				t.Errorf("with 10 requests in the namespace %+v, with 1,000 %+v", few, many)
			}
		})
	}
}

// TestFirstWantedMemberIsEnough: of the members that are wanted gone beside those that the status names, one is looked for.
func TestFirstWantedMemberIsEnough(t *testing.T) {
	policy := busyPolicies()["a member is prepared"]
	few, many := []client.Object{requestOf("db-1", 0)}, []client.Object(nil)
	for i := range 20 {
		many = append(many, requestOf(fmt.Sprint("db-", i+1), i))
	}
	if few, many := readsOf(t, policy, few), readsOf(t, policy, many); few != many {
		t.Errorf("with one member that is wanted gone %+v, with 20 %+v", few, many)
	}
}

// reads are what a cache was asked for.
type reads struct{ lists, objects int }

// readsOf counts those of a look at a policy of many members.
func readsOf(t *testing.T, policy *v1alpha1.EvictionPolicy, requests []client.Object) reads {
	t.Helper()
	var n reads
	counting := interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			err := c.List(ctx, list, options...)
			n.lists, n.objects = n.lists+1, n.objects+meta.LenList(list)
			return err
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			n.objects++
			return c.Get(ctx, key, o, options...)
		},
	}
	objects := append(requests, policy.DeepCopy())
	for i := range 21 {
		objects = append(objects, newMember(fmt.Sprint("db-", i), "db"))
	}
	r := newRig(t, counting, objects...)
	n = reads{}
	if _, err := r.reconciler.reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(policy)}); err != nil {
		t.Fatal(err)
	}
	return n
}
