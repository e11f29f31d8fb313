package act

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/drain/runner"
	"usher.sh/usher/internal/evictionrequest/client"
	"usher.sh/usher/internal/snapshot"
)

var _ runner.Writer = (*Writer)(nil)

// request is what the server received.
type request struct {
	Method string
	URL    string
	Type   string
	Body   string
}

// server answers every request with the status and notes what it received.
func server(t *testing.T, status metav1.Status) (kubernetes.Interface, *[]request) {
	t.Helper()
	return serverOf(t, func(string) metav1.Status { return status })
}

// serverOf answers a request by its path.
func serverOf(t *testing.T, answer func(path string) metav1.Status) (kubernetes.Interface, *[]request) {
	t.Helper()
	return serverBy(t, func(w http.ResponseWriter, r *http.Request) runtime.Object {
		status := answer(r.URL.Path)
		if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
			w.Header().Set("Retry-After", "1")
		}
		if status.Code != 0 {
			w.WriteHeader(int(status.Code))
		}
		return &status
	})
}

// serverWith answers every request with an object.
func serverWith(t *testing.T, object runtime.Object) (kubernetes.Interface, *[]request) {
	t.Helper()
	return serverBy(t, func(http.ResponseWriter, *http.Request) runtime.Object { return object })
}

// serverBy answers a request as answer says, which may write the head, and notes what it received.
func serverBy(t *testing.T, answer func(w http.ResponseWriter, r *http.Request) runtime.Object) (kubernetes.Interface, *[]request) {
	t.Helper()
	var received []request
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		received = append(received, request{r.Method, r.URL.String(), r.Header.Get("Content-Type"), strings.TrimSpace(string(body))})
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer(w, r)); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: s.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return client, &received
}

func ok() metav1.Status {
	return metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess}
}

var (
	noon       = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	owner      = snapshot.Drainer{ID: "d1", By: "me@here", Beat: noon}
	pod        = &snapshot.Pod{Namespace: "shop", Name: "web-1", UID: "pod-uid", ResourceVersion: "5"}
	node       = &snapshot.Node{Name: "a", UID: "node-uid", ResourceVersion: "6"}
	web        = &snapshot.Workload{Kind: "Deployment", Namespace: "shop", Name: "web", UID: "web-uid", ResourceVersion: "7"}
	autoscaler = &snapshot.Autoscaler{Namespace: "shop", Name: "web", UID: "hpa-uid", ResourceVersion: "8"}
	record     = &snapshot.DrainRecord{Drainer: owner, Since: noon, Cordoned: true, State: "draining"}
	surge      = &snapshot.SurgeRecord{Drainer: owner, Was: 1, To: 2, Since: noon, Step: noon}
)

const (
	recordText = `{\"id\":\"d1\",\"by\":\"me@here\",\"beat\":\"2026-11-21T12:00:00Z\",\"since\":\"2026-11-21T12:00:00Z\",\"cordoned\":true,\"state\":\"draining\"}`
	surgeText  = `{\"id\":\"d1\",\"by\":\"me@here\",\"beat\":\"2026-11-21T12:00:00Z\",\"was\":1,\"to\":2,\"since\":\"2026-11-21T12:00:00Z\",\"step\":\"2026-11-21T12:00:00Z\"}`
	mergePatch = "application/merge-patch+json"
	podPath    = "/api/v1/namespaces/shop/pods/web-1"
	nodePath   = "/api/v1/nodes/a?fieldManager=usher"
	leasePath  = "/apis/coordination.k8s.io/v1/namespaces/kube-public/leases/usher-drain-d1"
	leaseText  = `"holderIdentity":"me@here/7","leaseDurationSeconds":60,"acquireTime":"2026-11-21T11:00:00.000000Z","renewTime":"2026-11-21T12:00:00.000000Z"`
)

func lease(uid types.UID, version string) *snapshot.Lease {
	return &snapshot.Lease{ID: "d1", UID: uid, ResourceVersion: version, Holder: "me@here/7", Acquired: noon.Add(-time.Hour), Renewed: noon}
}

