package histories

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/text"
)

// cause says who made a member indispensable.
type cause int

const (
	natural  cause = iota // the system itself, in time
	accident              // people and machines
	ours                  // a leave that Usher has let through
)

const (
	glass     = "the glass is broken"
	notJudged = "its owner did not have it judged"

	crashedUnseen = "an accident happened too late to be seen, and all others that were let go are noted"
)

// maxAge is how old evidence may be by the API's default.
const maxAge = 10 * time.Second

// safety knows of every member since when it cannot be missed, and why.
type safety struct {
	needed map[string]needed
	// missed is since when members of a ReplicaSet or of an operator have been the only ones that could do their work.
	missed map[string]time.Time
	// let are the members that were let go by Usher and are not back.
	let map[string]letAway
	// excused: a member was taken away that could not be missed, and not by Usher.
	excused bool
	// accident is when people or machines last did something to the system, crashes when a process of each role last crashed.
	accident time.Time
	crashes  map[string]time.Time
}

// letAway is the role of a member that was let go, and when its pod was taken away.
type letAway struct {
	role string
	at   time.Time
}

type needed struct {
	since time.Time
	cause cause
	what  string
	by    string    // the pod whose leave made it so, "" if it was something else
	uid   types.UID // that pod's: another may have its name since
	// crash is when a process of its role had last crashed by then.
	crash time.Time
}

// changed looks at the truth again after something has happened.
func (s *safety) changed(w *world, c cause, what string) { s.changedBy(w, c, what, &corev1.Pod{}) }

func (s *safety) changedBy(w *world, c cause, what string, pod *corev1.Pod) {
	if c == accident {
		s.accident = time.Now()
	}
	s.misses(w)
	for _, p := range w.site.members() {
		why := w.wouldLose(p.pod)
		_, known := s.needed[p.pod]
		switch {
		case why == "":
			delete(s.needed, p.pod)
		case !known:
			s.needed[p.pod] = needed{since: time.Now(), cause: c, what: what, by: pod.Name, uid: pod.UID, crash: s.crashes[p.role]}
		}
	}
}

// wouldLose asks for the truth, with all members that are on their way counted as gone. Nothing runs on a machine that is off, nothing in a
// pod that is on no node, and nothing yet in one whose predecessor's process outlives its pod.
func (w *world) wouldLose(pod string) string {
	object := w.store.pod(pod)
	_, haunted := w.ghosts[pod]
	if w.machines[pod].off || haunted && object != nil || object != nil && object.Spec.NodeName == "" && !w.processRuns(pod) {
		return ""
	}
	var away []string
	for _, p := range w.site.members() {
		if p.pod != pod && w.lingers(p.pod) {
			away = append(away, p.pod)
		}
	}
	return w.site.wouldLose(pod, away)
}

// letGo checks the leave of a pod at the instant at which the apiserver lets it go. What became of the system after the
// evidence may have been observed cannot be known to Usher, unless it has done it itself; and neither what the system finds out only
// later.
func (s *safety) letGo(w *world, r *removal, pod *corev1.Pod) {
	why, role := w.wouldLose(pod.Name), w.roleOf(pod.Name)
	n := s.needed[pod.Name]
	excuse := r.excuse
	switch {
	case excuse == "" && text.Line(pod.Annotations[v1alpha1.BreakGlassAnnotation]) != "":
		excuse = glass
	case excuse == "" && pod.Status.Phase == corev1.PodFailed:
		r.excuse = "its process was ended by its kubelet before"
		excuse = r.excuse
	case excuse == "" && pod.UID != r.judged: // nothing is written down of this one, and nothing could be
		r.excuse = "another pod has the name by now"
		excuse = r.excuse
	case excuse == "" && w.unjudged(r):
		r.excuse = notJudged
		excuse = r.excuse
	case excuse == "" && w.strays(r, n.by) != "":
		excuse = "no policy claims " + w.strays(r, n.by) + ", which is on its way or has left"
	case excuse == "" && why != "":
		excuse = s.unseen(w, r, pod)
	}
	w.note("%s takes %s (%s) away; truth: %s; excuse: %s", r.user, pod.Name, pod.UID, cmp.Or(why, "nothing is lost"), cmp.Or(excuse, "none"))
	if why != "" && excuse == "" {
		w.fail("SAFETY", "%s may take %s away, and %s (so since %.3f: %s)", r.user, pod.Name, why, n.since.Sub(w.begun).Seconds(), n.what)
	}
	w.checkFires(r, pod)
	if excuse != "" && (why != "" || r.excuse != "") || excuse == glass && w.site.leads(pod.Name) {
		s.excused = true
	}
	if excuse == glass {
		r.excuse = excuse
	}
	if r.excuse == "" {
		s.let[pod.Name] = letAway{role, time.Now()}
	}
}

// unseen says what made the pod indispensable that the replica which was asked cannot have known, "" if nothing did.
func (s *safety) unseen(w *world, r *removal, pod *corev1.Pod) string {
	n, role := s.needed[pod.Name], w.roleOf(pod.Name)
	horizon := r.horizon.Add(-w.site.lag(role))
	late := !n.since.Before(horizon)
	unlucky := late && !s.accident.Before(horizon) && s.notedOthers(w, role, pod.Name, horizon)
	switch {
	case w.divided(pod, n):
		return "its policy does not claim " + n.by + ", which another has let go"
	case unlucky && !n.crash.Before(horizon):
		return crashedUnseen
	case slices.Contains(r.seen, n.uid):
		return ""
	case n.cause != ours && (n.by != "" || late) && !s.anotherOf(role, pod.Name):
		return "it happened too late to be seen: " + n.what
	case unlucky:
		return crashedUnseen
	}
	return ""
}

// strays names another member that no policy claimed, since its owner says that it does not count, and that is on its way or away, or
// whose leave has made the pod indispensable.
func (w *world) strays(r *removal, by string) string {
	for _, p := range w.site.members() {
		if p.pod != r.pod && (w.lingers(p.pod) || w.podLives[p.pod] != runs || p.pod == by) && w.unclaimed(p.pod, r.horizon) {
			return p.pod
		}
	}
	return ""
}

// anotherOf reports whether Usher has let go another member of the role that is not back.
func (s *safety) anotherOf(role, pod string) bool {
	for other, its := range s.let {
		if other != pod && its.role == role {
			return true
		}
	}
	return false
}

// notedOthers reports whether a policy lists every other member of the role that Usher has let go and that is not back, or it was away before the evidence was
// observed, and nothing of it runs: then it was not forgotten, and what was not known is what happened to the rest.
func (s *safety) notedOthers(w *world, role, pod string, horizon time.Time) bool {
	noted := map[string]bool{}
	for _, policy := range list[*v1alpha1.EvictionPolicy](w.store, policies) {
		for i := range policy.Status.Leaving {
			noted[policy.Status.Leaving[i].PodName] = true
		}
	}
	for other, its := range s.let {
		if away := its.at.Before(horizon) && !w.processRuns(other); other != pod && its.role == role && !noted[other] && !away {
			return false
		}
	}
	return true
}

func (w *world) roleOf(pod string) string {
	for _, p := range w.site.members() {
		if p.pod == pod {
			return p.role
		}
	}
	return ""
}
