package memberset

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
)

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// listing is a kind with a list of members, plain one without.
var (
	listing = Kind{
		Name: "etcd", Lists: true, LostFirst: true, AddressFrom: []v1alpha1.AddressSource{v1alpha1.AddressFromService}, Ports: func(int32) []corev1.ServicePort { return []corev1.ServicePort{{Name: "peer", Port: 2380}} },
		Addresses: func(_ *corev1.PodSpec, id, namespace string) []string {
			return []string{"http://" + id + "." + namespace + ".svc:2380"}
		},
		Environment: func(_ *corev1.PodSpec, _ *v1alpha1.System, start *Start) []corev1.EnvVar {
			state := "existing"
			if start.First {
				state = "new"
			}
			return []corev1.EnvVar{{Name: "STATE", Value: state}, {Name: "PEERS", Value: fmt.Sprint(len(start.Peers))}}
		},
	}
	plain = Kind{Name: "kubernetes"}
	// emptying is a kind whose members are emptied, and are found by a file that names the first three or fewer.
	emptying = Kind{Name: "foundationdb", Empties: true, File: &FileKind{
		Key: func(*v1alpha1.System) v1alpha1.ConfigMapKey { return v1alpha1.ConfigMapKey{Name: "kv", Key: "file"} },
		Begin: func(_ *v1alpha1.MemberSet, first []Candidate) (file, missing string) {
			var ips []string
			for i := range min(3, len(first)) {
				ips = append(ips, first[i].IP)
			}
			return "kv:0@" + strings.Join(ips, ","), ""
		},
		Cluster:   func(file string) string { cluster, _, _ := strings.Cut(file, ":"); return cluster },
		Addresses: func(file string) []string { _, ips, _ := strings.Cut(file, "@"); return strings.Split(ips, ",") },
	}}
)

// world is a cluster with one set in it. It carries out what is decided, as an apiserver, a scheduler, kubelets and a system would.
type world struct {
	in       Input
	fail     func(format string, args ...any)
	clock    time.Time
	serial   int
	nodes    []string
	lost     map[string]bool // nodes
	given    map[string]bool // ids that there were
	avoided  map[string][]string
	bound    map[string]string // the one node that a member may be on
	begun    bool              // the system has been formed
	together bool              // the set was one whose members may all be removed at once
	permits  map[string]bool
	cordoned map[string]bool      // nodes
	pinned   bool                 // volumes can be used on their nodes alone
	disks    map[string]*disk     // by member, where members are emptied
	leads    []string             // the IPs that the file has
	file     int                  // how often it has changed
	taken    map[types.UID]string // the file that the processes of a pod have taken
	first    string               // the file by which the system was formed
	mute     bool                 // the system does not answer
	upkeep   upkeep
	leading  string // the member by which the system says that it is found
	uptime   time.Duration
	at       string // the IP at which the system says that members are; "": those of their pods
}

func newWorld(kind Kind, replicas int32, fail func(string, ...any)) *world {
	set := &v1alpha1.MemberSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "kv", UID: "set", Generation: 1},
		Spec: v1alpha1.MemberSetSpec{Groups: []v1alpha1.MemberGroup{{
			Name: "member", Role: "etcd-member", Replicas: &replicas,
			Template:             runtime.RawExtension{Raw: []byte(`{"metadata":{"labels":{"app":"kv"}},"spec":{"containers":[{"name":"etcd","image":"etcd"}]}}`)},
			VolumeClaimTemplates: []v1alpha1.VolumeClaimTemplate{{Name: "data", Spec: runtime.RawExtension{Raw: []byte(`{"accessModes":["ReadWriteOnce"]}`)}}},
		}}},
	}
	w := &world{
		in: Input{Set: set, Kind: kind}, fail: fail, clock: noon, nodes: []string{"n1", "n2", "n3", "n4", "n5", "n6"}, lost: map[string]bool{}, given: map[string]bool{},
		avoided: map[string][]string{}, bound: map[string]string{}, permits: map[string]bool{}, cordoned: map[string]bool{}, disks: map[string]*disk{}, taken: map[types.UID]string{},
	}
	w.in.List.Unread = "no endpoint answers"
	return w
}

func (w *world) uid() types.UID {
	w.serial++
	return types.UID(fmt.Sprintf("u%d", w.serial))
}