func withCost(cost, mark string) *snapshot.Pod {
	marked := *pod
	marked.DeletionCost, marked.CostMark = cost, mark
	return &marked
}

func evicted(more string) string {
	return `{"kind":"Eviction","apiVersion":"policy/v1","metadata":{"name":"web-1","namespace":"shop"},"deleteOptions":{"kind":"DeleteOptions","apiVersion":"v1",` + more + `}}`
}

func cost(annotations, label string) string {
	return `{"metadata":{"uid":"pod-uid","resourceVersion":"5","annotations":{` + annotations + `},"labels":{"usher.sh/surge":` + label + `}}}`
}

func TestWhatIsSent(t *testing.T) {
	grace, half, none := 90*time.Second, 500*time.Millisecond, time.Duration(0)
	cases := map[string]struct {
		action drain.Action
		dryRun bool
		want   request
	}{
		"evict":                     {drain.Action{Kind: drain.Evict, Pod: pod}, false, request{"POST", podPath + "/eviction", "application/json", evicted(`"preconditions":{"uid":"pod-uid"}`)}},
		"evict with a grace":        {drain.Action{Kind: drain.Evict, Pod: pod, Grace: &grace}, false, request{"POST", podPath + "/eviction", "application/json", evicted(`"gracePeriodSeconds":90,"preconditions":{"uid":"pod-uid"}`)}},
		"half a second is 1":        {drain.Action{Kind: drain.Evict, Pod: pod, Grace: &half}, false, request{"POST", podPath + "/eviction", "application/json", evicted(`"gracePeriodSeconds":1,"preconditions":{"uid":"pod-uid"}`)}},
		"evict, dry run":            {drain.Action{Kind: drain.Evict, Pod: pod}, true, request{"POST", podPath + "/eviction", "application/json", evicted(`"preconditions":{"uid":"pod-uid"},"dryRun":["All"]`)}},
		"delete at once":            {drain.Action{Kind: drain.Delete, Pod: pod, Grace: &none}, false, request{"DELETE", podPath, "application/json", `{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"preconditions":{"uid":"pod-uid"}}`}},
		"delete, dry run":           {drain.Action{Kind: drain.Delete, Pod: pod}, true, request{"DELETE", podPath, "application/json", `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"pod-uid"},"dryRun":["All"]}`}},
		"lower a cost":              {drain.Action{Kind: drain.LowerCost, Pod: pod, Drain: "d1"}, false, request{"PATCH", podPath + "?fieldManager=usher", mergePatch, cost(`"controller.kubernetes.io/pod-deletion-cost":"-2147483648","usher.sh/surge-cost":"d1"`, `"d1"`)}},
		"lower a set cost":          {drain.Action{Kind: drain.LowerCost, Pod: withCost("-7", ""), Drain: "d1"}, false, request{"PATCH", podPath + "?fieldManager=usher", mergePatch, cost(`"controller.kubernetes.io/pod-deletion-cost":"-2147483648","usher.sh/surge-cost":"d1=-7"`, `"d1"`)}},
		"lower it again":            {drain.Action{Kind: drain.LowerCost, Pod: withCost("-2147483648", "d0=-7"), Drain: "d1"}, false, request{"PATCH", podPath + "?fieldManager=usher", mergePatch, cost(`"controller.kubernetes.io/pod-deletion-cost":"-2147483648","usher.sh/surge-cost":"d1=-7"`, `"d1"`)}},
		"restore a cost":            {drain.Action{Kind: drain.RestoreCost, Pod: withCost("-2147483648", "d1")}, false, request{"PATCH", podPath + "?fieldManager=usher", mergePatch, cost(`"controller.kubernetes.io/pod-deletion-cost":null,"usher.sh/surge-cost":null`, `null`)}},
		"restore a set cost":        {drain.Action{Kind: drain.RestoreCost, Pod: withCost("-2147483648", "d1=-7")}, false, request{"PATCH", podPath + "?fieldManager=usher", mergePatch, cost(`"controller.kubernetes.io/pod-deletion-cost":"-7","usher.sh/surge-cost":null`, `null`)}},
		"… that was set since":      {drain.Action{Kind: drain.RestoreCost, Pod: withCost("100", "d1=-7")}, false, request{"PATCH", podPath + "?fieldManager=usher", mergePatch, cost(`"controller.kubernetes.io/pod-deletion-cost":"100","usher.sh/surge-cost":null`, `null`)}},
		"… that was taken since":    {drain.Action{Kind: drain.RestoreCost, Pod: withCost("", "d1=-7")}, false, request{"PATCH", podPath + "?fieldManager=usher", mergePatch, cost(`"controller.kubernetes.io/pod-deletion-cost":null,"usher.sh/surge-cost":null`, `null`)}},
		"lower one set since":       {drain.Action{Kind: drain.LowerCost, Pod: withCost("100", "d0=-7"), Drain: "d1"}, false, request{"PATCH", podPath + "?fieldManager=usher", mergePatch, cost(`"controller.kubernetes.io/pod-deletion-cost":"-2147483648","usher.sh/surge-cost":"d1=100"`, `"d1"`)}},
		"cordon":                    {drain.Action{Kind: drain.Cordon, Node: node, Record: record}, false, request{"PATCH", nodePath, mergePatch, `{"metadata":{"uid":"node-uid","resourceVersion":"6","annotations":{"usher.sh/drain":"` + recordText + `"},"labels":{"usher.sh/drain":"` + record.ID + `"}},"spec":{"unschedulable":true}}`}},
		"create a lease":            {drain.Action{Kind: drain.RenewLease, Lease: lease("", "")}, false, request{"POST", "/apis/coordination.k8s.io/v1/namespaces/kube-public/leases?fieldManager=usher", "application/json", `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"usher-drain-d1","namespace":"kube-public","labels":{"usher.sh/drain":"d1"}},"spec":{` + leaseText + `}}`}},
		"renew a lease":             {drain.Action{Kind: drain.RenewLease, Lease: lease("lease-uid", "9")}, false, request{"PATCH", leasePath + "?fieldManager=usher", mergePatch, `{"metadata":{"uid":"lease-uid","resourceVersion":"9"},"spec":{` + leaseText + `}}`}},
		"delete a lease":            {drain.Action{Kind: drain.DeleteLease, Lease: lease("lease-uid", "9")}, false, request{"DELETE", leasePath, "application/json", `{"kind":"DeleteOptions","apiVersion":"coordination.k8s.io/v1","preconditions":{"uid":"lease-uid","resourceVersion":"9"}}`}},
		"cordon, dry run":           {drain.Action{Kind: drain.Cordon, Node: node, Record: record}, true, request{"PATCH", "/api/v1/nodes/a?dryRun=All&fieldManager=usher", mergePatch, `{"metadata":{"uid":"node-uid","resourceVersion":"6","annotations":{"usher.sh/drain":"` + recordText + `"},"labels":{"usher.sh/drain":"` + record.ID + `"}},"spec":{"unschedulable":true}}`}},
		"mark":                      {drain.Action{Kind: drain.Mark, Node: node, Record: record}, false, request{"PATCH", nodePath, mergePatch, `{"metadata":{"uid":"node-uid","annotations":{"usher.sh/drain":"` + recordText + `"},"labels":{"usher.sh/drain":"` + record.ID + `"}}}`}},
		"mark, long after the last": {drain.Action{Kind: drain.Mark, Node: node, Record: record, Lapsed: true}, false, request{"PATCH", nodePath, mergePatch, `{"metadata":{"uid":"node-uid","resourceVersion":"6","annotations":{"usher.sh/drain":"` + recordText + `"},"labels":{"usher.sh/drain":"` + record.ID + `"}}}`}},
		"uncordon":                  {drain.Action{Kind: drain.Uncordon, Node: node}, false, request{"PATCH", nodePath, mergePatch, `{"metadata":{"uid":"node-uid","resourceVersion":"6","annotations":{"usher.sh/drain":null},"labels":{"usher.sh/drain":null}},"spec":{"unschedulable":false}}`}},
		"unmark":                    {drain.Action{Kind: drain.Unmark, Node: node}, false, request{"PATCH", nodePath, mergePatch, `{"metadata":{"uid":"node-uid","resourceVersion":"6","annotations":{"usher.sh/drain":null},"labels":{"usher.sh/drain":null}}}`}},
		"scale":                     {drain.Action{Kind: drain.Scale, Workload: web, Replicas: 2, Surge: surge}, false, request{"PATCH", "/apis/apps/v1/namespaces/shop/deployments/web?fieldManager=usher", mergePatch, `{"metadata":{"uid":"web-uid","resourceVersion":"7","annotations":{"usher.sh/surge":"` + surgeText + `"},"labels":{"usher.sh/surge":"` + surge.ID + `"}},"spec":{"replicas":2}}`}},
		"scale back":                {drain.Action{Kind: drain.Scale, Workload: web, Replicas: 0}, false, request{"PATCH", "/apis/apps/v1/namespaces/shop/deployments/web?fieldManager=usher", mergePatch, `{"metadata":{"uid":"web-uid","resourceVersion":"7","annotations":{"usher.sh/surge":null},"labels":{"usher.sh/surge":null}},"spec":{"replicas":0}}`}},
		"scale an autoscaler":       {drain.Action{Kind: drain.ScaleMin, Autoscaler: autoscaler, Replicas: 2, Surge: surge}, false, request{"PATCH", "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/web?fieldManager=usher", mergePatch, `{"metadata":{"uid":"hpa-uid","resourceVersion":"8","annotations":{"usher.sh/surge":"` + surgeText + `"},"labels":{"usher.sh/surge":"` + surge.ID + `"}},"spec":{"minReplicas":2}}`}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			client, received := server(t, ok())
			w := &Writer{Client: client, DryRun: c.dryRun}
			if got := w.Do(t.Context(), c.action); got.Code != answers.Accepted {
				t.Fatalf("got %+v", got)
			}
			if diff := cmp.Diff([]request{c.want}, *received); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// client-go would send each of these eleven times.
func TestNothingIsSentTwice(t *testing.T) {
	busy := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Reason: metav1.StatusReasonTooManyRequests, Code: http.StatusTooManyRequests,
		Details: &metav1.StatusDetails{RetryAfterSeconds: 1},
	}
	for _, a := range []drain.Action{
		{Kind: drain.Evict, Pod: pod},
		{Kind: drain.Delete, Pod: pod},
		{Kind: drain.Mark, Node: node, Record: record},
	} {
		client, received := server(t, busy)
		w := &Writer{Client: client}
		if got := w.Do(t.Context(), a); got.Code != answers.RefusedForNow || got.RetryAfter != time.Second {
			t.Errorf("%s: got %+v", a.Kind, got)
		}
		if len(*received) != 1 {
			t.Errorf("%s: sent %d times", a.Kind, len(*received))
		}
	}
}

// A Status that says Failure is one, also under an HTTP code that says otherwise: the
// eviction handler returns the failure of a pod under two budgets as its result.
func TestAFailureInTheBodyIsAFailure(t *testing.T) {
	said := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
	}
	client, _ := server(t, said)
	w := &Writer{Client: client}
	if got := w.Do(t.Context(), drain.Action{Kind: drain.Evict, Pod: pod}); got.Code != answers.SeveralBudgets {
		t.Errorf("got %+v", got)
	}
}

// A node is what the server has answered with, and none where it has answered with something else, or refused.
func TestTheNodeThatAnAnswerShows(t *testing.T) {
	failure := metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Message: "not that"}
	now := corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "node-uid", ResourceVersion: "7"}}
	for name, c := range map[string]struct {
		answer runtime.Object
		code   answers.Code
		want   *corev1.Node
	}{
		"the node":              {&now, answers.Accepted, &now},
		"that it is done":       {new(ok()), answers.Accepted, nil},
		"a failure in the body": {&failure, answers.Rejected, nil},
	} {
		t.Run(name, func(t *testing.T) {
			client, received := serverWith(t, c.answer)
			r := &Recorder{Writer: &Writer{Client: client}, Now: time.Now}
			answer, got := r.DoNode(t.Context(), drain.Action{Kind: drain.Uncordon, Node: node})
			r.Wait()
			if answer.Code != c.code {
				t.Errorf("got %+v", answer)
			}
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreTypes(metav1.TypeMeta{})); diff != "" {
				t.Error(diff)
			}
			if events := len(eventsIn(t, *received)); events == 1 != (c.code == answers.Accepted) {
				t.Errorf("%d events", events)
			}
		})
	}
}

