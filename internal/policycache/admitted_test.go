package policycache

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/snapshot"
)

// TestAdmissionRequest: a taint holds the request of the controller that evicts for taints, and no other.
func TestAdmissionRequest(t *testing.T) {
	asked := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	request := func(user string, annotations map[string]string) *api.EvictionRequest {
		r := evictionrequest.NewRequest(evictionrequest.Ref{Namespace: "db", Name: "db-0", UID: "u"}, evictionrequest.Requester(user))
		r.Annotations = annotations
		return r
	}
	admitted := map[string]string{evictionrequest.LastRequestTimeAnnotation: asked.Format(time.RFC3339)}
	const tainter = "system:serviceaccount:kube-system:taint-eviction-controller"
	tainted := &snapshot.Node{Taints: []corev1.Taint{{Key: "fire", Effect: corev1.TaintEffectNoExecute}}}
	cordoned := &snapshot.Node{Taints: []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}}
	for name, test := range map[string]struct {
		request *api.EvictionRequest
		node    *snapshot.Node
		held    bool
		owner   bool
		none    bool
	}{
		"by hand":                {request: request("jane", nil), none: true},
		"no node known":          {request: request(tainter, admitted)},
		"no such taint":          {request: request(tainter, admitted), node: cordoned},
		"for a taint":            {request: request(tainter, admitted), node: tainted, held: true},
		"a caller, and a taint":  {request: request("jane", admitted), node: tainted},
		"without accounts":       {request: request("system:kube-controller-manager", admitted), node: tainted, held: true, owner: true},
		"a StatefulSet":          {request: request("system:serviceaccount:kube-system:statefulset-controller", admitted), owner: true},
		"a name that looks like": {request: request("taint-eviction-controller", admitted), node: tainted},
	} {
		got, ok := AdmissionRequest(test.request, test.node)
		want := eviction.AdmissionRequest{Pod: snapshot.Key{Namespace: "db", Name: "db-0"}, UID: "u", Requester: test.request.Spec.Requester, Asked: asked, Held: test.held, ByOwner: test.owner}
		if test.none {
			want = eviction.AdmissionRequest{}
		}
		if diff := cmp.Diff(want, got); diff != "" || ok == test.none {
			t.Errorf("%s: %t %s", name, ok, diff)
		}
	}
}
