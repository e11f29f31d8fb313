package histories

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/memberset"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/etcd"
	"usher.sh/usher/internal/system/foundationdb"
	"usher.sh/usher/test/etcdsim"
	"usher.sh/usher/test/fdbsim"
)

// setSite is a system whose members a MemberSet runs: no pod is there but those that Usher makes. The set has the name of firstPolicy, which Usher makes too.
type setSite struct {
	world *world
	// sim is the system of a set of etcd, fdb that of one of FoundationDB; both nil: its members are plain pods, of which one does what another does.
	sim     *etcdsim.Cluster
	fdb     *fdbsim.Cluster
	up      map[string]bool // processes of plain pods, and fdbmonitors
	writing *rand.Rand
	written int

	pool    []*machine // on which pods can be
	plan    []planned  // by what was in the store at a version
	planned int
	retries map[string]bool // processes that ended at once, and that their kubelet starts again
	served  map[string]bool // what probes have said last
	again   time.Time       // when the garbage collector tries next
	sent    map[types.UID]bool

	waits     map[string]time.Time // since when processes of FoundationDB wait for a cluster file
	addresses int                  // that pods were given
	// maintained: pods are, or were, made anew with what is on their volumes, under maintenance.
	maintained bool

	byHand []string // what people have excluded of FoundationDB
	ruined bool     // people have destroyed the last disk that had something of FoundationDB

	setAccount
}

// setGroup is the name of the one group of a set; one of FoundationDB has two, whose names say the classes of their processes.
const (
	setGroup    = "member"
	fdbGroup    = "storage"
	fdbLogGroup = "log"
)

func newEtcdSet(w *world) site {
	s := newSet(w)
	s.sim = etcdsim.Empty(namespace + ".svc")
	return s
}

func newPlainSet(w *world) site { return newSet(w) }

func newSet(w *world) *setSite {
	return &setSite{
		world: w, up: map[string]bool{}, writing: rand.New(rand.NewPCG(w.seed, 3)), planned: -1, retries: map[string]bool{}, served: map[string]bool{},
		sent: map[types.UID]bool{}, waits: map[string]time.Time{}, setAccount: newSetAccount(),
	}
}

// setSite is the site where a MemberSet runs its members, nil where none does.
func (w *world) setSite() *setSite {
	s, _ := w.site.(*setSite)
	return s
}

// set is the MemberSet as the apiserver has it; nil: there is none.
func (w *world) set() *v1alpha1.MemberSet {
	set, _ := w.store.get(memberSets, setKey).(*v1alpha1.MemberSet)
	return set
}

func (s *setSite) role() string {
	switch {
	case s.sim != nil:
		return "etcd-member"
	case s.fdb != nil:
		return foundationdb.Name + "-" + fdbGroup
	}
	return "server"
}

// roleOfID is the role of a member: its id says its group.
func (s *setSite) roleOfID(id string) string {
	if s.fdb != nil && strings.Contains(id, "-"+fdbLogGroup+"-") {
		return foundationdb.Name + "-" + fdbLogGroup
	}
	return s.role()
}

// groupOf is a member's group.
func (s *setSite) groupOf(set *v1alpha1.MemberSet, id string) *v1alpha1.MemberGroup {
	if s.roleOfID(id) != s.role() {
		return &set.Spec.Groups[1]
	}
	return &set.Spec.Groups[0]
}

func (s *setSite) group() string {
	if s.fdb != nil {
		return fdbGroup
	}
	return setGroup
}

// isPlain reports whether the members are plain pods.
func (s *setSite) isPlain() bool { return s.sim == nil && s.fdb == nil }

// populate makes machines for all members and some more, and the set.
func (s *setSite) populate() error {
	w := s.world
	replicas := []int32{3, 3, 3, 5}[w.dice.IntN(4)]
	if s.fdb == nil && (s.sim == nil || w.dice.IntN(10) == 0) {
		replicas = []int32{1, 2, 3, 4}[w.dice.IntN(4)]
	}
	if s.sim != nil && replicas%2 == 0 {
		replicas = 1
	}
	for range int(replicas) + 3 + w.dice.IntN(3) {
		if err := s.addMachine(); err != nil {
			return err
		}
	}
	w.machines[s.firstID()], w.podLives[s.firstID()] = &machine{}, missing
	s.write(s.newSet(replicas))
	return nil
}

func (s *setSite) firstID() string { return firstPolicy + "-" + s.group() + "-1" }