// step decides once and carries out the first of what follows, as many as are given; negative: all.
func (w *world) step(most int) Result {
	w.clock = w.clock.Add(time.Second)
	w.in.Now = w.clock
	w.look()
	result := Decide(w.in)
	before := w.in.Set.Status
	w.mayTogether()
	w.in.Set.Status = *result.Status.DeepCopy()
	w.checkStatus(&before)
	w.checkFile()
	for i := range result.Actions {
		if most >= 0 && i >= most {
			break
		}
		w.carryOut(&result.Actions[i])
	}
	return result
}

func (w *world) checkStatus(before *v1alpha1.MemberSetStatus) {
	var removing []string
	began := false
	w.checkExcluded()
	for i := range w.in.Set.Status.Members {
		m := &w.in.Set.Status.Members[i]
		w.given[m.ID] = true
		if len(m.AvoidNodes) > 0 {
			w.avoided[m.ID] = m.AvoidNodes
		}
		if zone := zoneOf(m); leaving(m) && m.Removal.Step != v1alpha1.RemovalRemoved && !w.ends(m.ID) && !slices.Contains(removing, zone) {
			removing = append(removing, zone)
		}
		if went := slices.ContainsFunc(before.Members, func(b v1alpha1.SetMember) bool { return b.ID == m.ID && leaving(&b) }); leaving(m) && !went {
			began = true
			if whole(m) {
				w.checkReplaced(m)
			}
		}
	}
	if len(removing) > 1 && began && !w.mayTogether() {
		w.fail("members are removed at once in zones %v", removing)
	}
}

// ends: the member has left its system's list, and its pod is gone or goes.
func (w *world) ends(id string) bool {
	runs := slices.ContainsFunc(w.in.Pods, func(p Pod) bool { return p.Name == id && !p.Terminating })
	listed := w.in.Kind.Lists && (w.mute || slices.ContainsFunc(w.in.List.Entries, func(e Entry) bool { return e.Name == id }))
	return !runs && !listed
}

// mayTogether: removals of several zones may have begun at once, if not today.
func (w *world) mayTogether() bool {
	w.together = w.together || !w.in.Kind.Lists && w.in.Set.Spec.Removal.Batch == v1alpha1.BatchAll
	return w.together
}

// checkReplaced fails where a member begins to go, and fewer than there are to be do their work without it: but for one that its list does not do without.
func (w *world) checkReplaced(m *v1alpha1.SetMember) {
	n := int32(0)
	for i := range w.in.Set.Status.Members {
		if other := &w.in.Set.Status.Members[i]; other.Removal == nil && whole(other) {
			n++
		}
	}
	lost := slices.ContainsFunc(w.in.List.Entries, func(e Entry) bool { return e.Name == m.ID && !e.Healthy })
	if wanted := w.in.Set.Status.Groups[0].Replicas; n < wanted && !lost && m.ForNode == "" {
		w.fail("%s goes, and %d of %d do their work without it", m.ID, n, wanted)
	}
}