func TestWithoutAPreconditionNothingIsSent(t *testing.T) {
	noUID, noPodVersion, noVersion, replicaSet, noWebVersion := *pod, *pod, *node, *web, *web
	noUID.UID, noPodVersion.ResourceVersion, noVersion.ResourceVersion, replicaSet.Kind, noWebVersion.ResourceVersion = "", "", "", "ReplicaSet", ""
	for _, a := range []drain.Action{
		{Kind: drain.Evict, Pod: &noUID},
		{Kind: drain.Delete, Pod: &noUID},
		{Kind: drain.LowerCost, Pod: &noUID, Drain: "d1"},
		{Kind: drain.LowerCost, Pod: &noPodVersion, Drain: "d1"},
		{Kind: drain.RestoreCost, Pod: &noPodVersion},
		{Kind: drain.Cordon, Node: &noVersion, Record: record},
		{Kind: drain.Cordon, Node: node},
		{Kind: drain.Mark, Node: &noVersion, Record: record, Lapsed: true},
		{Kind: drain.RenewLease, Lease: lease("lease-uid", "")},
		{Kind: drain.DeleteLease, Lease: lease("lease-uid", "")},
		{Kind: drain.DeleteLease, Lease: lease("", "9")},
		{Kind: drain.Uncordon, Node: &noVersion},
		{Kind: drain.Scale, Workload: &noWebVersion},
		{Kind: drain.Scale, Workload: &replicaSet},
		{Kind: "dance", Pod: pod},
	} {
		client, received := server(t, ok())
		w := &Writer{Client: client}
		if got := w.Do(t.Context(), a); got.Code != answers.Rejected || got.Message == "" {
			t.Errorf("%s: got %+v", a.Kind, got)
		}
		if len(*received) != 0 {
			t.Errorf("%s: sent %v", a.Kind, *received)
		}
	}
}

