package memberset

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
)

// A system that is found by a file is begun once: the file is written down first, then it is in the ConfigMap, and only then the system is asked.
func TestTheFileIsWrittenDownBeforeTheSystemIsBegun(t *testing.T) {
	w := newWorld(emptying, 3, t.Fatalf)
	var order []string
	for range 30 {
		w.pass()
		r := w.step(-1)
		for i := range r.Actions {
			if kind := string(r.Actions[i].Kind); kind == string(MakeFile) || kind == string(Form) {
				order = append(order, kind)
			}
		}
		if w.begun && w.in.File.Content != w.in.Set.Status.ClusterFile {
			t.Fatalf("it is begun by %q, and written down is %q", w.in.File.Content, w.in.Set.Status.ClusterFile)
		}
	}
	if !slices.Equal(order, []string{string(MakeFile), string(Form)}) || w.in.Set.Status.Formed == nil || w.in.Set.Status.Formed.Cluster != "kv" {
		t.Errorf("%v: %+v", order, w.in.Set.Status)
	}
}

// A pod says which file there is before its kubelet is waited for, once for each file, and one of a later member never.
func TestPodsThatFormASystemSayWhichFileThereIs(t *testing.T) {
	w := newWorld(emptying, 2, t.Fatalf)
	said := map[string]int{}
	for range 30 {
		w.pass()
		r := w.step(-1)
		for i := range r.Actions {
			if hash := r.Actions[i].Annotations[FileHashAnnotation]; hash != "" {
				said[r.Actions[i].Member+" "+hash]++
			}
		}
		if r.Status.Formed != nil {
			w.in.Set.Spec.Groups[0].Replicas = new(int32(3))
		}
	}
	hash := sumOf([]byte(w.in.Set.Status.ClusterFile))
	if diff := cmp.Diff(map[string]int{"kv-member-1 " + hash: 1, "kv-member-2 " + hash: 1}, said); diff != "" || len(w.ids()) != 3 {
		t.Errorf("%v: %s", w.ids(), diff)
	}
}

func TestNothingIsBegunBesideWhatIsThere(t *testing.T) {
	for name, test := range map[string]struct {
		started bool // the file of the first members is there
		given   func(w *world)
		want    Reason
	}{
		"a ConfigMap before the first member": {false, func(w *world) {
			w.in.File = &File{Object: Object{Name: "kv", Ours: true}, Content: "kv:0@10.0.0.9"}
		}, NameTaken},
		"a claim before the first member": {false, func(w *world) {
			w.in.Claims = []Claim{{Object: Object{Name: "data-kv-member-1"}}}
		}, ObjectsRemain},
		"a ConfigMap that another has made": {true, func(w *world) { w.in.File.Ours = false }, NameTaken},
		"a ConfigMap that leads elsewhere":  {true, func(w *world) { w.in.File.Content = "other:0@10.0.0.9" }, NameTaken},
		"another cluster that answers":      {true, func(w *world) { w.in.List = Listing{Cluster: "other"} }, StrangerListed},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(emptying, 3, t.Fatalf)
			for test.started && w.in.File == nil {
				w.pass()
				w.step(-1)
			}
			test.given(w)
			r := Decide(w.in)
			begins := slices.ContainsFunc(r.Actions, func(a Action) bool { return a.Kind == Form || a.Kind == MakeFile || a.Kind == ChangeFile })
			if begins || r.Status.Formed != nil || !slices.Contains(reasons(&r), string(test.want)) {
				t.Errorf("%v, formed: %v, blockers: %v", kinds(r), r.Status.Formed, reasons(&r))
			}
		})
	}
}

// The ConfigMap follows those that lead to the system, which are others once a pod with their address is gone for good; one that was deleted is made anew.
func TestTheFileFollows(t *testing.T) {
	w := formed(t, emptying, 4)
	w.podNamed("kv-member-1").IP = "10.9.9.9" // it was made anew
	if !w.settle() || w.file != 1 || slices.Contains(w.leads, w.podNamed("kv-member-2").IP) == slices.Contains(w.leads, "10.0.0.1") {
		t.Errorf("those that lead are %v, changed %d times", w.leads, w.file)
	}
	if w.in.File.Content != w.newest() || w.in.Set.Status.ClusterFile != w.newest() {
		t.Errorf("the ConfigMap has %q, and newest is %q", w.in.File.Content, w.newest())
	}
	w.in.File = nil
	if w.step(-1); w.in.File == nil || w.in.File.Content != w.newest() {
		t.Errorf("it is not made anew: %+v", w.in.File)
	}
}

