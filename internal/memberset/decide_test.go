package memberset

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

// formed is a world whose set is complete.
func formed(t *testing.T, kind Kind, replicas int32) *world {
	t.Helper()
	w := newWorld(kind, replicas, t.Fatalf)
	if !w.settle() {
		t.Fatalf("it has not formed: %+v", w.in.Set.Status)
	}
	return w
}

func (w *world) memberNamed(id string) *v1alpha1.SetMember {
	at := slices.IndexFunc(w.in.Set.Status.Members, func(m v1alpha1.SetMember) bool { return m.ID == id })
	return &w.in.Set.Status.Members[at]
}

func (w *world) podNamed(id string) *Pod {
	at := slices.IndexFunc(w.in.Pods, func(p Pod) bool { return p.Name == id })
	return &w.in.Pods[at]
}

// kinds are those of the actions that follow, with whom each is for.
func kinds(r Result) []string {
	var all []string
	for i := range r.Actions {
		all = append(all, string(r.Actions[i].Kind)+" "+r.Actions[i].Member)
	}
	return all
}

func reasons(r *Result) []string {
	var all []string
	for i := range r.Status.Blockers {
		all = append(all, r.Status.Blockers[i].Reason)
	}
	return all
}

// The first members are written down at once, and each gets the list of all; nothing is made before that.
func TestTheFirstFormTheSystemTogether(t *testing.T) {
	w := newWorld(listing, 3, t.Fatalf)
	if r := w.step(-1); !r.Progress || len(r.Actions) > 0 || len(r.Status.Members) != 3 || r.Status.Formed != nil {
		t.Fatalf("at first: %+v", r)
	}
	w.in.Set.Spec.Groups[0].Replicas = new(int32(5))
	w.step(-1)
	r := w.step(-1)
	var given []string
	for i := range r.Actions {
		if pod := r.Actions[i].Pod; pod != nil {
			given = append(given, pod.Name+" "+pod.Spec.Containers[0].Env[0].Value+" "+pod.Spec.Containers[0].Env[1].Value)
		}
	}
	want := []string{"kv-member-1 new 3", "kv-member-2 new 3", "kv-member-3 new 3"}
	if diff := cmp.Diff(want, given); diff != "" {
		t.Error(diff)
	}
	if !w.settle() || len(w.ids()) != 5 {
		t.Errorf("in the end there are %v", w.ids())
	}
}

// No id is given that anything remembers, also what is of another set of the name.
func TestIDsAreNotUsedTwice(t *testing.T) {
	for name, remembers := range map[string]func(in *Input){
		"the status": func(in *Input) { in.Set.Status.Groups = []v1alpha1.MemberGroupStatus{{Name: "member", LastNumber: 7}} },
		"a pod":      func(in *Input) { in.Pods = []Pod{{Object: Object{Name: "kv-member-7"}}} },
		"a claim": func(in *Input) {
			in.Claims = []Claim{{Object: Object{Name: "data-kv-member-7", Member: "kv-member-7"}}}
		},
		"its name":  func(in *Input) { in.Claims = []Claim{{Object: Object{Name: "data-kv-member-7"}}} },
		"a Service": func(in *Input) { in.Services = []Service{{Object: Object{Name: "kv-member-7"}}} },
		"a request": func(in *Input) { in.Requests = []Request{{Member: "kv-member-7", Over: true}} },
		"the list":  func(in *Input) { in.List.Entries = []Entry{{Name: "kv-member-7"}} },
		"its address": func(in *Input) {
			e := Entry{}
			e.Addresses = []string{"http://kv-member-7.shop.svc:2380"}
			in.List.Entries = []Entry{e}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(listing, 1, t.Fatalf)
			w.in.Set.Status.Formed = &v1alpha1.MemberSetFormed{}
			remembers(&w.in)
			if r := Decide(w.in); len(r.Status.Members) != 1 || r.Status.Members[0].ID != "kv-member-8" || r.Status.Groups[0].LastNumber != 8 {
				t.Errorf("the first is %+v of %+v", r.Status.Members, r.Status.Groups)
			}
		})
	}
}

// A list that has another entry on it is of another system.
func TestAStrangersListIsNotBelieved(t *testing.T) {
	w := newWorld(listing, 3, t.Fatalf)
	for range 3 {
		w.step(-1)
		w.pass()
	}
	stranger := Entry{Name: "other", Whole: true}
	stranger.ID, stranger.Addresses = "9", []string{"http://other.db.svc:2380"}
	w.in.List.Entries = append(w.in.List.Entries, stranger)
	if r := w.step(-1); r.Status.Formed != nil || !slices.Contains(reasons(&r), string(StrangerListed)) {
		t.Errorf("%+v", r.Status)
	}
}