func (s *setSite) newSet(replicas int32) *v1alpha1.MemberSet {
	w := s.world
	set := &v1alpha1.MemberSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: firstPolicy}}
	set.Spec = v1alpha1.MemberSetSpec{
		System: v1alpha1.System{Kubernetes: &v1alpha1.Kubernetes{}}, FaultDomainKey: corev1.LabelTopologyZone,
		Evidence: v1alpha1.EvidenceLimits{MaxAge: metav1.Duration{Duration: maxAge}, Timeout: metav1.Duration{Duration: 5 * time.Second}},
		Removal:  v1alpha1.MemberRemovalTerms{VolumeClaims: v1alpha1.VolumeClaimsRetain, Batch: v1alpha1.BatchZone, MinInterval: &metav1.Duration{Duration: 10 * time.Second}},
		Groups: []v1alpha1.MemberGroup{{
			Name: s.group(), Role: s.role(), Replicas: &replicas, Template: runtime.RawExtension{Raw: []byte(plainTemplate)},
		}},
	}
	switch {
	case s.fdb != nil:
		set.Spec.System = fdbSystem()
		logs := set.Spec.Groups[0].DeepCopy()
		logs.Name, logs.Role, logs.Replicas = fdbLogGroup, s.roleOfID("-"+fdbLogGroup+"-"), new(int32(fdbLeaders+w.dice.IntN(2)))
		set.Spec.Groups = append(set.Spec.Groups, *logs)
	case s.sim != nil:
		set.Spec.System = v1alpha1.System{Etcd: &v1alpha1.Etcd{Access: v1alpha1.Access{Endpoints: setEndpoints()}, MaxLag: 2}}
	default:
		set.Spec.Roles = []v1alpha1.Role{serverRole()}
	}
	if !s.isPlain() || w.dice.IntN(2) == 0 {
		for i := range set.Spec.Groups {
			set.Spec.Groups[i].VolumeClaimTemplates = []v1alpha1.VolumeClaimTemplate{{
				Name: volumeName, Spec: runtime.RawExtension{Raw: []byte(`{"accessModes": ["ReadWriteOnce"]}`)},
			}}
		}
	}
	if w.odds.sets > 1 && w.dice.IntN(2) == 0 {
		set.Spec.Removal.VolumeClaims = v1alpha1.VolumeClaimsDelete
	}
	if w.odds.mends > 0 {
		set.Spec.Repair = drawRepair(w.dice)
	}
	if w.odds.evicted > 0 {
		set.Spec.OnEviction = v1alpha1.OnEvictionReplace
	}
	return set
}

// setEndpoints are a Service, and those of members that may be there: what is asked at first does not depend then on which of two answers that come at one instant
// was the first.
func setEndpoints() []string {
	urls := []string{etcdsim.Service}
	for n := range 9 {
		urls = append(urls, etcdsim.URL(fmt.Sprintf("%s-%s-%d", firstPolicy, setGroup, n+1)))
	}
	return urls
}

const (
	plainTemplate = `{"metadata": {"labels": {"app": "kv"}}, "spec": {"containers": [{"name": "kv", "image": "kv"}]}}`
	otherTemplate = `{"metadata": {"labels": {"app": "kv"}}, "spec": {"containers": [{"name": "kv", "image": "kv:2"}]}}`
	wrongTemplate = `{"metadata": {"labels": {"app": "kv"}}, "spec": {"containers": [{"name": "kv", "image": "kv"}], "volume": []}}`
)

// serverRole is one of plain pods of which another must do its work.
func serverRole() v1alpha1.Role {
	return v1alpha1.Role{
		Name: "server", System: "kubernetes", State: v1alpha1.StatePersistent, Identity: v1alpha1.IdentityUnique,
		Evict:   v1alpha1.Evict{AtOnce: new(int32(1)), MinReady: new(int32(1))},
		Replace: v1alpha1.Replace{Successor: v1alpha1.SuccessorNewIdentity},
	}
}

// members are all of which something is there: an entry in the set's status, a pod, or a process. Before there is any, that is the first that will be.
func (s *setSite) members() []planned {
	if w := s.world; s.planned != w.store.version {
		s.planned = w.store.version
		ids := map[string]bool{}
		if set := w.set(); set != nil {
			for i := range set.Status.Members {
				ids[set.Status.Members[i].ID] = true
			}
		}
		for _, pod := range list[*corev1.Pod](w.store, pods) {
			ids[pod.Name] = true
		}
		for id := range w.ghosts {
			ids[id] = true
		}
		if len(ids) == 0 {
			ids[s.firstID()] = true
		}
		s.replan(slices.Sorted(maps.Keys(ids)))
	}
	return s.plan
}

func (s *setSite) replan(ids []string) {
	s.plan = nil
	for _, id := range ids {
		if s.world.machines[id] == nil {
			s.world.machines[id], s.world.podLives[id] = &machine{}, missing
		}
		s.plan = append(s.plan, planned{pod: id, role: s.roleOfID(id)})
	}
}