// A file of another system is not followed, and one that cannot be reached for a while is not replaced.
func TestWhatIsNotFollowed(t *testing.T) {
	w := formed(t, emptying, 4)
	before := w.in.Set.Status.ClusterFile
	w.look()
	w.in.List.File = "other:7@10.0.0.9"
	if r := Decide(w.in); r.Status.ClusterFile != before {
		t.Errorf("it follows to %q", r.Status.ClusterFile)
	}
	w.lost[w.podNamed("kv-member-1").Node] = true
	w.look()
	if r := Decide(w.in); len(w.in.List.Away) == 0 || slices.ContainsFunc(r.Actions, func(a Action) bool { return a.Kind == Lead }) {
		t.Errorf("away are %v, and what follows is %v", w.in.List.Away, kinds(r))
	}
}

// Several groups form a system together.
func TestGroupsFormASystemTogether(t *testing.T) {
	w := newWorld(emptying, 2, t.Fatalf)
	second := w.in.Set.Spec.Groups[0]
	second.Name, second.Role, second.Replicas = "log", "log", new(int32(2))
	w.in.Set.Spec.Groups = append(w.in.Set.Spec.Groups, second)
	if r := w.step(-1); len(r.Status.Members) != 4 || slices.ContainsFunc(r.Status.Members, func(m v1alpha1.SetMember) bool { return !m.First }) {
		t.Errorf("at first there are %+v", r.Status.Members)
	}
	if !w.settle() || len(w.ids()) != 4 {
		t.Errorf("in the end there are %v", w.ids())
	}
}

// Members with Services lead to the system by these: what names them first has their IPs, a pod starts with that of its own, and one that is made anew elsewhere changes nothing.
func TestServicesLeadToTheSystem(t *testing.T) {
	kind := emptying
	kind.AddressFrom = []v1alpha1.AddressSource{v1alpha1.AddressFromPod, v1alpha1.AddressFromService}
	kind.Ports = func(processes int32) []corev1.ServicePort { return []corev1.ServicePort{{Port: 4500 + processes}} }
	kind.Environment = func(_ *corev1.PodSpec, _ *v1alpha1.System, start *Start) []corev1.EnvVar {
		return []corev1.EnvVar{{Name: "ADDRESS", Value: start.Address}}
	}
	w := newWorld(kind, 3, t.Fatalf)
	w.group().AddressFrom = v1alpha1.AddressFromService
	if !w.settle() {
		t.Fatalf("%+v", w.in.Set.Status)
	}
	for i := range w.in.Services {
		s := &w.in.Services[i]
		if !slices.Contains(w.leads, s.IP) || w.podNamed(s.Name).Spec.Containers[0].Env[0].Value != s.IP {
			t.Errorf("%v lead to the system, and %s is at %s", w.leads, s.Name, s.IP)
		}
	}
	before := w.in.File.Content
	w.mute = false
	w.podNamed("kv-member-1").IP = "10.9.9.9"
	w.look()
	w.in.List.Away = []string{w.in.Services[0].IP}
	if r := Decide(w.in); slices.ContainsFunc(r.Actions, func(a Action) bool { return a.Kind == Lead }) || w.in.File.Content != before {
		t.Errorf("it does %v", kinds(r))
	}
	w.in.Services[0].Ours = false
	if r := Decide(w.in); !slices.ContainsFunc(r.Actions, func(a Action) bool { return a.Kind == Lead }) {
		t.Errorf("the Service is another's, and it does %v", kinds(r))
	}
}

// A member whose Service has no IP is not started: at that of its pod no other would find it.
func TestAServiceWithoutAnIP(t *testing.T) {
	kind := emptying
	kind.AddressFrom = []v1alpha1.AddressSource{v1alpha1.AddressFromService}
	kind.Ports = func(int32) []corev1.ServicePort { return []corev1.ServicePort{{Port: 4500}} }
	w := newWorld(kind, 1, t.Fatalf)
	w.step(-1)
	w.step(-1)
	w.in.Services[0].IP = ""
	w.step(-1)
	r := w.step(-1)
	if slices.ContainsFunc(kinds(r), func(k string) bool { return k == "makePod kv-member-1" }) || len(w.in.Pods) > 0 || !slices.Contains(reasons(&r), string(PodUnscheduled)) {
		t.Errorf("it does %v: %v", kinds(r), reasons(&r))
	}
}

