package observe

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"usher.sh/usher/internal/snapshot"
)

var web = snapshot.Key{Namespace: "shop", Name: "web-0"}

// shop is a Deployment of that many pods with a budget, in a cluster where another namespace has as many.
func shop(pods int, edit func(*corev1.Pod)) []runtime.Object {
	var all []runtime.Object
	for _, namespace := range []string{"shop", "other"} {
		meta := func(name string) metav1.ObjectMeta {
			return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "-" + name), Labels: map[string]string{"app": "web"}}
		}
		owned := func(name, kind, owner string) metav1.ObjectMeta {
			m := meta(name)
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: owner, UID: types.UID(namespace + "-" + owner), Controller: new(true)}}
			return m
		}
		selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
		all = append(all,
			&appsv1.Deployment{ObjectMeta: meta("web"), Spec: appsv1.DeploymentSpec{Replicas: new(int32(pods)), Selector: selector}},
			&appsv1.ReplicaSet{ObjectMeta: owned("web-rs", "Deployment", "web"), Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(pods)), Selector: selector}},
			&policyv1.PodDisruptionBudget{ObjectMeta: meta("web"), Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector}},
		)
		for i := range pods {
			pod := &corev1.Pod{ObjectMeta: owned(fmt.Sprintf("web-%d", i), "ReplicaSet", "web-rs"), Spec: corev1.PodSpec{NodeName: fmt.Sprintf("node-%d", i)}}
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			if edit != nil && namespace == "shop" {
				edit(pod)
			}
			all = append(all, pod)
			if namespace == "shop" {
				all = append(all, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: pod.Spec.NodeName, UID: types.UID(pod.Spec.NodeName)}})
			}
		}
	}
	return all
}

// lookAt reads around one pod and returns what was asked: verb, resource and name.
func lookAt(t *testing.T, client *fake.Clientset) (*Look, []string) {
	t.Helper()
	look := NewLook(client, &Clock{})
	if err := look.Pod(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	pod := look.View().Cluster.PodNamed(web)
	if pod == nil {
		t.Fatal("the pod was not read")
	}
	if err := look.Around(t.Context(), web.Namespace, []*snapshot.Pod{pod}); err != nil {
		t.Fatal(err)
	}
	return look, requested(client)
}

// serving makes a client of an apiserver that goes by metadata.name, which the fake does not.
func serving(objects ...runtime.Object) *fake.Clientset {
	client := fake.NewClientset(objects...)
	client.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		listing, ok := action.(clienttesting.ListActionImpl)
		name, one := "", false
		if ok {
			name, one = listing.ListRestrictions.Fields.RequiresExactMatch(metav1.ObjectNameField)
		}
		if !one {
			return false, nil, nil
		}
		list, err := client.Tracker().List(action.GetResource(), listing.Kind, action.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		all, err := meta.ExtractList(list)
		if err != nil {
			return true, nil, err
		}
		all = slices.DeleteFunc(all, func(object runtime.Object) bool {
			named, err := meta.Accessor(object)
			return err != nil || named.GetName() != name
		})
		return true, list, meta.SetList(list, all)
	})
	return client
}

