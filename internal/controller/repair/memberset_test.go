package repair

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/memberset"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/replacement"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/all"
)

// Repair passes over the members for which a zone is under maintenance, and over no others of that zone.
func TestNote(t *testing.T) {
	for name, test := range map[string]struct {
		maintenance *v1alpha1.ZoneMaintenance
		want        []string
	}{
		"none is": {nil, []string{"", ""}},
		"one is waited for": {
			&v1alpha1.ZoneMaintenance{Zone: "z1", Members: []v1alpha1.MaintainedMember{{ID: "db-2", PodUID: "u"}}}, []string{"", "z1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			members := []replacement.Seen{{MemberRef: v1alpha1.MemberRef{ID: "db-1"}}, {MemberRef: v1alpha1.MemberRef{ID: "db-2"}}}
			note(test.maintenance, members)
			if diff := cmp.Diff(test.want, []string{members[0].Maintained, members[1].Maintained}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// theSet is the MemberSet, and the policy that it has.
var theSet = client.ObjectKey{Namespace: "shop", Name: "db"}

// ofSet is a MemberSet of FoundationDB with three members, db-storage-1 to -3, whose repair is Automatic with the source's numbers: what is there of them, and what
// their system says.
type ofSet struct {
	t      *testing.T
	store  client.Client
	r      *reconciler
	now    time.Time
	system says
}

// says is a system of which only Observe is asked.
type says struct {
	system.System

	members map[string]expression.Facts
	facts   expression.Facts // about the system
}

func (s says) Observe(context.Context, []system.Member) (*eviction.Evidence, error) {
	found := &eviction.Evidence{System: maps.Clone(s.facts), Members: map[string]expression.Facts{}}
	for id, facts := range s.members {
		found.Members[id] = maps.Clone(facts)
	}
	return found, nil
}

func (says) Close() {}

// working are the facts of a member that does its work.
func working() expression.Facts {
	return expression.Facts{"otherInstance": "", "reports": true, "excluded": false, "exclusions": []string{}, "empty": false}
}

// newOfSet has all that the members need, and changes of that.
func newOfSet(t *testing.T, changes ...func(*ofSet)) *ofSet {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	f := &ofSet{t: t, now: noon, system: says{members: map[string]expression.Facts{}, facts: expression.Facts{}}}
	set := &v1alpha1.MemberSet{ObjectMeta: metav1.ObjectMeta{Namespace: theSet.Namespace, Name: theSet.Name, UID: "set"}}
	set.Spec.System.FoundationDB = &v1alpha1.FoundationDB{ClusterFile: v1alpha1.ClusterFile{ConfigMap: &v1alpha1.ConfigMapKey{Name: "db", Key: "cluster-file"}}}
	set.Spec.Evidence.Timeout = metav1.Duration{Duration: time.Minute}
	set.Spec.Repair = &v1alpha1.Repair{Mode: v1alpha1.RepairAutomatic}
	set.Spec.Groups = []v1alpha1.MemberGroup{{Name: "storage", Role: "foundationdb-storage", Replicas: new(int32(3))}}
	objects := []client.Object{set}
	for n := range 3 {
		id, node := "db-storage-"+strconv.Itoa(n+1), "n"+strconv.Itoa(n+1)
		set.Status.Members = append(set.Status.Members, v1alpha1.SetMember{
			ID: id, Group: "storage", State: v1alpha1.MemberWhole, Node: node, Shape: v1alpha1.MemberShape{AddressFrom: v1alpha1.AddressFromService, Claims: []string{"data"}},
		})
		f.system.members[id] = working()
		objects = append(objects, ready(node), podOf(set, id, node),
			&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: theSet.Namespace, Name: "data-" + id, Labels: labelsOf(set, id)}},
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: theSet.Namespace, Name: id, Labels: labelsOf(set, id)}})
	}
	policy := memberset.PolicyOf(set, f.kind().Set)
	policy.UID = "policy"
	f.store = fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, policy)...).
		WithStatusSubresource(&v1alpha1.MemberSet{}, &v1alpha1.EvictionPolicy{}, &v1alpha1.ReplacementRequest{}).Build()
	f.begin(f.store)
	for _, change := range changes {
		change(f)
	}
	return f
}