func (w *world) carryOut(a *Action) {
	switch a.Kind {
	case MakePolicy:
		w.in.Policy = &Policy{UID: w.uid(), Ours: true, Spec: a.Policy.Spec}
	case ChangePolicy:
		w.in.Policy.Spec = a.Policy.Spec
	case MakeService:
		w.in.Services = append(w.in.Services, Service{Object{Name: a.Service.Name, Member: a.Member, UID: w.uid(), Ours: true}, fmt.Sprintf("10.1.0.%d", w.serial)})
	case MakeClaim:
		w.in.Claims = append(w.in.Claims, Claim{Object: Object{Name: a.Claim.Name, Member: a.Member, UID: w.uid(), Ours: true}, Made: a.Claim.Annotations[TemplateHashAnnotation], Volume: "pv-" + a.Claim.Name, VolumeUID: "v", Known: true})
	case MakePod:
		w.makePod(a)
	case Admit:
		w.admit(a)
	case Expel:
		w.mayGo(a.Member)
		if !w.othersUnhealthy(a.Entry.ID) {
			w.in.List.Entries = slices.DeleteFunc(w.in.List.Entries, func(e Entry) bool { return e.ID == a.Entry.ID })
		}
	case MakeFile:
		if w.in.File != nil {
			w.fail("the ConfigMap is made twice")
		}
		w.in.File = &File{Object: Object{Name: a.ConfigMap.Name, UID: w.uid(), Ours: true}, Version: "1", Content: a.ConfigMap.Data["file"]}
	case ChangeFile:
		w.in.File.Content = a.ConfigMap.Data["file"]
	case Form:
		w.form()
	case Lead:
		w.leads, w.file = nil, w.file+1
		w.choose()
	case Empty:
		w.empty(a.Member)
	case Refill:
		w.disks[a.Member].excluded = false
	case Maintain:
		w.maintain(a)
	case EndMaintenance:
		w.endMaintenance(a)
	case Mark:
		if !slices.ContainsFunc(w.in.Requests, func(q Request) bool { return q.Name == a.Request.Name && !q.Over }) {
			w.in.Requests = append(w.in.Requests, Request{Name: a.Request.Name, UID: w.uid(), Role: a.Request.Spec.Member.Role, Member: a.Member, Own: true})
		}
	case Unmark:
		for i := range w.in.Requests {
			w.in.Requests[i].Deleted = w.in.Requests[i].Deleted || w.in.Requests[i].UID == a.UID
		}
	case TryPod: // it is accepted
	case DeletePod:
		w.deletePod(a)
	case EvictPod, KeepPod:
		for i := range w.in.Pods {
			if p := &w.in.Pods[i]; p.UID == a.UID {
				p.Asked = a.Kind == EvictPod
			}
		}
	case RelabelPod:
		for i := range w.in.Pods {
			if p := &w.in.Pods[i]; p.UID == a.UID {
				p.Labels, p.Annotations = merged(p.Labels, a.Labels), merged(p.Annotations, a.Annotations)
				p.OnEviction = p.Annotations[v1alpha1.OnEvictionAnnotation]
			}
		}
	case RetainVolume:
		for i := range w.in.Claims {
			if w.in.Claims[i].Volume == a.Name {
				w.in.Claims[i].Retained = true
			}
		}
	case DeleteClaim:
		w.deleteClaim(a)
	case DeleteService:
		w.in.Services = slices.DeleteFunc(w.in.Services, func(s Service) bool { return s.UID == a.UID })
	}
}

func merged(a, b map[string]string) map[string]string {
	a = maps.Clone(a)
	if a == nil {
		a = map[string]string{}
	}
	maps.Copy(a, b)
	return a
}

func (w *world) makePod(a *Action) {
	if slices.ContainsFunc(w.in.Pods, func(p Pod) bool { return p.Name == a.Pod.Name }) {
		w.fail("pod %s is made twice", a.Pod.Name)
	}
	if env := a.Pod.Spec.Containers[0].Env; w.in.Kind.Lists && (env[0].Value == "new") == w.begun {
		w.fail("pod %s starts with %v, and the system is formed: %t", a.Pod.Name, env, w.begun)
	}
	w.checkClaims(a.Pod)
	w.in.Pods = append(w.in.Pods, Pod{
		Object: Object{Name: a.Pod.Name, Member: a.Member, UID: w.uid(), Ours: true}, Version: "1", Made: a.Pod.Annotations[TemplateHashAnnotation],
		Labels: a.Pod.Labels, Annotations: a.Pod.Annotations, Spec: &a.Pod.Spec, OnEviction: a.Pod.Annotations[v1alpha1.OnEvictionAnnotation],
	})
	delete(w.avoided, a.Member)
	delete(w.bound, a.Member)
	if affinity := a.Pod.Spec.Affinity; affinity != nil {
		for _, f := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields {
			if f.Operator == corev1.NodeSelectorOpIn {
				w.bound[a.Member] = f.Values[0]
				continue
			}
			w.avoided[a.Member] = append(w.avoided[a.Member], f.Values[0])
		}
	}
}

// mayGo fails where a member that did its work goes without the leave of its request.
func (w *world) mayGo(id string) {
	at := slices.IndexFunc(w.in.Set.Status.Members, func(m v1alpha1.SetMember) bool { return m.ID == id })
	if at < 0 || !leaving(&w.in.Set.Status.Members[at]) || !w.permits[id] {
		w.fail("member %s goes, and its request does not say that it may", id)
	}
}