func requested(client *fake.Clientset) []string {
	var all []string
	for _, action := range client.Actions() {
		text := action.GetVerb() + " " + action.GetResource().Resource
		if list, ok := action.(clienttesting.ListActionImpl); ok {
			if name, one := list.ListRestrictions.Fields.RequiresExactMatch(metav1.ObjectNameField); one {
				text += " " + name
			}
		}
		if action.GetNamespace() == metav1.NamespaceAll && action.GetResource().Resource != "nodes" {
			text += " everywhere"
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}

// A pod of a Deployment under a budget costs seven requests, in whatever cluster.
func TestLookCostsTheSameInAnyCluster(t *testing.T) {
	want := []string{
		"list deployments web", "list horizontalpodautoscalers", "list nodes node-0", "list poddisruptionbudgets", "list pods", "list pods web-0",
		"list replicasets web-rs",
	}
	for _, pods := range []int{1, 50} {
		look, got := lookAt(t, serving(shop(pods, nil)...))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d pods:\n%s", pods, diff)
		}
		c := look.View().Cluster
		if n := len(c.PodsIn("shop")); n != pods {
			t.Errorf("%d of %d pods of the budget were read", n, pods)
		}
		if !c.Partial("nodes") || c.Node("node-0") == nil {
			t.Error("of nodes that of the pod was to be read")
		}
		if rs := c.WorkloadOf(c.PodNamed(web).OwnerKey()); rs == nil || c.WorkloadOf(rs.OwnerKey()) == nil {
			t.Error("its owners are not known")
		}
	}
}

// Of pods that are not ready the nodes are looked at, which may not answer: each where they are few, else all.
func TestLookAtUnreadyPods(t *testing.T) {
	for pods, want := range map[int][]string{
		4:  {"list nodes node-0", "list nodes node-1", "list nodes node-2", "list nodes node-3"},
		20: {"list nodes", "list nodes node-0"},
	} {
		_, got := lookAt(t, serving(shop(pods, func(pod *corev1.Pod) {
			if pod.Name != "web-0" {
				pod.Status.Conditions = nil
			}
		})...))
		nodes := slices.DeleteFunc(got, func(text string) bool { return !strings.HasPrefix(text, "list nodes") })
		if diff := cmp.Diff(want, nodes); diff != "" {
			t.Errorf("%d pods:\n%s", pods, diff)
		}
	}
}

func TestLookAtManyPods(t *testing.T) {
	client := serving(shop(20, nil)...)
	look := NewLook(client, &Clock{})
	if err := look.Owned(t.Context(), "shop", "deployment", "web"); err != nil {
		t.Fatal(err)
	}
	pods := look.View().Cluster.PodsIn("shop")
	if err := look.Around(t.Context(), "shop", pods); err != nil {
		t.Fatal(err)
	}
	want := []string{"list deployments web", "list horizontalpodautoscalers", "list nodes", "list poddisruptionbudgets", "list pods", "list replicasets web-rs"}
	if diff := cmp.Diff(want, requested(client)); diff != "" || len(pods) != 20 {
		t.Errorf("%d pods:\n%s", len(pods), diff)
	}
	if look.View().Cluster.Partial("nodes") {
		t.Error("all nodes were read")
	}
}

func TestLookAtNodesUntilTheyAreEnough(t *testing.T) {
	for _, enough := range []bool{false, true} {
		look, _ := lookAt(t, serving(shop(1, nil)...))
		if err := look.NodesUntil(t.Context(), func() bool { return enough }); err != nil {
			t.Fatal(err)
		}
		if look.View().Cluster.Partial("nodes") != enough {
			t.Errorf("enough: %v; all nodes are read: %v", enough, !enough)
		}
	}
}

func TestLookNear(t *testing.T) {
	client := serving(shop(3, nil)...)
	look := NewLook(client, &Clock{})
	if err := look.Near(t.Context(), snapshot.Key{Namespace: "shop", Name: "web-9"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"list pods", "list pods web-9 everywhere"}, requested(client)); diff != "" {
		t.Error(diff)
	}
}

func TestLookWithFewRights(t *testing.T) {
	t.Run("a node may not be read", func(t *testing.T) {
		client := serving(shop(1, nil)...)
		refuse(client, "nodes", forbidden("bob", "nodes"))
		look, _ := lookAt(t, client)
		if gap, ok := look.View().Cluster.Gap("nodes"); !ok || !gap.Final {
			t.Errorf("the gap: %+v", gap)
		}
	})
	for _, resource := range []string{"pods", "poddisruptionbudgets"} {
		t.Run(resource+" may not be read", func(t *testing.T) {
			client := serving(shop(1, nil)...)
			refuse(client, resource, forbidden("bob", resource))
			look := NewLook(client, &Clock{})
			err := look.Pods(t.Context(), "shop", labels.Everything())
			if err == nil {
				err = look.Around(t.Context(), "shop", nil)
			}
			if err == nil || !strings.Contains(err.Error(), "kubectl create rolebinding usher-why-bob -n shop --role=usher-why --user=bob") {
				t.Errorf("said: %v", err)
			}
		})
	}
}

func TestLookForTraces(t *testing.T) {
	surged := shop(1, nil)
	deployment, ok := surged[0].(*appsv1.Deployment)
	if !ok {
		t.Fatal("no Deployment")
	}
	deployment.Labels[snapshot.SurgeLabel] = "d1"
	lowered := shop(1, func(pod *corev1.Pod) { metav1.SetMetaDataLabel(&pod.ObjectMeta, snapshot.SurgeLabel, "d1") })
	cases := map[string]struct {
		objects []runtime.Object
		refused string
		want    bool
	}{
		"nothing":                              {shop(1, nil), "", false},
		"a surge":                              {surged, "", true},
		"a lowered cost":                       {lowered, "", true},
		"a lowered cost, and Deployments hide": {lowered, "deployments", true},
		"a surge that may not be read":         {surged, "deployments", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			client := serving(c.objects...)
			if c.refused != "" {
				refuse(client, c.refused, forbidden("bob", c.refused))
			}
			got, unread, err := NewLook(client, &Clock{}).Traces(t.Context(), nil)
			if err != nil || got != c.want || len(unread) > 0 != (c.refused != "") {
				t.Errorf("%v, unread %q, %v; want %v", got, unread, err, c.want)
			}
			want := []string{"list deployments everywhere", "list horizontalpodautoscalers everywhere", "list pods everywhere"}
			if diff := cmp.Diff(want, requested(client)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A server that cannot answer at a moment is asked again.
func TestLookAsksAgain(t *testing.T) {
	client := serving(shop(1, nil)...)
	failed := map[string]int{}
	client.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		resource := action.GetResource().Resource
		if failed[resource]++; failed[resource] == 1 {
			return true, nil, apierrors.NewInternalError(errors.New("etcdserver: leader changed"))
		}
		return false, nil, nil
	})
	look, _ := lookAt(t, client)
	if gaps := look.View().Cluster.Gaps(); len(gaps) > 0 {
		t.Errorf("gaps: %+v", gaps)
	}
	if failed["nodes"] != 2 {
		t.Errorf("nodes are listed %d times", failed["nodes"])
	}
}

// What the apiserver does not serve is a gap, and has no objects.
func TestLookWithoutAutoscalers(t *testing.T) {
	client := serving(shop(1, nil)...)
	refuse(client, "horizontalpodautoscalers", apierrors.NewGenericServerResponse(404, "list", schema.GroupResource{}, "", "404 page not found", 0, true))
	look, _ := lookAt(t, client)
	if gap, ok := look.View().Cluster.Gap("horizontalpodautoscalers"); !ok || !gap.Final || !gap.Unserved {
		t.Errorf("gap: %+v", gap)
	}
}
