package maintenance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/maintenance"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/all"
)

// site is a store with two nodes, and in some namespaces StatefulSets of three, whose pods have their volumes on the first.
type site struct {
	client.Client

	r *reconciler
}

func newSite(t *testing.T, faults interceptor.Funcs, objects ...client.Object) *site {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"n1", "n2"} {
		objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{corev1.LabelHostname: name}}})
	}
	store := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(faults).Build()
	roles, err := all.Roles()
	if err != nil {
		t.Fatal(err)
	}
	kind := func(s *v1alpha1.System) (system.Kind, bool) { return all.Kind(s) }
	o := Options{
		Now: func() time.Time { return noon }, Log: slog.New(slog.DiscardHandler), Replacements: &act.Replacements{Client: store},
		Policies: policycache.New(store, kind, roles),
	}
	return &site{store, &reconciler{Options: o, client: store, live: store, drains: newDrains(o), calls: newCalls()}}
}

// replaced has the first node's members replaced.
func (s *site) replaced(t *testing.T) error {
	t.Helper()
	return s.r.replaceMembers(t.Context(), maintenance.Replacement{
		Call: maintenance.Call{Maintenance: "uid-m", Node: "uid-n1", Step: v1alpha1.StepReplacingMembers}, Node: "n1", Requester: "person.usher.sh/anna",
	})
}

// requests are the members for which requests stand, in each namespace.
func (s *site) requests(t *testing.T) []string {
	t.Helper()
	var list v1alpha1.ReplacementRequestList
	if err := s.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	var found []string
	for i := range list.Items {
		q := &list.Items[i]
		if q.DeletionTimestamp != nil {
			continue
		}
		found = append(found, q.Namespace+"/"+q.Spec.Member.ID+" for "+q.Spec.Requester)
	}
	slices.Sort(found)
	return found
}

func deployed(namespace string, change ...func(*v1alpha1.EvictionPolicy, *appsv1.StatefulSet)) []client.Object {
	policy := &v1alpha1.EvictionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "db", UID: types.UID("policy-" + namespace)},
		Spec: v1alpha1.EvictionPolicySpec{
			System: v1alpha1.System{Kubernetes: &v1alpha1.Kubernetes{}},
			Members: []v1alpha1.MemberSelector{{
				Role: "replica", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
				Provider: &v1alpha1.Provider{StatefulSet: &v1alpha1.StatefulSetProvider{}},
			}},
		},
	}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "db"}, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(3))}}
	set.Spec.Template.Labels = map[string]string{"app": "db"}
	set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
	for _, c := range change {
		c(policy, set)
	}
	return []client.Object{policy, set}
}

// What tenants write is read in pages: each pod, set and request may be as large as the apiserver takes it.
func TestNamespacesAreReadInPages(t *testing.T) {
	whole := map[string]bool{}
	pages := interceptor.Funcs{List: func(ctx context.Context, under client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		asked := client.ListOptions{}
		for _, o := range options {
			o.ApplyToList(&asked)
		}
		if asked.Limit == 0 || asked.Limit > observe.AtOnce {
			whole[fmt.Sprintf("%T", list)] = true
		}
		return under.List(ctx, list, options...)
	}}
	s := newSite(t, interceptor.Funcs{}, append(deployed("shop"), volume("shop", "data-db-2", "n1")...)...)
	s.r.live = interceptor.NewClient(s.Client.(client.WithWatch), pages)
	if err := s.replaced(t); err != nil {
		t.Fatal(err)
	}
	if got := s.requests(t); len(got) != 1 {
		t.Errorf("%v", got)
	}
	if err := s.r.withdrawRequests(t.Context(), "uid-n1"); err != nil {
		t.Fatal(err)
	}
	for _, list := range []client.ObjectList{&corev1.PodList{}, &appsv1.StatefulSetList{}, &v1alpha1.ReplacementRequestList{}} {
		if whole[fmt.Sprintf("%T", list)] {
			t.Errorf("%T is asked for whole", list)
		}
	}
}

