package governed

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"usher.sh/usher/internal/evictionrequest"
	requests "usher.sh/usher/internal/evictionrequest/client"
	"usher.sh/usher/lab/testlab"
)

// A tenant who may edit EvictionRequests makes none of a maintenance, ends none, and changes none: by them the time is counted for which pods may hold
// the node. Its own it ends, and whoever may patch nodes ends all.
func (h *house) maintenanceRequestsAreKept(t *testing.T) {
	namespace := h.lab.Namespace(t)
	h.lab.Nodes(t, 1)
	h.lab.Deployment(t, namespace, "web", 1)
	h.lab.MaxUnavailable(t, namespace, "web", "0")
	pod := h.lab.WaitReady(t, namespace, testlab.Labels("web"), 1)[0]
	config, _ := h.lab.As(t, []rbacv1.PolicyRule{
		{APIGroups: []string{"lifecycle.k8s.io", "lifecycle.usher.sh"}, Resources: []string{"evictionrequests"}, Verbs: []string{"create", "patch", "delete"}},
	})
	all, err := requests.New(h.lab.RESTConfig()).REST(t.Context())
	must(t, err)
	tenant, err := requests.New(config).REST(t.Context())
	must(t, err)
	ofMaintenance, own := h.requestFor(t, all, pod, "drain.usher.sh/maintenance-LAB"), h.requestFor(t, tenant, pod, "jane.example/x")
	denied(t, "a request in a maintenance's name", "made and ended by Usher alone", func(*testing.T) error {
		forged := evictionrequest.NewRequest(evictionrequest.Ref{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}, "drain.usher.sh/maintenance-OTHER")
		return tenant.Post().Namespace(namespace).Resource("evictionrequests").VersionedParams(&tried, metav1.ParameterCodec).Body(forged).Do(t.Context()).Error()
	})
	end := func(as rest.Interface, r *api.EvictionRequest) error {
		return as.Delete().Namespace(namespace).Resource("evictionrequests").Name(r.Name).Body(&metav1.DeleteOptions{DryRun: tried.DryRun}).Do(t.Context()).Error()
	}
	denied(t, "the end of a maintenance's request", "made and ended by Usher alone", func(*testing.T) error { return end(tenant, ofMaintenance) })
	denied(t, "a finalizer on it", "made and ended by Usher alone", func(*testing.T) error {
		return tenant.Patch(types.MergePatchType).Namespace(namespace).Resource("evictionrequests").Name(ofMaintenance.Name).
			VersionedParams(&tried, metav1.ParameterCodec).Body([]byte(`{"metadata":{"finalizers":["jane.example/x"]}}`)).Do(t.Context()).Error()
	})
	must(t, end(tenant, own))
	must(t, end(all, ofMaintenance))
}

func (h *house) requestFor(t *testing.T, as rest.Interface, pod *corev1.Pod, requester string) *api.EvictionRequest {
	t.Helper()
	wanted := evictionrequest.NewRequest(evictionrequest.Ref{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}, requester)
	must(t, as.Post().Namespace(pod.Namespace).Resource("evictionrequests").Body(wanted).Do(t.Context()).Error())
	return wanted
}
