package memberset

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

// What another MemberSet has stays: what is advised leads to other names, by how far the set is and by what is taken.
func TestWhatAnotherSetHas(t *testing.T) {
	claim := func(w *world) { w.in.Claims[0].Ours, w.in.Claims[0].Of = false, "MemberSet other" }
	file := func(w *world) {
		w.in.File = &File{Object: Object{Name: "kv", Of: "MemberSet other"}, Content: "other:0@10.0.0.9"}
	}
	for name, test := range map[string]struct {
		kind   Kind
		formed bool
		given  func(*world)
		says   string
		remedy string
	}{
		"a claim": {listing, true, claim, "claim data-kv-member-1 is of MemberSet other", "usher replace kv-member-1 --policy kv -n shop; or set spec.idPrefix"},
		"a pod": {listing, true, func(w *world) {
			w.in.Pods = slices.DeleteFunc(w.in.Pods, func(p Pod) bool { return p.Name == "kv-member-1" })
			w.in.Pods = append(w.in.Pods, Pod{Object: Object{Name: "kv-member-1", UID: "x", Of: "MemberSet other"}})
		}, "pod kv-member-1 is of MemberSet other", "usher replace kv-member-1 --policy kv -n shop; or set spec.idPrefix"},
		"a claim, before the system is formed": {listing, false, func(w *world) {
			w.step(-1)
			w.step(-1)
			claim(w)
		}, "claim data-kv-member-1 is of MemberSet other", "another name, or another spec.idPrefix; it has formed no system yet, and is written anew for that: kubectl delete memberset kv -n shop; "},
		"the cluster file, before there is a member": {emptying, false, file, "ConfigMap kv is of MemberSet other", "name another ConfigMap for this set, in spec.system.foundationdb.clusterFile.configMap"},
		"the cluster file":                           {emptying, true, file, "ConfigMap kv is of MemberSet other", "leave it to MemberSet other until that names another"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(test.kind, 3, t.Fatalf)
			if test.formed {
				w = formed(t, test.kind, 3)
			}
			test.given(w)
			w.in.Now = w.clock
			r := Decide(w.in)
			at := slices.IndexFunc(r.Status.Blockers, func(b v1alpha1.ReplacementBlocker) bool { return b.Reason == string(NameTaken) })
			if at < 0 {
				t.Fatalf("it waits for %+v", r.Status.Blockers)
			}
			b := r.Status.Blockers[at]
			if !strings.Contains(b.Message, test.says) || !strings.Contains(b.Remedy, test.remedy) {
				t.Errorf("it says %+v", b)
			}
			for _, removes := range []string{"delete it", "delete pod", "delete configmap", "delete service", "kubectl label"} {
				if strings.Contains(b.Remedy, removes) {
					t.Errorf("it advises %q: %s", removes, b.Remedy)
				}
			}
		})
	}
}

// Where the first members cannot form their system, the ConfigMap goes with what is given up as far as it is there and the set's own. Another's is said to be there, since
// it would be in the way again.
func TestWhatIsGivenUpWithASet(t *testing.T) {
	const deletes = "kubectl delete configmap kv -n shop"
	for name, test := range map[string]struct {
		file    *File
		deletes bool
		says    string
	}{
		"no ConfigMap":           {nil, false, ""},
		"its own, which is left": {&File{Object: Object{Name: "kv", Ours: true}}, true, ""},
		"another set's":          {&File{Object: Object{Name: "kv", Of: "MemberSet other"}, Content: "other:0@10.0.0.9"}, false, "ConfigMap kv is of MemberSet other, and this set would give its own the same name"},
		"a person's":             {&File{Object: Object{Name: "kv"}, Content: "x"}, false, "ConfigMap kv is there, and was not made for this MemberSet"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(emptying, 3, t.Fatalf)
			file := *emptying.File
			file.Begin = func(*v1alpha1.MemberSet, []Candidate) (string, string) { return "", "too few zones" }
			w.in.Kind.File = &file
			for range 10 {
				w.pass()
				w.step(-1)
			}
			w.in.File = test.file
			r := Decide(w.in)
			var advised, taken []string
			for _, b := range r.Status.Blockers {
				switch {
				case strings.Contains(b.Message, "too few zones"):
					advised = append(advised, b.Remedy)
				case b.Reason == string(NameTaken):
					taken = append(taken, b.Message)
				}
			}
			if len(advised) != 1 || strings.Contains(advised[0], deletes) != test.deletes || !strings.Contains(advised[0], "kubectl delete memberset kv -n shop; ") {
				t.Errorf("it advises %q", advised)
			}
			if got := strings.Join(taken, "; "); got != test.says {
				t.Errorf("it says %q of the ConfigMap", got)
			}
		})
	}
}