// volume is on a node, and bound to a claim of this name.
func volume(namespace, claim, node string, change ...func(*corev1.PersistentVolume, *corev1.PersistentVolumeClaim)) []client.Object {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: namespace + "-" + claim}}
	v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: namespace, Name: claim, UID: types.UID("claim-" + claim)}
	v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
	}}}}
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: claim, UID: types.UID("claim-" + claim)}}
	c.Spec.VolumeName = v.Name
	for _, f := range change {
		f(v, c)
	}
	return []client.Object{v, c}
}

func TestMembersWithDataOnANodeAreRequested(t *testing.T) {
	type policyChange = func(*v1alpha1.EvictionPolicy, *appsv1.StatefulSet)
	standing := &v1alpha1.ReplacementRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "by-hand"}, Spec: v1alpha1.ReplacementRequestSpec{
		Requester: "person.usher.sh/ben", Source: v1alpha1.ReplacementSource{Kind: v1alpha1.SourceEvictionPolicy, Name: "db"}, Member: v1alpha1.ReplacementMember{Role: "replica", ID: "db-2"},
	}}
	over := standing.DeepCopy()
	over.Status.Step = v1alpha1.ReplacementComplete
	const requested, byHand = "shop/db-2 for person.usher.sh/anna", "shop/db-2 for person.usher.sh/ben"
	for name, c := range map[string]struct {
		change  policyChange
		objects []client.Object
		want    []string
	}{
		"its volume is on the node":    {objects: volume("shop", "data-db-2", "n1"), want: []string{requested}},
		"it has a pod that finds none": {objects: append(volume("shop", "data-db-2", "n1"), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-2", Labels: map[string]string{"app": "db"}}}), want: []string{requested}},
		"an operator's pod uses it":    {objects: append(volume("shop", "db-data-x", "n1"), using("db-data-x", "db-x")), want: []string{"shop/db-x for person.usher.sh/anna"}},
		"another's pod uses it, too":   {objects: append(volume("shop", "data-db-2", "n1"), using("data-db-2", "backup", "job")), want: []string{requested}},
		"its pod is on the node":       {objects: append(volume("shop", "data-db-2", "n1"), on("n1", "db-2")), want: []string{requested}},
		"its pod is no member":         {objects: append(volume("shop", "data-db-2", "n1"), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-2"}})},
		"two volumes of one member": {change: func(_ *v1alpha1.EvictionPolicy, s *appsv1.StatefulSet) {
			s.Spec.VolumeClaimTemplates = append(s.Spec.VolumeClaimTemplates, corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "log"}})
		}, objects: append(volume("shop", "data-db-2", "n1"), volume("shop", "log-db-2", "n1")...), want: []string{requested}},
		"on another node":              {objects: volume("shop", "data-db-2", "n2")},
		"bound to another claim":       {objects: volume("shop", "data-db-2", "n1", func(_ *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim) { c.UID = "other" })},
		"its claim has another volume": {objects: volume("shop", "data-db-2", "n1", func(_ *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "other" })},
		"released":                     {objects: volume("shop", "data-db-2", "n1")[:1]},
		"scaled down":                  {objects: volume("shop", "data-db-3", "n1")},
		"no claim of the set":          {objects: volume("shop", "other-db-2", "n1")},
		"no ordinal":                   {objects: volume("shop", "data-db-02", "n1")},
		"the policy has no provider":   {change: func(p *v1alpha1.EvictionPolicy, _ *appsv1.StatefulSet) { p.Spec.Members[0].Provider = nil }, objects: volume("shop", "data-db-2", "n1")},
		"the policy is in mode Audit":  {change: func(p *v1alpha1.EvictionPolicy, _ *appsv1.StatefulSet) { p.Spec.Mode = v1alpha1.ModeAudit }, objects: volume("shop", "data-db-2", "n1")},
		"the role has no successor": {change: func(p *v1alpha1.EvictionPolicy, _ *appsv1.StatefulSet) {
			p.Spec.Roles = []v1alpha1.Role{{Name: "replica", System: "kubernetes", Replace: v1alpha1.Replace{Successor: v1alpha1.SuccessorNone}}}
		}, objects: volume("shop", "data-db-2", "n1")},
		"another request stands":          {objects: append(volume("shop", "data-db-2", "n1"), standing.DeepCopy()), want: []string{byHand}},
		"another request is over":         {objects: append(volume("shop", "data-db-2", "n1"), over), want: []string{requested, byHand}},
		"in a namespace without a policy": {objects: volume("other", "data-db-2", "n1")},
	} {
		t.Run(name, func(t *testing.T) {
			objects := c.objects
			if c.change != nil {
				objects = append(objects, deployed("shop", c.change)...)
			} else {
				objects = append(objects, deployed("shop")...)
			}
			s := newSite(t, interceptor.Funcs{}, objects...)
			for range 2 {
				if err := s.replaced(t); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.want, s.requests(t)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

// using is a pod without a StatefulSet that uses a claim, and is a member unless it is of another app.
func using(claim, pod string, app ...string) *corev1.Pod {
	p := on("", pod)
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
	if len(app) > 0 {
		p.Labels["app"] = app[0]
	}
	return p
}

func on(node, pod string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: pod, Labels: map[string]string{"app": "db"}}, Spec: corev1.PodSpec{NodeName: node}}
}

// While a node is drained those members are requested whose pods have left it, and none that runs there.
func TestMembersThatHaveLeftAreRequested(t *testing.T) {
	objects := slices.Concat(deployed("shop"), volume("shop", "data-db-0", "n1"), volume("shop", "data-db-1", "n1"), volume("shop", "data-db-2", "n1"))
	s := newSite(t, interceptor.Funcs{}, append(objects, on("n1", "db-0"), on("", "db-1"))...)
	wanted := maintenance.Replacement{
		Call: maintenance.Call{Maintenance: "uid-m", Node: "uid-n1", Step: v1alpha1.StepDraining, PodCount: 1}, Node: "n1", Requester: "person.usher.sh/anna", Gone: true,
	}
	if err := s.r.replaceMembers(t.Context(), wanted); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"shop/db-1 for person.usher.sh/anna", "shop/db-2 for person.usher.sh/anna"}, s.requests(t)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Requests for a node that no maintenance has any more are withdrawn, however it was given back; those for one that is gone stay.
func TestRequestsThatAreLeftOverAreWithdrawn(t *testing.T) {
	var objects []client.Object
	for _, node := range []string{"uid-free", "uid-recorded", "uid-listed", "uid-gone"} {
		objects = append(objects, &v1alpha1.ReplacementRequest{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: node, Labels: map[string]string{v1alpha1.MaintainedNodeLabel: node}},
			Spec:       v1alpha1.ReplacementRequestSpec{Requester: "anna", Member: v1alpha1.ReplacementMember{ID: node}},
		})
	}
	s := newSite(t, interceptor.Funcs{}, objects...)
	in := maintenance.Input{Maintenances: []*v1alpha1.NodeMaintenance{{Status: v1alpha1.NodeMaintenanceStatus{Nodes: []v1alpha1.MaintainedNode{{UID: "uid-listed"}}}}}}
	for _, uid := range []types.UID{"uid-free", "uid-recorded", "uid-listed"} {
		in.Nodes = append(in.Nodes, &maintenance.Node{Node: &snapshot.Node{UID: uid}})
	}
	in.Nodes[1].Drain = &snapshot.DrainRecord{Drainer: snapshot.Drainer{ID: snapshot.MaintenancePrefix + "1"}}
	if err := s.r.withdrawLeftOver(t.Context(), &in); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"shop/uid-gone for anna", "shop/uid-listed for anna", "shop/uid-recorded for anna"}, s.requests(t)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A request goes with its policy, names its node, and is made once whatever process makes it.
func TestARequestOfAMaintenance(t *testing.T) {
	s := newSite(t, interceptor.Funcs{}, append(deployed("shop"), volume("shop", "data-db-2", "n1")...)...)
	if err := s.replaced(t); err != nil {
		t.Fatal(err)
	}
	var list v1alpha1.ReplacementRequestList
	if err := s.List(t.Context(), &list); err != nil || len(list.Items) != 1 {
		t.Fatalf("%v, %d requests", err, len(list.Items))
	}
	q := &list.Items[0]
	if q.Labels[v1alpha1.MaintainedNodeLabel] != "uid-n1" || len(q.OwnerReferences) != 1 || q.OwnerReferences[0].UID != "policy-shop" || !strings.HasPrefix(q.Name, "db-") {
		t.Errorf("%+v", q.ObjectMeta)
	}
}

// A namespace that takes no request keeps none of another from being made.
func TestANamespaceThatTakesNoRequest(t *testing.T) {
	full := interceptor.Funcs{Create: func(ctx context.Context, store client.WithWatch, object client.Object, options ...client.CreateOption) error {
		if object.GetNamespace() == "full" {
			return errors.New("exceeded quota")
		}
		return store.Create(ctx, object, options...)
	}}
	objects := slices.Concat(deployed("full"), deployed("shop"), volume("full", "data-db-0", "n1"), volume("shop", "data-db-2", "n1"))
	s := newSite(t, full, objects...)
	err := s.replaced(t)
	if err == nil || !strings.Contains(err.Error(), "namespace full: creating a ReplacementRequest for replica db-0: exceeded quota") {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff([]string{"shop/db-2 for person.usher.sh/anna"}, s.requests(t)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What cannot be read is not taken for what is not there.
func TestUnreadMembersAreNotForgotten(t *testing.T) {
	for name, unread := range map[string]func(client.ObjectList) bool{
		"volumes":      func(l client.ObjectList) bool { _, is := l.(*corev1.PersistentVolumeList); return is },
		"StatefulSets": func(l client.ObjectList) bool { _, is := l.(*appsv1.StatefulSetList); return is },
		"requests":     func(l client.ObjectList) bool { _, is := l.(*v1alpha1.ReplacementRequestList); return is },
		"nodes":        func(l client.ObjectList) bool { _, is := l.(*corev1.NodeList); return is },
		"pods":         func(l client.ObjectList) bool { _, is := l.(*corev1.PodList); return is },
		"policies":     func(l client.ObjectList) bool { _, is := l.(*v1alpha1.EvictionPolicyList); return is },
	} {
		faults := interceptor.Funcs{List: func(ctx context.Context, store client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if unread(list) {
				return errors.New("no answer")
			}
			return store.List(ctx, list, options...)
		}}
		s := newSite(t, faults, append(deployed("shop"), volume("shop", "data-db-2", "n1")...)...)
		if err := s.replaced(t); err == nil || !strings.Contains(err.Error(), "no answer") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// uncordons is a writer that does something else.
type uncordons func()

func (u uncordons) Do(context.Context, drain.Action) answers.Answer {
	u()
	return answers.Answer{Code: answers.Accepted}
}

// A node that is given back keeps its members: what was requested is withdrawn, and nothing that others have requested.
func TestRequestsAreWithdrawnWhereTheNodeIsGivenBack(t *testing.T) {
	labelled := func(name, node string, step v1alpha1.ReplacementStep) *v1alpha1.ReplacementRequest {
		q := &v1alpha1.ReplacementRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Labels: map[string]string{v1alpha1.MaintainedNodeLabel: node}}}
		q.Spec.Member.ID, q.Spec.Requester, q.Status.Step = name, "anna", step
		return q
	}
	s := newSite(t, interceptor.Funcs{}, labelled("waits", "uid-n1", v1alpha1.ReplacementWaiting), labelled("complete", "uid-n1", v1alpha1.ReplacementComplete),
		labelled("elsewhere", "uid-n2", v1alpha1.ReplacementWaiting), labelled("by-hand", "", v1alpha1.ReplacementWaiting))
	var node corev1.Node
	if err := s.Get(t.Context(), client.ObjectKey{Name: "n1"}, &node); err != nil {
		t.Fatal(err)
	}
	record, err := (&snapshot.DrainRecord{Drainer: snapshot.Drainer{ID: snapshot.MaintenancePrefix + "n1"}, Cordoned: true, State: snapshot.Drained}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	node.Annotations, node.Spec.Unschedulable = map[string]string{snapshot.DrainAnnotation: record}, true
	if err := s.Update(t.Context(), &node); err != nil {
		t.Fatal(err)
	}
	s.r.drains.writer = uncordons(func() {
		if slices.Contains(s.requests(t), "shop/waits for anna") {
			t.Error("the node is uncordoned while it is requested that its member be replaced")
		}
	})
	if err := s.r.giveBack(t.Context(), "n1"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"shop/by-hand for anna", "shop/complete for anna", "shop/elsewhere for anna"}, s.requests(t)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