// Until the first members are asked to form a system, the file is chosen anew where they are elsewhere: it reaches all of them, and one system is formed by it.
func TestTheFileIsChosenAnew(t *testing.T) {
	for name, test := range map[string]struct {
		image  string
		change func(w *world)
	}{
		"the image is corrected": {"broken", func(w *world) { w.image("etcd") }},
		"the image is corrected of members that are replaced": {"broken", func(w *world) {
			w.in.Kind.Replaced = []string{w.group().Role}
			w.image("etcd")
		}},
		"a pod is lost": {"broken", func(w *world) { w.gone("kv-member-2"); w.image("etcd:2") }},
		"all are lost":  {"etcd", func(w *world) { w.in.Pods = nil }},
		"one is lost that has taken the file": {"etcd", func(w *world) {
			w.pass()
			w.gone("kv-member-1")
		}},
		"the ConfigMap is deleted with one": {"etcd", func(w *world) {
			w.in.File = nil
			w.gone("kv-member-1")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(emptying, 3, t.Fatalf)
			w.image(test.image)
			for range 60 {
				if w.in.File != nil {
					break
				}
				w.pass()
				w.step(-1)
			}
			before := w.in.Set.Status.ClusterFile
			test.change(w)
			if !w.settle() {
				t.Fatalf("it is not complete: %+v", w.in.Set.Status)
			}
			if w.first == before || before == "" || w.in.Set.Status.FormRequestTime == nil {
				t.Errorf("it is formed by %q, and %q was chosen first", w.first, before)
			}
		})
	}
}

// Once they were asked, the file stays: there may be a system. What can be done is said.
func TestTheFileStaysOnceTheyWereAsked(t *testing.T) {
	w := newWorld(emptying, 3, t.Fatalf)
	for range 60 {
		if w.in.Set.Status.FormRequestTime != nil {
			break
		}
		w.pass()
		w.step(-1)
	}
	before := w.in.Set.Status.ClusterFile
	w.in.Pods = nil
	for range 20 {
		w.pass()
		w.step(-1)
	}
	w.look()
	r := Decide(w.in)
	if r.Status.ClusterFile != before || r.Status.Formed != nil || before == "" || len(w.in.Pods) != 3 {
		t.Errorf("%q was chosen, and then %q", before, r.Status.ClusterFile)
	}
	want := "where it stays so, and nothing is to be kept: kubectl delete memberset kv -n shop; kubectl delete pvc -n shop -l usher.sh/member-set=kv; kubectl delete configmap kv -n shop; then write the MemberSet anew"
	if !slices.ContainsFunc(r.Status.Blockers, func(b v1alpha1.ReplacementBlocker) bool { return strings.HasSuffix(b.Remedy, want) }) {
		t.Errorf("it waits for %+v", r.Status.Blockers)
	}
}

// Before the system is formed: a pod that has started cannot have formed it unasked, and is made anew; more members are made later, which is said.
func TestWhatChangesBeforeTheSystemIsFormed(t *testing.T) {
	for name, test := range map[string]struct {
		kind Kind
		want string // of the pod
	}{
		"found by a file": {emptying, "deletePod kv-member-1"},
		"with a list":     {listing, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(test.kind, 3, t.Fatalf)
			for range 60 {
				if len(w.in.Pods) == 3 {
					break
				}
				w.step(-1)
			}
			for i := range w.in.Pods { // they wait for the file, or for the others
				w.in.Pods[i].Node, w.in.Pods[i].Ready = "n1", true
			}
			w.image("etcd:2")
			w.group().Replicas = new(int32(5))
			r := Decide(w.in)
			if goes := slices.Contains(kinds(r), "deletePod kv-member-1"); goes != (test.want != "") {
				t.Errorf("it does %v", kinds(r))
			}
			said := allSaid(&r.Status)
			if !strings.Contains(said, "group member: 2 more are asked for than form the system") {
				t.Errorf("it says %s", said)
			}
			if waits := strings.Contains(said, "pod kv-member-1 is of another template, and is made anew once its system is formed"); waits == (test.want != "") {
				t.Errorf("it says %s", said)
			}
		})
	}
}