// An entry is a member's by its host, and in the system's own list by its name: a template that encrypts its peers from now on leaves all on the list.
func TestWhoseAnEntryIs(t *testing.T) {
	for name, test := range map[string]struct {
		formed bool
		is, at string
		want   bool
	}{
		"at its address":                        {formed: true, at: "http://kv-member-1.shop.svc:2380", want: true},
		"with another scheme":                   {formed: true, at: "https://kv-member-1.shop.svc:2380", want: true},
		"with another port":                     {formed: true, at: "http://kv-member-1.shop.svc:2390", want: true},
		"by its name":                           {formed: true, is: "kv-member-1", at: "http://10.0.0.1:2380", want: true},
		"in another namespace":                  {formed: true, at: "http://kv-member-1.db.svc:2380"},
		"by its host before it has formed":      {at: "https://kv-member-1.shop.svc:2380", want: true},
		"by a name in another namespace's list": {is: "kv-member-1", at: "http://kv-member-1.db.svc:2380"},
		"at no address":                         {formed: true, at: "::"},
	} {
		t.Run(name, func(t *testing.T) {
			w := formed(t, listing, 1)
			if !test.formed {
				w.in.Set.Status.Formed = nil
			}
			d := decision{Input: &w.in, index: newIndex(&w.in), status: w.in.Set.Status}
			d.groups, _ = groupsOf(w.in.Set, &w.in.Kind)
			e := Entry{Name: test.is}
			e.Addresses = []string{test.at}
			if got := d.isOf(&e, &d.status.Members[0]); got != test.want {
				t.Errorf("it is the member's: %t", got)
			}
		})
	}
}

// A member that the list has under another scheme is taken off it before its pod goes.
func TestAMemberOfAnotherSchemeLeavesTheListFirst(t *testing.T) {
	w := formed(t, listing, 3)
	w.in.Kind.Addresses = func(_ *corev1.PodSpec, id, namespace string) []string {
		return []string{"https://" + id + "." + namespace + ".svc:2380"}
	}
	m := w.memberNamed("kv-member-1")
	w.goes(m.ID, v1alpha1.RemovalRemoving)
	for _, k := range kinds(Decide(w.in)) {
		if k == "deletePod kv-member-1" {
			t.Error("its pod goes, and it is on the list")
		}
	}
}

// A system is not formed beside what another of the name has left.
func TestWhatRemainsOfAnEarlierSet(t *testing.T) {
	for name, test := range map[string]struct {
		kind    Kind
		given   func(w *world)
		message string // "": members are made
	}{
		"nothing": {listing, func(*world) {}, ""},
		"pods, claims and Services": {listing, func(w *world) {
			w.in.Pods, w.in.Claims = []Pod{{Object: Object{Name: "p"}}}, []Claim{{Object: Object{Name: "c"}}}
			w.in.Services = []Service{{Object: Object{Name: "s"}}}
		}, "no member was made yet, and these carry the label usher.sh/member-set=kv already: pod p, claim c, Service s"},
		"its own claim": {listing, func(w *world) {
			w.in.Claims = []Claim{{Object: Object{Name: "c", Ours: true, Terminating: true}}}
		}, "no member was made yet, and these carry the label usher.sh/member-set=kv already: claim c"},
		"a pod that ends":         {listing, func(w *world) { w.in.Pods = []Pod{{Object: Object{Name: "p", Terminating: true}}} }, ""},
		"a system without a list": {plain, func(w *world) { w.in.Claims = []Claim{{Object: Object{Name: "c"}}} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(test.kind, 3, t.Fatalf)
			test.given(w)
			r := Decide(w.in)
			if test.message == "" {
				if len(r.Status.Members) != 3 || len(r.Status.Blockers) > 0 {
					t.Errorf("%d members, and it waits for %v", len(r.Status.Members), r.Status.Blockers)
				}
				return
			}
			if len(r.Status.Members) > 0 || len(r.Actions) > 0 || len(r.Status.Blockers) != 1 || r.Status.Blockers[0].Message != test.message {
				t.Errorf("%d members, and it waits for %v", len(r.Status.Members), r.Status.Blockers)
			}
		})
	}
}