func TestApiserverUnreachable(t *testing.T) {
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://127.0.0.1:1", QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	w := &Writer{Client: client}
	if got := w.Do(context.Background(), drain.Action{Kind: drain.Evict, Pod: pod}); got.Code != answers.Unavailable || got.Message == "" {
		t.Errorf("got %+v", got)
	}
}

// unreachable fails each request on the way, once its context has ended or at once.
type unreachable struct{ late bool }

func (u unreachable) RoundTrip(r *http.Request) (*http.Response, error) {
	if u.late {
		<-r.Context().Done()
		return nil, context.Cause(r.Context())
	}
	return nil, errors.New("connection refused")
}

// An apiserver that does not say how requests are served may say so later: a drain asks again, and does not take it for a refusal for good.
func TestDiscoveryThatFailsOnTheWayIsTriedAgain(t *testing.T) {
	for name, way := range map[string]unreachable{"refused": {}, "late": {late: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &Writer{Evictions: client.New(&rest.Config{Host: "http://cluster.example.com", Transport: way})}
				for _, a := range []drain.Action{
					{Kind: drain.Ask, Drain: "d", Pod: &snapshot.Pod{Namespace: "db", Name: "db-0", UID: "u"}},
					{Kind: drain.Withdraw, Request: &snapshot.Request{Namespace: "db", Name: "r", UID: "u"}},
				} {
					if got := w.Do(t.Context(), a); got.Code != answers.Unavailable {
						t.Errorf("%s: %+v", a.Kind, got)
					}
				}
			})
		})
	}
}