// begin is a manager that has just begun, and that reads past its cache by live.
func (f *ofSet) begin(live client.Reader) {
	f.t.Helper()
	roles, err := all.Roles()
	if err != nil {
		f.t.Fatal(err)
	}
	now := func() time.Time { return f.now }
	kind := func(*v1alpha1.System) (system.Kind, bool) { return f.kind(), true }
	policies := policycache.New(f.store, kind, roles)
	observer := policycache.NewObserver(policycache.ObserverConfig{Kind: kind, Now: now, Log: slog.New(slog.DiscardHandler)})
	f.r = &reconciler{
		Options: Options{
			Act: &act.Replacements{Client: f.store}, Gatherer: &policycache.Gatherer{Policies: policies, Observer: observer, Live: live, Now: now}, Now: now,
		},
		client: f.store, live: live, looked: map[client.ObjectKey]time.Time{},
	}
}

// kind is FoundationDB, with what the fixture says in the place of a database.
func (f *ofSet) kind() system.Kind {
	kind, _ := all.Kind(&v1alpha1.System{FoundationDB: &v1alpha1.FoundationDB{}})
	kind.References = nil
	kind.Open = func(*v1alpha1.System, system.Access) (system.System, error) { return f.system, nil }
	return kind
}

func labelsOf(set *v1alpha1.MemberSet, id string) map[string]string {
	return map[string]string{v1alpha1.MemberSetLabel: set.Name, v1alpha1.MemberGroupLabel: "storage", v1alpha1.MemberIDLabel: id}
}

func ready(name string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return node
}

func podOf(set *v1alpha1.MemberSet, id, node string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: id, UID: types.UID(id), Labels: labelsOf(set, id)}}
	pod.Spec.NodeName, pod.Status.Phase = node, corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return pod
}

// must fails the test where something could not be done.
func (f *ofSet) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// change changes an object, or what it says of itself.
func change[T client.Object](f *ofSet, name string, object T, how func(T)) {
	f.t.Helper()
	f.must(f.store.Get(f.t.Context(), client.ObjectKey{Namespace: theSet.Namespace, Name: name}, object))
	how(object)
	status, _ := object.DeepCopyObject().(client.Object)
	f.must(f.store.Update(f.t.Context(), object))
	status.SetResourceVersion(object.GetResourceVersion())
	f.must(f.store.Status().Update(f.t.Context(), status))
}

func ofTheSet(how func(*v1alpha1.MemberSet)) func(*ofSet) {
	return func(f *ofSet) { change(f, theSet.Name, &v1alpha1.MemberSet{}, how) }
}

func without(object client.Object, name string) func(*ofSet) {
	return func(f *ofSet) {
		object.SetNamespace(theSet.Namespace)
		object.SetName(name)
		f.must(f.store.Delete(f.t.Context(), object))
	}
}

// unready has the pod of a member not be Ready.
func unready(id string) func(*ofSet) {
	return func(f *ofSet) {
		change(f, id, &corev1.Pod{}, func(pod *corev1.Pod) { pod.Status.Conditions[0].Status = corev1.ConditionFalse })
	}
}

// at looks at a time after noon, and returns the members for which requests of repair are there by then.
func (f *ofSet) at(after time.Duration) (requested []string) {
	f.t.Helper()
	f.now = noon.Add(after)
	policy := &v1alpha1.EvictionPolicy{}
	f.must(f.store.Get(f.t.Context(), theSet, policy))
	if evidence := f.r.Gatherer.Observer.Evidence(f.t.Context(), f.r.Gatherer.Policies.Source(policy), 0, 0); evidence.Error != "" {
		f.t.Fatal(evidence.Error)
	}
	_, err := f.r.reconcile(f.t.Context(), reconcile.Request{NamespacedName: theSet})
	f.must(err)
	var requests v1alpha1.ReplacementRequestList
	f.must(f.store.List(f.t.Context(), &requests))
	for i := range requests.Items {
		if requests.Items[i].Spec.Requester == replacement.RepairRequester {
			requested = append(requested, requests.Items[i].Spec.Member.ID)
		}
	}
	slices.Sort(requested)
	return requested
}