func (w *world) deletePod(a *Action) {
	at := slices.IndexFunc(w.in.Pods, func(p Pod) bool { return p.UID == a.UID && p.Version == a.Version })
	if at < 0 {
		return
	}
	m := slices.IndexFunc(w.in.Set.Status.Members, func(m v1alpha1.SetMember) bool { return m.ID == a.Member })
	remade := m >= 0 && joining(&w.in.Set.Status.Members[m]) && !leaving(&w.in.Set.Status.Members[m])
	if !w.in.Pods[at].Finished && !remade {
		w.mayGo(a.Member)
		w.checkEmpty(a.Member)
		if w.in.Kind.Lists && slices.ContainsFunc(w.in.List.Entries, func(e Entry) bool { return e.Name == a.Member }) {
			w.fail("the pod of %s goes, which is on the list", a.Member)
		}
	}
	w.in.Pods[at].Terminating = true
}

func (w *world) deleteClaim(a *Action) {
	w.mayGo(a.Member)
	at := slices.IndexFunc(w.in.Claims, func(c Claim) bool { return c.UID == a.UID })
	if at >= 0 && !w.in.Claims[at].Retained {
		w.fail("claim %s goes, and its volume with it", a.Name)
	}
	if slices.ContainsFunc(w.in.Pods, func(p Pod) bool { return p.Name == a.Member }) {
		w.fail("claim %s goes before its pod", a.Name)
	}
	w.in.Claims = slices.DeleteFunc(w.in.Claims, func(c Claim) bool { return c.UID == a.UID })
}

// othersUnhealthy reports whether a voter beside one is not healthy.
func (w *world) othersUnhealthy(id string) bool {
	return slices.ContainsFunc(w.in.List.Entries, func(e Entry) bool { return e.ID != id && e.Whole && !e.Healthy })
}

// admit is as etcd does it: one learner at a time, while all voters are there, and it gets its vote once it has started.
func (w *world) admit(a *Action) {
	for i := range w.in.List.Entries {
		switch e := &w.in.List.Entries[i]; {
		case slices.Equal(e.Addresses, a.Addresses):
			e.Whole = e.Whole || e.Name != ""
			return
		case !e.Whole:
			return
		}
	}
	if w.othersUnhealthy("") {
		return
	}
	e := Entry{}
	e.ID, e.Addresses = string(w.uid()), a.Addresses
	w.in.List.Entries = append(w.in.List.Entries, e)
}

// pass has pods be scheduled and start, or go, and the system notice.
func (w *world) pass() {
	w.distribute()
	w.upkeeps()
	for i := range w.in.Pods {
		p := &w.in.Pods[i]
		if p.Node == "" && !p.Terminating {
			w.schedule(p)
		}
		p.Cordoned = w.cordoned[p.Node]
		p.Waiting = ""
		if p.Node != "" && broken(p) {
			p.Waiting = "container etcd: ImagePullBackOff"
		}
		p.Ready = p.Node != "" && !w.lost[p.Node] && !p.Terminating && !p.Finished && !broken(p) && w.serves(p.Name)
	}
	w.take()
	w.in.Pods = slices.DeleteFunc(w.in.Pods, func(p Pod) bool { return p.Terminating && !w.lost[p.Node] })
	w.gather()
	for i := range w.in.List.Entries {
		e := &w.in.List.Entries[i]
		e.Healthy = slices.ContainsFunc(w.in.Pods, func(p Pod) bool {
			return p.Name == e.Name && p.Node != "" && !w.lost[p.Node] && !p.Terminating && !p.Finished
		})
	}
}

func (w *world) schedule(p *Pod) {
	for i := range w.nodes {
		node := w.nodes[(i+w.serial)%len(w.nodes)]
		if only := w.bound[p.Name]; !w.lost[node] && !w.cordoned[node] && !slices.Contains(w.avoided[p.Name], node) && (only == "" || only == node) {
			p.Node, p.Zone, p.Version, p.Pinned, p.IP = node, "z"+node[1:], "2", new(w.pinned), fmt.Sprintf("10.0.0.%d", w.serial)
			w.serial++
			return
		}
	}
}

// gather forms the system once all of the first members run.
func (w *world) gather() {
	if !w.in.Kind.Lists || w.begun || len(w.in.Set.Status.Members) == 0 {
		return
	}
	var entries []Entry
	for i := range w.in.Set.Status.Members {
		m := &w.in.Set.Status.Members[i]
		if !slices.ContainsFunc(w.in.Pods, func(p Pod) bool { return p.Name == m.ID && p.Node != "" && !w.lost[p.Node] && !broken(&p) }) {
			return
		}
		e := Entry{Name: m.ID, Whole: true}
		e.ID, e.Addresses = string(w.uid()), w.in.Kind.Addresses(nil, m.ID, "shop")
		entries = append(entries, e)
	}
	w.begun = true
	w.in.List = Listing{Cluster: "c1", Entries: entries}
}