func TestWhoGoesFirst(t *testing.T) {
	for name, test := range map[string]struct {
		given func(w *world)
		want  string
	}{
		"the youngest":            {func(w *world) { w.memberNamed("kv-member-2").StartTime = metav1.NewTime(noon.Add(time.Hour)) }, "kv-member-2"},
		"the lowest id of equals": {func(*world) {}, "kv-member-1"},
		"one in the zone that has most": {func(w *world) {
			w.podNamed("kv-member-3").Zone = w.podNamed("kv-member-4").Zone
			w.memberNamed("kv-member-1").StartTime = metav1.NewTime(noon.Add(time.Hour))
		}, "kv-member-3"},
		"one whose pod is not Ready": {func(w *world) {
			w.podNamed("kv-member-4").Ready = false
			w.podNamed("kv-member-2").Zone = w.podNamed("kv-member-3").Zone
		}, "kv-member-4"},
	} {
		t.Run(name, func(t *testing.T) {
			w := formed(t, plain, 4)
			for i := range w.in.Pods {
				w.in.Pods[i].Zone = w.in.Pods[i].Name
			}
			w.in.Set.Spec.Groups[0].Replicas = new(int32(3))
			test.given(w)
			if diff := cmp.Diff([]string{"mark " + test.want}, kinds(Decide(w.in))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A group that shrinks marks none of another group, also where the system does not know a member of that one.
func TestShrinkingLeavesOtherGroupsAlone(t *testing.T) {
	for name, unknown := range map[string]func(w *world){
		"its process is not in the status": func(w *world) {
			w.in.List.Entries = slices.DeleteFunc(w.in.List.Entries, func(e Entry) bool { return e.Name == "kv-log-1" })
		},
		"its pod is gone as well": func(w *world) {
			w.in.List.Entries = slices.DeleteFunc(w.in.List.Entries, func(e Entry) bool { return e.Name == "kv-log-1" })
			w.gone("kv-log-1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(emptying, 3, t.Fatalf)
			log := *w.group().DeepCopy()
			log.Name, log.Replicas = "log", new(int32(2))
			w.in.Set.Spec.Groups = append(w.in.Set.Spec.Groups, log)
			if !w.settle() || len(w.ids()) != 5 {
				t.Fatalf("it is not complete: %+v", w.in.Set.Status)
			}
			w.look()
			unknown(w)
			w.group().Replicas = new(int32(2))
			wants(t, w, "mark kv-member-1")
		})
	}
}

// A member that is marked while fewer are asked for is the one that goes, and no other is made for it.
func TestAMarkedMemberIsTheOneThatGoes(t *testing.T) {
	w := formed(t, listing, 4)
	w.mark("kv-member-2")
	w.in.Set.Spec.Groups[0].Replicas = new(int32(3))
	if !w.settle() {
		t.Fatalf("%+v", w.in.Set.Status)
	}
	if diff := cmp.Diff([]string{"kv-member-1", "kv-member-3", "kv-member-4"}, w.ids()); diff != "" {
		t.Error(diff)
	}
}

// A replacement grows first, on another node, and what is removed goes in its order.
func TestAReplacement(t *testing.T) {
	w := formed(t, listing, 3)
	w.mark("kv-member-1")
	node := w.podNamed("kv-member-1").Node
	var order []string
	for range 60 {
		w.pass()
		w.permit()
		for _, k := range kinds(w.step(-1)) {
			if !slices.Contains(order, k) {
				order = append(order, k)
			}
		}
	}
	want := []string{
		"makeService kv-member-4", "makeClaim kv-member-4", "admit kv-member-4", "makePod kv-member-4",
		"relabelPod kv-member-4",
		"expel kv-member-1", "deletePod kv-member-1", "retainVolume kv-member-1", "deleteClaim kv-member-1", "deleteService kv-member-1",
	}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"kv-member-2", "kv-member-3", "kv-member-4"}, w.ids()); diff != "" {
		t.Error(diff)
	}
	if !slices.Contains(w.avoided["kv-member-4"], node) || w.podNamed("kv-member-4").Node == node {
		t.Errorf("its successor is on %s, and is kept off %v, where it was on %s", w.podNamed("kv-member-4").Node, w.avoided["kv-member-4"], node)
	}
}

// A voter that is lost leaves before another is taken in: etcd takes in none before.
func TestALostMemberLeavesFirst(t *testing.T) {
	w := formed(t, listing, 3)
	w.podNamed("kv-member-1").Node, w.podNamed("kv-member-2").Node, w.podNamed("kv-member-3").Node = "n1", "n2", "n3"
	w.lost["n1"] = true
	w.mark("kv-member-1")
	var order []string
	for range 60 {
		w.pass()
		w.permit()
		for _, k := range kinds(w.step(-1)) {
			if !slices.Contains(order, k) {
				order = append(order, k)
			}
		}
	}
	if expel, made := slices.Index(order, "expel kv-member-1"), slices.Index(order, "makePod kv-member-4"); expel < 0 || made < expel {
		t.Errorf("%v", order)
	}
	if m := w.memberNamed("kv-member-4"); m.State != v1alpha1.MemberWhole {
		t.Errorf("its successor is %+v", m)
	}
}

// A pod that is gone is made anew under its name, with its claim, whether its system answers or not.
func TestRecreation(t *testing.T) {
	w := formed(t, listing, 3)
	w.in.Pods = slices.DeleteFunc(w.in.Pods, func(p Pod) bool { return p.Name == "kv-member-2" })
	w.in.List = Listing{Unread: "no endpoint answers"}
	r := Decide(w.in)
	if diff := cmp.Diff([]string{"makePod kv-member-2"}, kinds(r)); diff != "" {
		t.Fatal(diff)
	}
	if env := r.Actions[0].Pod.Spec.Containers[0].Env; env[0].Value != "existing" || env[1].Value != "3" {
		t.Errorf("it gets %v", env)
	}
}

func TestWhatIsNotTouched(t *testing.T) {
	for name, test := range map[string]struct {
		given  func(w *world)
		reason Reason
	}{
		"a pod of another": {func(w *world) {
			w.in.Pods = slices.DeleteFunc(w.in.Pods, func(p Pod) bool { return p.Name == "kv-member-1" })
			w.in.Pods = append(w.in.Pods, Pod{Object: Object{Name: "kv-member-1", UID: "x"}})
		}, NameTaken},
		"a claim of another set": {func(w *world) { w.in.Claims[0].Ours = false }, NameTaken},
		"a policy of a person":   {func(w *world) { w.in.Policy.Ours, w.in.Policy.Spec = false, v1alpha1.EvictionPolicySpec{} }, NameTaken},
		"a status that was lost": {func(w *world) { w.in.Set.Status.Members = nil }, MemberNotKnown},
		"claims that are not known": {func(w *world) {
			w.in.Claims, w.in.Pods = nil, nil
			w.in.Unread = []Blocker{Unread("claims", "forbidden", "")}
		}, NotRead},
		"a member that was taken off by hand": {func(w *world) {
			w.in.Pods, w.in.List.Entries = w.in.Pods[1:], w.in.List.Entries[1:]
		}, MemberNotListed},
		"a template that is misspelt": {func(w *world) {
			w.in.Set.Spec.Groups[0].Template.Raw = []byte(`{"spec":{"containers":[{"name":"a","imagge":"b"}]}}`)
		}, TemplateInvalid},
		"a claim that is gone with its pod": {func(w *world) { w.in.Claims, w.in.Pods = w.in.Claims[1:], w.in.Pods[1:] }, ClaimMissing},
		"a claim that is gone with the list": {func(w *world) {
			w.in.Claims, w.in.Pods, w.in.List = w.in.Claims[1:], w.in.Pods[1:], Listing{Unread: "no endpoint answers"}
		}, ClaimMissing},
		"a claim that is gone before the system was seen to form": {func(w *world) {
			w.in.Set.Status.Formed, w.in.List = nil, Listing{Unread: "no endpoint answers"}
			for i := range w.in.Set.Status.Members {
				w.in.Set.Status.Members[i].State = v1alpha1.MemberJoining
			}
			w.in.Claims, w.in.Pods = w.in.Claims[1:], w.in.Pods[1:]
		}, ClaimMissing},
		"a claim that is gone before the member was seen to vote": {func(w *world) {
			w.in.Claims, w.in.Pods = w.in.Claims[1:], w.in.Pods[1:]
			w.in.List.Entries[0].Whole, w.memberNamed("kv-member-1").State = false, v1alpha1.MemberJoining
		}, ClaimMissing},
		"a claim of one that joins, while the list is not known": {func(w *world) {
			w.in.Claims, w.in.Pods, w.in.List = w.in.Claims[1:], w.in.Pods[1:], Listing{Unread: "no endpoint answers"}
			w.memberNamed("kv-member-1").State = v1alpha1.MemberJoining
		}, MembershipUnknown},
		"a group without claims": {func(w *world) { w.in.Set.Spec.Groups[0].VolumeClaimTemplates = nil }, TemplateInvalid},
		"what its kind refuses": {func(w *world) {
			w.in.Kind.Refuses = func(*corev1.PodSpec) error { return errors.New("--name") }
		}, TemplateInvalid},
		"what Usher says itself": {func(w *world) {
			w.in.Set.Spec.Groups[0].Template.Raw = []byte(`{"spec":{"containers":[{"name":"a","env":[{"name":"STATE"}]}]}}`)
		}, TemplateInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			w := formed(t, listing, 3)
			test.given(w)
			r := Decide(w.in)
			if !slices.Contains(reasons(&r), string(test.reason)) || ready(&r.Status) {
				t.Errorf("it waits for %v, want %s", reasons(&r), test.reason)
			}
			if made := kinds(r); len(made) > 0 {
				t.Errorf("%v", made)
			}
		})
	}
}

// A request that is taken back in the moment in which the set begins is heeded as long as all of the member is there.
func TestTakenBackInTheLastMoment(t *testing.T) {
	w := formed(t, listing, 3)
	w.mark("kv-member-1")
	for range 60 {
		w.pass()
		w.permit()
		r := Decide(w.in)
		w.in.Set.Status = r.Status
		if leaving(w.memberNamed("kv-member-1")) {
			break
		}
		for i := range r.Actions {
			w.carryOut(&r.Actions[i])
		}
	}
	w.in.Requests[0].Removing = false
	if r := Decide(w.in); len(r.Actions) > 0 || r.Status.Members[0].Removal.Step == v1alpha1.RemovalRemoving {
		t.Errorf("%v of %+v", kinds(r), r.Status.Members[0].Removal)
	}
}

// A voter stays on the list while another one is lost: its removal gives way to that of the lost one, as long as all of it is there.
func TestARemovalGivesWayToALostMember(t *testing.T) {
	const leaves, lost = "kv-member-1", "kv-member-2"
	for name, test := range map[string]struct {
		change func(w *world)
		want   v1alpha1.MemberRemovalStep
	}{
		"another is lost, and is to go": {func(*world) {}, v1alpha1.RemovalReplaced},
		"no request stands for that":    {func(w *world) { w.in.Requests = w.in.Requests[:1] }, v1alpha1.RemovalRemoving},
		"it is back":                    {func(w *world) { w.entryNamed(lost).Healthy = true }, v1alpha1.RemovalRemoving},
		"its pod is Ready":              {func(w *world) { w.podNamed(lost).Ready = true }, v1alpha1.RemovalRemoving},
		"both are lost":                 {func(w *world) { w.entryNamed(leaves).Healthy, w.podNamed(leaves).Ready = false, false }, v1alpha1.RemovalRemoving},
		"it is off the list": {func(w *world) {
			w.in.List.Entries = slices.DeleteFunc(w.in.List.Entries, func(e Entry) bool { return e.Name == leaves })
		}, v1alpha1.RemovalRemoving},
		"its pod ends":          {func(w *world) { w.podNamed(leaves).Terminating = true }, v1alpha1.RemovalRemoving},
		"the list is not known": {func(w *world) { w.in.List.Unread = "no endpoint answers" }, v1alpha1.RemovalRemoving},
	} {
		t.Run(name, func(t *testing.T) {
			w := formed(t, listing, 5)
			w.group().Replicas = new(int32(3))
			w.goes(leaves, v1alpha1.RemovalRemoving)
			w.mark(lost)
			w.memberNamed(lost).Removal = &v1alpha1.MemberRemoval{Request: w.in.Requests[1].Name, RequestUID: w.in.Requests[1].UID, Step: v1alpha1.RemovalReplaced}
			w.entryNamed(lost).Healthy, w.podNamed(lost).Ready = false, false
			test.change(w)
			for range 3 {
				r := Decide(w.in)
				w.in.Set.Status = r.Status
				if step := w.memberNamed(leaves).Removal.Step; step != test.want {
					t.Fatalf("its removal is %s: %v, %+v", step, kinds(r), r.Status.Blockers)
				}
			}
		})
	}
}

// What a person has changed in the policy of a set is set back.
func TestThePolicySaysWhatTheSetDoes(t *testing.T) {
	w := formed(t, plain, 1)
	w.in.Policy.Spec.Suspend = true
	if diff := cmp.Diff([]string{"changePolicy "}, kinds(Decide(w.in))); diff != "" {
		t.Error(diff)
	}
	w.in.Set.Spec.Suspend = true
	w.in.Pods = nil
	if made := kinds(Decide(w.in)); len(made) > 0 {
		t.Errorf("of a set that is suspended: %v", made)
	}
}

// Every alternative of the template keeps the pod off its predecessor's node.
func TestRestrict(t *testing.T) {
	term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: corev1.NodeSelectorOpExists}}}
	spec := corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term, {}}},
	}}}
	restrict(&spec, corev1.NodeSelectorOpNotIn, []string{"n1", "n2"})
	for i, term := range spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		if len(term.MatchFields) != 2 || term.MatchFields[1].Values[0] != "n2" || term.MatchFields[1].Key != "metadata.name" {
			t.Errorf("alternative %d: %+v", i, term)
		}
	}
}