// Repair passes over the members that annotations of their MemberSet keep from starting (source 002, Buggify), before their pods are made anew with them, and while
// they have none.
func TestAnnotationsOfASetPauseRepair(t *testing.T) {
	annotated := func(annotations map[string]string) func(*ofSet) {
		return ofTheSet(func(set *v1alpha1.MemberSet) { set.Annotations = annotations })
	}
	const crash, empty = v1alpha1.CrashLoopPrefix, v1alpha1.EmptyConfigurationAnnotation
	fails := unready("db-storage-1")
	for name, test := range map[string]struct {
		given []func(*ofSet)
		want  []string
	}{
		"none":                             {[]func(*ofSet){fails}, []string{"db-storage-1"}},
		"it is named":                      {[]func(*ofSet){fails, annotated(map[string]string{crash + "fdb": "db-storage-1"})}, nil},
		"it is named among others":         {[]func(*ofSet){fails, annotated(map[string]string{crash + "fdb": "db-storage-2, db-storage-1"})}, nil},
		"others are named":                 {[]func(*ofSet){fails, annotated(map[string]string{crash + "fdb": "db-storage-2,db-storage-11"})}, []string{"db-storage-1"}},
		"of two containers the last":       {[]func(*ofSet){fails, annotated(map[string]string{crash + "a": "db-storage-2", crash + "b": "db-storage-1"})}, nil},
		"of two the first":                 {[]func(*ofSet){fails, annotated(map[string]string{crash + "a": "db-storage-1", crash + "b": "db-storage-2"})}, nil},
		"all are":                          {[]func(*ofSet){fails, annotated(map[string]string{crash + "fdb": "*"})}, nil},
		"its configuration is to be empty": {[]func(*ofSet){fails, annotated(map[string]string{empty: "db-storage-1"})}, nil},
		"that of all is":                   {[]func(*ofSet){fails, annotated(map[string]string{empty: "*"})}, nil},
		"that of others is":                {[]func(*ofSet){fails, annotated(map[string]string{empty: "db-storage-3"})}, []string{"db-storage-1"}},
		"it has no pod, and is named": {
			[]func(*ofSet){without(&corev1.Pod{}, "db-storage-1"), annotated(map[string]string{crash + "fdb": "db-storage-1"})}, nil,
		},
		"it has no pod, and its configuration is to be empty": {
			[]func(*ofSet){without(&corev1.Pod{}, "db-storage-1"), annotated(map[string]string{empty: "db-storage-1"})}, nil,
		},
		"it has no pod, and its last said that it is to crash": {
			[]func(*ofSet){without(&corev1.Pod{}, "db-storage-1"), ofTheSet(func(set *v1alpha1.MemberSet) { set.Status.Members[0].CrashLoop = []string{"fdb"} })}, nil,
		},
		"it has no pod, and its last said that it is to be empty": {
			[]func(*ofSet){without(&corev1.Pod{}, "db-storage-1"), ofTheSet(func(set *v1alpha1.MemberSet) { set.Status.Members[0].EmptyConfiguration = true })}, nil,
		},
		"it has no pod": {[]func(*ofSet){without(&corev1.Pod{}, "db-storage-1")}, []string{"db-storage-1"}},
		"its pod does not say so any more": {
			[]func(*ofSet){fails, ofTheSet(func(set *v1alpha1.MemberSet) { set.Status.Members[0].CrashLoop = []string{"fdb"} })}, []string{"db-storage-1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newOfSet(t, test.given...)
			f.at(0)
			if diff := cmp.Diff(test.want, f.at(100*time.Hour), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A member of a set is replaced where what its pod needs is not there, and where it is excluded by hand, once that has lasted for as long as source 002 says.
func TestWhatAMemberOfASetLacks(t *testing.T) {
	excluded := func(id string, facts expression.Facts) func(*ofSet) {
		return func(f *ofSet) {
			f.system.members[id] = working()
			maps.Copy(f.system.members[id], facts)
		}
	}
	removing := func(step v1alpha1.MemberRemovalStep) func(*ofSet) {
		return ofTheSet(func(set *v1alpha1.MemberSet) {
			set.Status.Members[0].Removal = &v1alpha1.MemberRemoval{Request: "x", Step: step}
		})
	}
	unlabelled := func(object client.Object, name string) func(*ofSet) {
		return func(f *ofSet) {
			f.must(f.store.Get(f.t.Context(), client.ObjectKey{Namespace: theSet.Namespace, Name: name}, object))
			object.SetLabels(nil)
			f.must(f.store.Update(f.t.Context(), object))
		}
	}
	shaped := func(shape v1alpha1.MemberShape) func(*ofSet) {
		return ofTheSet(func(set *v1alpha1.MemberSet) { set.Status.Members[0].Shape = shape })
	}
	forbids := func(f *ofSet) { f.begin(forbidding{f.store}) }
	const id = "db-storage-1"
	claim, service := without(&corev1.PersistentVolumeClaim{}, "data-"+id), without(&corev1.Service{}, id)
	byHand := excluded(id, expression.Facts{"excluded": true, "exclusions": []string{"10.0.0.1:4500"}})
	for name, test := range map[string]struct {
		given []func(*ofSet)
		want  v1alpha1.MemberConditionType // of db-storage-1, which gets a request for it; "": it has none
	}{
		"nothing":                                   {nil, ""},
		"a claim":                                   {[]func(*ofSet){claim}, "ClaimMissing"},
		"a claim of two":                            {[]func(*ofSet){shaped(v1alpha1.MemberShape{Claims: []string{"data", "log"}})}, "ClaimMissing"},
		"a claim that it does not need":             {[]func(*ofSet){claim, shaped(v1alpha1.MemberShape{AddressFrom: v1alpha1.AddressFromService})}, ""},
		"a claim that may not be read":              {[]func(*ofSet){claim, forbids}, ""},
		"the label of a claim":                      {[]func(*ofSet){unlabelled(&corev1.PersistentVolumeClaim{}, "data-"+id)}, ""},
		"its Service":                               {[]func(*ofSet){service}, "ServiceMissing"},
		"a Service that it does not need":           {[]func(*ofSet){service, shaped(v1alpha1.MemberShape{AddressFrom: v1alpha1.AddressFromPod})}, ""},
		"a Service that may not be read":            {[]func(*ofSet){service, forbids}, ""},
		"the label of its Service":                  {[]func(*ofSet){unlabelled(&corev1.Service{}, id)}, ""},
		"what goes with it":                         {[]func(*ofSet){claim, service, removing(v1alpha1.RemovalRemoving)}, ""},
		"data, excluded by hand":                    {[]func(*ofSet){byHand}, "ExcludedUnmarked"},
		"data on one of two processes":              {[]func(*ofSet){excluded(id, expression.Facts{"exclusions": []string{"10.0.0.1:4501"}})}, "ExcludedUnmarked"},
		"data that is to come back":                 {[]func(*ofSet){byHand, removing(v1alpha1.RemovalRefilling)}, ""},
		"data, and whether that is so is not known": {[]func(*ofSet){func(f *ofSet) { f.system.members[id] = expression.Facts{"otherInstance": "", "reports": true} }}, ""},
		"data, excluded for an eviction": {[]func(*ofSet){byHand, func(f *ofSet) {
			change(f, theSet.Name, &v1alpha1.EvictionPolicy{}, func(policy *v1alpha1.EvictionPolicy) {
				policy.Status.Preparations = []v1alpha1.PreparationStatus{{MemberRef: v1alpha1.MemberRef{Role: "foundationdb-storage", ID: id}, Name: "Exclude"}}
			})
		}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newOfSet(t, test.given...)
			var want []string
			if test.want != "" {
				want = []string{id}
			}
			f.at(0)
			if got := f.at(7199 * time.Second); len(got) > 0 {
				t.Errorf("too early: requests for %v", got)
			}
			f.r.looked[theSet] = time.Time{} // as if 5 s had passed
			if diff := cmp.Diff(want, f.at(7200*time.Second), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			policy := &v1alpha1.EvictionPolicy{}
			f.must(f.store.Get(t.Context(), theSet, policy))
			var got []v1alpha1.MemberConditionType
			for i := range policy.Status.Unhealthy {
				for _, c := range policy.Status.Unhealthy[i].Conditions {
					got = append(got, c.Type)
				}
			}
			if want := []v1alpha1.MemberConditionType{test.want}; test.want != "" && !slices.Equal(got, want) || test.want == "" && len(got) > 0 {
				t.Errorf("its conditions are %v, not %v", got, want)
			}
		})
	}
}

// forbidding is an apiserver that lets no claim and no Service be read.
type forbidding struct{ client.Client }

func (c forbidding) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	switch object.(type) {
	case *corev1.PersistentVolumeClaim, *corev1.Service:
		return apierrors.NewForbidden(schema.GroupResource{}, key.Name, nil)
	}
	return c.Client.Get(ctx, key, object, options...)
}

func (c forbidding) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	switch list.(type) {
	case *corev1.PersistentVolumeClaimList, *corev1.ServiceList:
		return apierrors.NewForbidden(schema.GroupResource{}, "", nil)
	}
	return c.Client.List(ctx, list, options...)
}

// A member that is marked and of which its system has moved everything away is not in flight any more, also once nothing of it runs: another may be replaced.
func TestAMemberThatIsEmptyIsNotInFlight(t *testing.T) {
	goes := func(step v1alpha1.MemberRemovalStep) func(*ofSet) {
		return func(f *ofSet) {
			ofTheSet(func(set *v1alpha1.MemberSet) {
				set.Status.Members[0].Removal = &v1alpha1.MemberRemoval{Request: "by-anna", Step: step}
			})(f)
			request := &v1alpha1.ReplacementRequest{ObjectMeta: metav1.ObjectMeta{Namespace: theSet.Namespace, Name: "by-anna"}}
			request.Spec = v1alpha1.ReplacementRequestSpec{
				Requester: "person.usher.sh/anna", Source: v1alpha1.ReplacementSource{Kind: v1alpha1.SourceEvictionPolicy, Name: theSet.Name},
				Member: v1alpha1.ReplacementMember{Role: "foundationdb-storage", ID: "db-storage-1"},
			}
			f.must(f.store.Create(f.t.Context(), request))
		}
	}
	says := func(facts expression.Facts) func(*ofSet) {
		return func(f *ofSet) { maps.Copy(f.system.members["db-storage-1"], facts) }
	}
	gone := says(expression.Facts{"reports": false})
	for name, test := range map[string]struct {
		given []func(*ofSet)
		want  []string
	}{
		"it has data":                  {[]func(*ofSet){goes(v1alpha1.RemovalGrowing)}, nil},
		"its data is on its way":       {[]func(*ofSet){goes(v1alpha1.RemovalEmptying), says(expression.Facts{"excluded": true})}, nil},
		"it is empty":                  {[]func(*ofSet){goes(v1alpha1.RemovalReplaced), says(expression.Facts{"excluded": true, "empty": true})}, []string{"db-storage-2"}},
		"it does not report":           {[]func(*ofSet){goes(v1alpha1.RemovalReplaced), gone}, nil},
		"it was empty, and goes":       {[]func(*ofSet){goes(v1alpha1.RemovalRemoving), gone}, []string{"db-storage-2"}},
		"it was empty, and is removed": {[]func(*ofSet){goes(v1alpha1.RemovalRemoved), gone, without(&corev1.Pod{}, "db-storage-1")}, []string{"db-storage-2"}},
		"it goes, and has data again":  {[]func(*ofSet){goes(v1alpha1.RemovalRemoving), says(expression.Facts{"excluded": false})}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newOfSet(t, append(test.given, unready("db-storage-2"))...)
			change(f, theSet.Name, &v1alpha1.EvictionPolicy{}, func(policy *v1alpha1.EvictionPolicy) {
				policy.Spec.Repair.StopAbove = &v1alpha1.RepairStop{Zones: intstr.FromString("100%")}
			})
			f.at(0)
			if diff := cmp.Diff(test.want, f.at(2*time.Hour), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What there is of what members need is read again after a minute, and sooner where a member lacks something, is new, or is about to be replaced.
func TestWhatMembersNeedIsKept(t *testing.T) {
	f := newOfSet(t)
	counted := &counting{Client: f.store}
	f.begin(counted)
	looks := func(after time.Duration, want int) {
		t.Helper()
		counted.lists = 0
		f.at(after)
		if counted.lists != want {
			t.Errorf("after %s: %d lists, not %d", after, counted.lists, want)
		}
	}
	looks(0, 2)
	looks(30*time.Second, 0)
	looks(time.Minute, 2)
	ofTheSet(func(set *v1alpha1.MemberSet) {
		set.Status.Members = append(set.Status.Members, v1alpha1.SetMember{ID: "db-storage-4", Group: "storage", Shape: v1alpha1.MemberShape{Claims: []string{"data"}}})
	})(f)
	looks(70*time.Second, 2)
	looks(80*time.Second, 2)
}

// counting counts the lists of claims and Services.
type counting struct {
	client.Client

	lists int
}

func (c *counting) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	switch list.(type) {
	case *corev1.PersistentVolumeClaimList, *corev1.ServiceList:
		c.lists++
	}
	return c.Client.List(ctx, list, options...)
}