// evict is what the responder does: it evicts pods that are asked to go, as long as all others do their work.
func (w *world) evict() {
	for i := range w.in.Pods {
		p := &w.in.Pods[i]
		held := p.OnEviction == "" || replacedOnEviction(p.OnEviction, p)
		if (p.Asked || p.Wanted) && !held && !p.Terminating && w.maintained(p) && !slices.ContainsFunc(w.in.Pods, func(o Pod) bool { return o.Name != p.Name && (!o.Ready || o.Terminating) }) {
			w.goesMaintained(p)
			p.Terminating = true
		}
	}
}

// permit is what the controller of requests does: it lets one member go at a time, once the set says that it has enough without it, and ends a request
// whose member is gone.
func (w *world) permit() {
	busy := w.in.Kind.Lists && slices.ContainsFunc(w.in.Requests, func(q Request) bool { return q.Removing && !q.Over })
	for i := range w.in.Requests {
		q := &w.in.Requests[i]
		at := slices.IndexFunc(w.in.Set.Status.Members, func(m v1alpha1.SetMember) bool { return m.ID == q.Member })
		switch {
		case q.Over:
		case at < 0:
			q.Over = true
		case q.Removing && w.in.Set.Status.Members[at].Removal != nil && w.in.Set.Status.Members[at].Removal.Step == v1alpha1.RemovalGrowing: // it waits again
			q.Removing = false
			delete(w.permits, q.Member)
		case q.Deleted || q.Removing || busy || w.in.Set.Status.Members[at].Removal == nil || w.in.Set.Status.Members[at].Removal.RequestUID != q.UID:
		case w.in.Set.Status.Members[at].Removal.Step == v1alpha1.RemovalReplaced:
			q.Removing, busy = true, w.in.Kind.Lists
			w.permits[q.Member] = true
		}
	}
	for i := range w.in.Requests {
		q := &w.in.Requests[i]
		begun := slices.ContainsFunc(w.in.Set.Status.Members, func(m v1alpha1.SetMember) bool { return m.ID == q.Member && leaving(&m) })
		if q.Deleted && !begun && !q.Over { // it is cancelled in time
			q.Over = true
			if q.Removing {
				delete(w.permits, q.Member)
			}
		}
	}
	w.note()
}

// note has the policy say which members are being replaced.
func (w *world) note() {
	if w.in.Policy == nil {
		return
	}
	w.in.Policy.Permits = nil
	for i := range w.in.Requests {
		if q := &w.in.Requests[i]; q.Removing && !q.Over {
			w.in.Policy.Permits = append(w.in.Policy.Permits, q.UID)
		}
	}
}

// settle lets everything go on without anything that happens, and reports whether the set is complete then.
func (w *world) settle() bool {
	for range 300 {
		w.pass()
		w.permit()
		w.evict()
		if r := w.step(-1); len(r.Actions) == 0 && !r.Progress && ready(&r.Status) {
			return true
		}
	}
	return false
}

func ready(status *v1alpha1.MemberSetStatus) bool {
	return slices.ContainsFunc(status.Conditions, func(c metav1.Condition) bool {
		return c.Type == v1alpha1.ConditionReady && c.Status == metav1.ConditionTrue
	})
}

func (w *world) ids() []string {
	var ids []string
	for i := range w.in.Set.Status.Members {
		ids = append(ids, w.in.Set.Status.Members[i].ID)
	}
	return ids
}

// mark is a person's request.
func (w *world) mark(id string) {
	w.in.Requests = append(w.in.Requests, Request{Name: "anna-" + id, UID: w.uid(), Role: w.group().Role, Member: id})
}

// goes is a person's request that has its permit, and its set is so far.
func (w *world) goes(id string, step v1alpha1.MemberRemovalStep) {
	w.mark(id)
	q := &w.in.Requests[len(w.in.Requests)-1]
	q.Removing = true
	w.memberNamed(id).Removal = &v1alpha1.MemberRemoval{Request: q.Name, RequestUID: q.UID, Step: step}
	w.note()
}