// spec is that of the policy that the set has.
func (s *setSite) spec(bool) v1alpha1.EvictionPolicySpec {
	set := s.world.set()
	if set == nil {
		set = s.last
	}
	if s.fdb != nil {
		return memberset.PolicyOf(set, foundationdb.Kind().Set).Spec
	}
	return memberset.PolicyOf(set, &memberset.Kind{}).Spec
}

func (s *setSite) kind(r *replica, real system.Kind) system.Kind {
	switch {
	case s.fdb != nil:
		real.Open = func(spec *v1alpha1.System, access system.Access) (system.System, error) {
			return foundationdb.Over(&fdbLine{r, s.fdb}, r.now, spec, access)
		}
	case s.sim != nil:
		real.Open = func(spec *v1alpha1.System, access system.Access) (system.System, error) {
			return etcd.Over(&etcdLine{r, s.sim}, spec.Etcd.MaxLag, spec.Etcd.Endpoints, access.Timeout), nil
		}
	}
	return real
}

func (s *setSite) tick() {
	w := s.world
	if s.sim != nil {
		if !w.calm && s.written < mostWrites && s.writing.IntN(3) == 0 {
			s.written++
			s.sim.Write("v" + strings.Repeat("i", s.written))
		}
		s.sim.Tick()
	}
	if s.fdb != nil {
		s.tickFDB()
	}
	for _, p := range s.members() {
		s.watch(p.pod)
	}
}

// watch does what a kubelet does with a process that has ended, or that does its work as it did not before.
func (s *setSite) watch(id string) {
	w := s.world
	if s.fdb != nil {
		s.takeFile(id)
	}
	s.hasJoined(id)
	_, haunted := w.ghosts[id]
	runs := w.podLives[id] == runs && !w.crashed[id] && w.store.pod(id) != nil && !haunted
	switch {
	case s.sim != nil && runs && s.sim.Formed() && !s.sim.Runs(id):
		w.note("kubelet: the process of %s ends: it is not on the list of members", id)
		w.crashed[id], s.retries[id] = true, true
		w.probe(id)
	case w.crashed[id] && s.retries[id] && w.podLives[id] == "" && time.Now().Unix()%10 == 0:
		w.revive(id)
	case runs && s.served[id] != s.serves(id):
		w.probe(id)
	}
	if !w.crashed[id] {
		delete(s.retries, id)
	}
}

// serves is what the probe of a process that runs says.
func (s *setSite) serves(id string) bool {
	if s.sim == nil {
		return s.up[id] && !s.world.lost(id)
	}
	return s.sim.Serves(id)
}

func (s *setSite) start(id string, _ bool) {
	if s.isPlain() {
		s.up[id] = true
		return
	}
	s.begin(id)
}

func (s *setSite) stop(id string) {
	delete(s.up, id)
	delete(s.waits, id)
	switch {
	case s.sim != nil:
		s.sim.Kill(id)
	case s.fdb != nil:
		s.fdb.Kill(id)
	}
}

func (s *setSite) wouldLose(id string, away []string) string {
	if entry := s.entryOf(id); s.fdb != nil && s.maintained && entry != nil && (entry.Removal == nil || entry.Removal.Step != v1alpha1.RemovalRemoving) {
		return s.fdb.WouldStop(id, away...)
	}
	if s.fdb != nil {
		return s.fdb.WouldLose(id, away...)
	}
	if s.sim != nil {
		if lose, why := s.sim.WouldLose(id, away...); lose {
			return why
		}
		return ""
	}
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(s.up)), func(o string) bool { return o == id || slices.Contains(away, o) || !s.serves(o) })
	if s.serves(id) && len(others) == 0 {
		return "no other serves"
	}
	return ""
}

// lag is for how long a process of FoundationDB may be in the status that has ended.
func (s *setSite) lag(string) time.Duration {
	if s.fdb != nil {
		return fdbStatus
	}
	return 0
}

func (s *setSite) strike(dice *rand.Rand) string {
	switch {
	case s.fdb != nil:
		return strikeFDB(s.fdb, dice)
	case s.sim == nil:
		return "nothing happens"
	}
	return strikeEtcd(s.sim, s.members(), dice)
}

func (*setSite) fail(*rand.Rand) string { return "" }

func (s *setSite) heal() {
	switch {
	case s.fdb != nil:
		healFDB(s.fdb)
	case s.sim != nil:
		healEtcd(s.sim, s.members())
	}
}

func (s *setSite) lost() []string {
	if s.sim == nil {
		return nil
	}
	return s.sim.Lost()
}

func (*setSite) leads(string) bool { return false }

func (*setSite) unreplicated(string) bool { return false }

func (s *setSite) leftovers() []string {
	if s.fdb == nil || s.gaveUp() {
		return nil
	}
	all := s.excludedFDB()
	for i, entry := range all {
		all[i] = "exclusion " + entry + " stands for ever"
	}
	return all
}