// What is advised where a number is taken helps: the set is complete without it.
func TestANumberThatIsTakenIsGivenUp(t *testing.T) {
	for name, advised := range map[string]func(*world){
		"the member is replaced": func(w *world) { w.mark("kv-member-4") },
		"another prefix":         func(w *world) { w.in.Set.Spec.IDPrefix = "b" },
	} {
		t.Run(name, func(t *testing.T) {
			w := formed(t, listing, 3)
			*w.in.Set.Spec.Groups[0].Replicas = 4
			for i := 0; i < 20 && !slices.Contains(w.ids(), "kv-member-4"); i++ {
				w.step(0)
			}
			w.in.Claims = append(w.in.Claims, Claim{Object: Object{Name: "data-kv-member-4", UID: "x", Of: "MemberSet other"}})
			if w.settle() {
				t.Fatal("it is complete, and lacks a member")
			}
			advised(w)
			if !w.settle() {
				t.Errorf("it waits for %+v", w.in.Set.Status.Blockers)
			}
			if slices.Contains(w.ids(), "kv-member-4") {
				t.Error("the member is still there")
			}
		})
	}
}

// Whose an object is, what controls it says first, and then its label.
func TestWhoseAnObjectIs(t *testing.T) {
	set := &v1alpha1.MemberSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "kv", UID: "set"}}
	by := func(name string) []metav1.OwnerReference {
		owner := &v1alpha1.MemberSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
		return []metav1.OwnerReference{*metav1.NewControllerRef(owner, v1alpha1.GroupVersion.WithKind("MemberSet"))}
	}
	for name, test := range map[string]struct {
		meta metav1.ObjectMeta
		want string
	}{
		"its own":                                {metav1.ObjectMeta{Labels: map[string]string{v1alpha1.MemberSetLabel: "kv"}, OwnerReferences: by("kv")}, ""},
		"no set's":                               {metav1.ObjectMeta{}, ""},
		"by its label":                           {metav1.ObjectMeta{Labels: map[string]string{v1alpha1.MemberSetLabel: "other"}}, "MemberSet other"},
		"by what controls it":                    {metav1.ObjectMeta{OwnerReferences: by("other")}, "MemberSet other"},
		"its label was altered":                  {metav1.ObjectMeta{Labels: map[string]string{v1alpha1.MemberSetLabel: "kv"}, OwnerReferences: by("other")}, "MemberSet other"},
		"its own, its label says another":        {metav1.ObjectMeta{Labels: map[string]string{v1alpha1.MemberSetLabel: "other"}, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.GroupVersion.WithKind("MemberSet"))}}, ""},
		"another controller's":                   {metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", APIVersion: "apps/v1", Name: "db", Controller: new(true)}}}, "StatefulSet db"},
		"whoever wrote that it is controlled so": {metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", APIVersion: "apps/v1", Name: "db, which is of no use: delete it", Controller: new(true)}}}, `StatefulSet "db, which is of no use: delete it"`},
	} {
		if got := ObjectOf(set, &corev1.Pod{ObjectMeta: test.meta}).Of; got != test.want {
			t.Errorf("%s: it is of %q, want %q", name, got, test.want)
		}
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Labels: map[string]string{v1alpha1.MemberSetLabel: "other"}, Annotations: map[string]string{SetUIDAnnotation: string(set.UID)},
	}}
	if got := ClaimOf(set, claim); got.Of != "" || !got.Ours {
		t.Errorf("a claim that was made for the set, and whose label says another, is of %q", got.Of)
	}
}
