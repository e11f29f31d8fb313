package histories

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/memberset"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system/foundationdb"
	"usher.sh/usher/test/fdbsim"
)

const (
	fdbCopies  = 2 // of everything, by redundancy double
	fdbLeaders = 3 // coordinators, by redundancy double
	fdbStatus  = 5 * time.Second
)

// fdbFile is where the cluster file of a set of FoundationDB stands.
var fdbFile = v1alpha1.ConfigMapKey{Name: firstPolicy + "-config", Key: "cluster-file"}

// newFDBSet is a set of FoundationDB: its members are emptied before they go, and found by a file.
func newFDBSet(w *world) site {
	s := newSet(w)
	s.fdb = fdbsim.Empty(fdbCopies)
	return s
}

// fdbSystem declares a FoundationDB. It waits for as little as the API has it.
func fdbSystem() v1alpha1.System {
	return v1alpha1.System{FoundationDB: &v1alpha1.FoundationDB{
		ClusterFile: v1alpha1.ClusterFile{ConfigMap: &fdbFile}, Version: "7.3.79", Redundancy: v1alpha1.RedundancyDouble,
		Waits: v1alpha1.FoundationDBWaits{
			ExcludeAfterRecovery: &metav1.Duration{Duration: 5 * time.Second}, IncludeAfterRecovery: &metav1.Duration{Duration: 10 * time.Second},
			Missing: &metav1.Duration{Duration: 2 * time.Minute},
		},
	}}
}

// configMap reads a ConfigMap past the cache.
func (r *replica) configMap(_ context.Context, key snapshot.Key) (*corev1.ConfigMap, error) {
	found, _ := r.world.store.get(configMaps, key).(*corev1.ConfigMap)
	if found == nil {
		return nil, notFound(configMaps, key.Name)
	}
	return duplicate(found), nil
}

// asksFDB reports whether a key is a set of FoundationDB, at which the manager looks again within a minute: what changes there is no event.
func (r *replica) asksFDB(item work, at time.Time) bool {
	s := r.world.setSite()
	return s != nil && s.fdb != nil && item.controller == setController && time.Until(at) <= time.Minute
}

// address is the IP of a new pod.
func (s *setSite) address() string {
	s.addresses++
	return fmt.Sprintf("10.1.%d.%d", s.addresses/200, s.addresses%200+1)
}

// takeFile has a process that has no cluster file yet take what its kubelet brings it: at once what was there before, and what is written since when its pod
// changes, or after a minute.
func (s *setSite) takeFile(id string) {
	w := s.world
	since, waits := s.waits[id]
	pod := w.store.pod(id)
	file, _ := w.store.get(configMaps, client.ObjectKey{Namespace: namespace, Name: fdbFile.Name}).(*corev1.ConfigMap)
	if !waits || pod == nil || file == nil || file.Data[fdbFile.Key] == "" {
		return
	}
	if late := time.Since(since); late > 0 && late < time.Minute && pod.Annotations[memberset.FileHashAnnotation] == "" {
		return
	}
	delete(s.waits, id)
	w.note("kubelet: the process of %s has the cluster file %s", id, strings.TrimSpace(file.Data[fdbFile.Key]))
	s.fdb.Join(fdbsim.Process{
		ID: monitored(pod, "locality-instance_id"), Zone: monitored(pod, "locality-zoneid"), Class: monitored(pod, "class"), Address: pod.Status.PodIP + ":4500",
	}, file.Data[fdbFile.Key])
	w.safety.changed(w, natural, id+" has the cluster file")
}

// monitored is what the configuration of a pod's fdbmonitor says.
func monitored(pod *corev1.Pod, name string) string {
	for line := range strings.Lines(env(pod, "FDB_MONITOR_CONF")) {
		if value, is := strings.CutPrefix(line, name+" = "); is {
			return strings.NewReplacer("$(USHER_NODE_NAME)", pod.Spec.NodeName, "$(USHER_POD_IP)", pod.Status.PodIP).Replace(strings.TrimSpace(value))
		}
	}
	return ""
}

// tickFDB lets a second pass. Nothing that it has may be lost but with the last disk that has it, which people have destroyed.
func (s *setSite) tickFDB() {
	s.fdb.Advance(time.Second)
	if n := s.fdb.Lost(); n > 0 && !s.ruined {
		s.world.fail("DATA", "%d shards are on no disk any more", n)
	}
}

// strikeFDB lets something go wrong or right again in a FoundationDB.
func strikeFDB(sim *fdbsim.Cluster, dice *rand.Rand) string {
	wrong := dice.IntN(2) == 0
	switch dice.IntN(5) {
	case 0:
		sim.LoseAnswers(wrong)
		return fmt.Sprintf("what fdbcli has changed is answered: %t", !wrong)
	case 1:
		sim.Refuse(wrong)
		return fmt.Sprintf("exclusions are refused: %t", wrong)
	case 2:
		sim.Mute(wrong)
		return fmt.Sprintf("exclusions in progress are listed: %t", !wrong)
	case 3:
		behind := time.Duration(dice.IntN(3)) * time.Minute
		sim.Behind(behind)
		return fmt.Sprintf("the slowest storage server is %s behind", behind)
	}
	sim.Recover()
	return "the database recovers"
}

// healFDB ends what went wrong in a FoundationDB.
func healFDB(sim *fdbsim.Cluster) {
	sim.LoseAnswers(false)
	sim.Refuse(false)
	sim.Mute(false)
	sim.Behind(0)
}

// enlarge has a set of FoundationDB have as many members as it cannot do without.
func (s *setSite) enlarge(spec *v1alpha1.MemberSetSpec) {
	for i := range spec.Groups {
		spec.Groups[i].Replicas = new(max(*spec.Groups[i].Replicas, fdbLeaders))
	}
}

// addSpare has a set of FoundationDB have one more of each group, as is said where too few zones may hold what a member does.
func (s *setSite) addSpare(spec *v1alpha1.MemberSetSpec) {
	for i := range spec.Groups {
		spec.Groups[i].Replicas = new(min(*spec.Groups[i].Replicas+1, 9))
	}
}

// excludedFDB are the exclusions that nothing in the set's status says any more: of members that stay, and of such as are gone.
func (s *setSite) excludedFDB() []string {
	return slices.DeleteFunc(s.fdb.Excluded(), func(entry string) bool {
		id, _ := strings.CutPrefix(entry, "locality_instance_id:")
		m := s.entryOf(id)
		return s.world.set() == nil || s.rewrote || m != nil && m.Removal != nil
	})
}

// fdbLine carries the runs of fdbcli through the gate.
type fdbLine struct {
	replica *replica
	sim     *fdbsim.Cluster
}

// Version implements foundationdb.CLI.
func (l *fdbLine) Version(ctx context.Context) (string, error) { return l.sim.Version(ctx) }

// Run implements foundationdb.CLI.
func (l *fdbLine) Run(ctx context.Context, file, command string) (out foundationdb.Output, err error) {
	w := l.replica.world
	err = w.call(ctx, l.replica, l.replica.name+" fdbcli "+command, plain, func() error {
		out, err = l.sim.Run(ctx, file, command)
		return err
	})
	if err != nil {
		return foundationdb.Output{}, err
	}
	return out, nil
}
