package drain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"usher.sh/usher/internal/text"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/snapshot"
)

// stepSurge moves a surge one step: claim, start, wait, remove, scale back. Each
// step is taken only when the effect of the one before was observed.
func (d *decider) stepSurge(s *surge) {
	d.countPods(s)
	record := s.deployment.Surge
	switch {
	case d.blind():
		s.waiting = Blocker{Reason: EvidenceUnavailable, Since: d.Blind, Message: "the API server cannot be watched", Remedy: "wait until it answers again"}
	case record == nil && d.cordoning:
		s.waiting = Blocker{Reason: NodeWaitsTurn, Message: "every node of the drain is cordoned first", Remedy: "wait"}
	case record == nil && s.asked > 0:
		s.waiting = Blocker{Reason: SurgeStarting, Message: fmt.Sprintf("%s of %s is being evicted; the surge waits until that is seen", text.Count(s.asked, "pod"), s.deployment.Name), Remedy: "wait"}
	case record == nil && d.minOfAnother(s):
		d.awaitAnother(s, s.scaler.Surge)
	case record == nil && d.removing(s):
		s.waiting = Blocker{Reason: SurgeStarting, Message: "the controller of " + s.deployment.Name + " is removing pods", Remedy: "wait"}
	case record == nil && d.rollingOut(s.deployment, s.scaler):
		s.waiting = d.rollout(s)
	case record == nil:
		d.startSurge(s)
	case record.ID != d.req.Self.ID:
		d.foreignSurge(s)
	case s.deployment.Replicas != record.To:
		d.dropSurge(s)
	case s.astray > 0:
		d.abandonSurge(s, "its replacements start on the nodes that are being drained")
	case d.growing(s):
	default:
		if why := d.unplaced(s); why != "" {
			d.abandonSurge(s, why)
			return
		}
		d.removeSpare(s)
	}
}

// unplaced says why a surge that --surge=auto has begun is given up for evictions, "" if it is not: the scheduler has found a
// node for no replacement within surgePatience, or none could be created, and a budget may let a pod go without. What was asked for by
// --surge=always is not given up.
func (d *decider) unplaced(s *surge) string {
	if d.req.Surge != SurgeAuto || s.spare > 0 || !d.surgeFailed(s.deployment) || d.underWay(s.deployment) {
		return ""
	}
	if !slices.ContainsFunc(s.leaving, func(p *snapshot.Pod) bool { return !d.refusedBefore(p, s) }) {
		return ""
	}
	why := ""
	for _, p := range d.podsOf(s.deployment) {
		switch {
		case p.Ready || p.Terminating() || p.Finished() || slices.Contains(s.leaving, p):
		case !p.Unschedulable:
			return ""
		case why == "":
			why = fmt.Sprintf("no node took a replacement within %s%s", short(surgePatience), because(p.NotReadyWhy))
		}
	}
	if refused := s.deployment.PodsRefused; why == "" && refused != "" && s.running < int(s.deployment.Replicas) {
		why = fmt.Sprintf("no replacement could be created within %s: %s", short(surgePatience), text.Cut(refused, 300))
	}
	return why
}

func (d *decider) countPods(s *surge) {
	for _, p := range d.podsOf(s.deployment) {
		if p.Terminating() || p.Finished() {
			continue
		}
		if d.asked(p) != nil || d.led.uncounted[p.UID] != nil { // by this drain, or by another one of this process
			s.asked++
			continue
		}
		s.running++
		switch {
		case d.cameBack(p):
			s.astray++
		case d.perhapsGone(p):
		case p.AvailableAt(d.Now, s.deployment.MinReady):
			s.ready++
		case p.Ready:
			d.wake(p.ReadySince.Add(s.deployment.MinReady))
		}
	}
	if s.deployment.Surge != nil {
		s.spare = max(s.ready-int(s.deployment.Surge.Was), 0)
	}
}

// perhapsGone reports whether the pod's eviction got no answer so lately that it may
// have been carried out without being seen yet: it cannot be relied upon.
func (d *decider) perhapsGone(p *snapshot.Pod) bool {
	t := d.lastTry(p)
	if t == nil || t.answer.Code != answers.Unavailable || !d.Now.Before(t.done.Add(unseenFor)) {
		return false
	}
	d.wake(t.done.Add(unseenFor))
	return true
}

// startSurge asks for one replacement for every pod that is to leave.
func (d *decider) startSurge(s *surge) {
	w := s.deployment
	was := d.base(w, s.scaler)
	to := was + int32(len(s.leaving)) //nolint:gosec // pods of a few nodes
	if s.scaler != nil {
		to = min(to, s.scaler.Max)
	}
	s.waiting = Blocker{Reason: SurgeStarting, Message: fmt.Sprintf("%s is being scaled from %d to %d so that replacements run first", w.Name, was, to), Remedy: "wait"}
	if d.scaling(s) || !d.raiseMin(s, was, to) {
		return
	}
	record := &snapshot.SurgeRecord{Drainer: d.self(), Was: was, To: to, Since: d.Now, Step: d.Now}
	d.try(Action{
		Kind: Scale, Workload: w, Replicas: to, Surge: record,
		Why: "as many are started elsewhere as are to leave " + places(s.leaving),
	})
}

// raiseMin keeps an autoscaler from taking the replacements away again. It reports
// whether the Deployment may be scaled.
func (d *decider) raiseMin(s *surge, was, to int32) bool {
	a := s.scaler
	if a == nil || (d.ours(a.Surge) && a.Min >= to) {
		return true
	}
	if d.ours(a.Surge) && a.Min < a.Surge.To {
		d.dropMin(a, s)
		return false
	}
	record := &snapshot.SurgeRecord{Drainer: d.self(), Was: a.Min, To: max(a.Min, to), Base: was, Since: d.Now, Step: d.Now}
	if a.Surge != nil {
		record.Was = a.Surge.Was
	}
	d.try(Action{
		Kind: ScaleMin, Autoscaler: a, Workload: s.deployment, Replicas: record.To, Surge: record,
		Why: "the autoscaler keeps the replacements",
	})
	return false
}

// dropMin gives way to the owner of the autoscaler: raising its minimum again and again
// would go on for as long as the drain does.
func (d *decider) dropMin(a *snapshot.Autoscaler, s *surge) {
	why := fmt.Sprintf("another client set minReplicas of its autoscaler %s to %d during the surge", a.Name, a.Min)
	s.waiting = Blocker{Reason: SurgeStarting, Message: why + "; the surge is given up", Remedy: "wait"}
	back := restoreMin(a, s.deployment)
	back.GiveUp, back.Why = why, why
	d.tryOrStop(s, back)
}

// takenBack says whether another client has removed the record of a surge of this drain;
// "" if none has. What is still scaled is theirs now.
func (d *decider) takenBack(w *snapshot.Workload, a *snapshot.Autoscaler) string {
	switch {
	case w.Surge == nil && d.stripped(Scale, w.UID, w.ResourceVersion):
		return "another client removed usher's record from it during the surge"
	case a != nil && a.Surge == nil && d.stripped(ScaleMin, a.UID, a.ResourceVersion):
		return fmt.Sprintf("another client removed usher's record from its autoscaler %s during the surge", a.Name)
	}
	return ""
}

// stripped reports whether the last scaling of the target wrote a record that was seen
// since. The caller has found none.
func (d *decider) stripped(kind Kind, uid types.UID, version string) bool {
	t := d.led.tries[tryKey{kind, uid}]
	return t != nil && t.answer.Code == answers.Accepted && t.action.Surge != nil && t.version != version
}

// foreignSurge waits for another drain's surge, or undoes it if that drain is dead.
func (d *decider) foreignSurge(s *surge) {
	record := s.deployment.Surge
	if d.foreignAlive(s.deployment.UID, record) {
		if owner := d.led.ownerOf(record); owner != nil {
			d.withAnother(s, owner)
		} else {
			d.awaitAnother(s, record)
		}
		return
	}
	s.waiting = Blocker{Reason: SurgeStarting, Message: "a surge that a killed drain left is being undone first", Remedy: "wait"}
	if !d.costsRestored(s.deployment, nil) {
		return
	}
	for _, a := range undoScale(s.deployment, s.scaler) {
		d.tryOrStop(s, a)
	}
}

// awaitAnother waits for the surge of another drain, which has written the record.
func (d *decider) awaitAnother(s *surge, record *snapshot.SurgeRecord) {
	s.waiting = Blocker{
		Reason: AnotherDrain, Since: record.Since, Retry: LiveUntil(d.View, record.Drainer),
		Message: fmt.Sprintf("%s is surging %s for another drain", text.Name(record.By), s.deployment.Name), Remedy: "wait, or stop the other drain",
	}
	d.wake(s.waiting.Retry)
}

// surgeAlive reports whether the drain that wrote the record may still be running:
// its sign of life is on the nodes it drains.
func (d *decider) surgeAlive(r *snapshot.SurgeRecord) bool {
	return !d.req.Dead[r.ID] && LiveUntil(d.View, r.Drainer).After(d.Now)
}

// dropSurge gives way to a client that scaled the Deployment in between: the number
// of replicas is the owner's.
func (d *decider) dropSurge(s *surge) {
	w := s.deployment
	why := fmt.Sprintf("another client set its replicas to %d during the surge", w.Replicas)
	s.waiting = Blocker{Reason: SurgeStarting, Message: why + "; the surge is given up", Remedy: "wait"}
	if !d.costsRestored(w, s.leaving) {
		return
	}
	if s.scaler != nil && d.ours(s.scaler.Surge) {
		d.try(restoreMin(s.scaler, w))
	}
	d.tryOrStop(s, Action{Kind: Scale, Workload: w, Replicas: w.Replicas, GiveUp: why, Why: why})
}

func (d *decider) ours(r *snapshot.SurgeRecord) bool { return r != nil && r.ID == d.req.Self.ID }

// abandonSurge takes a surge back that leads nowhere; the Deployment is not surged again in this drain.
func (d *decider) abandonSurge(s *surge, why string) {
	w := s.deployment
	s.waiting = Blocker{Reason: SurgeStarting, Message: why + "; the surge is given up", Remedy: "wait"}
	if !d.costsRestored(w, s.leaving) {
		return
	}
	if s.scaler != nil && d.ours(s.scaler.Surge) {
		d.tryOrStop(s, restoreMin(s.scaler, w))
		return
	}
	d.tryOrStop(s, Action{Kind: Scale, Workload: w, Replicas: w.Surge.Was, GiveUp: why, Why: why})
}

// tryOrStop gives a surge up. Where that is refused for good, the pods of the surge are stuck, and the answer says why.
func (d *decider) tryOrStop(s *surge, a Action) {
	if d.try(a) {
		return
	}
	s.waiting.Dead = true
	if why, endless := d.led.rewritten(a.Kind, a.Target()); endless {
		s.waiting.Message += ", but " + why
		object := "deployment " + s.deployment.Name
		if a.Kind == ScaleMin {
			object = "hpa " + a.Autoscaler.Name
		}
		s.waiting.Remedy = fmt.Sprintf("see what writes it: kubectl get -n %s %s -o yaml --show-managed-fields", s.deployment.Namespace, object)
		return
	}
	_, t := d.standing(a.Kind, a.Target(), a.version())
	s.waiting.Message += ", which is refused: " + t.answer.Message
	s.waiting.Remedy = refusalRemedy(t, s.deployment.Namespace)
}

// underWay reports whether a scaling by this drain was sent and is not seen yet.
func (d *decider) underWay(w *snapshot.Workload) bool {
	at, _ := d.standing(Scale, w.UID, w.ResourceVersion)
	return at == underWay
}

// surgePatience is how long a surge without a single ready replacement goes on. A
// cluster autoscaler adds a node well within it.
const surgePatience = 5 * time.Minute

// surgeTooMany says what a surge waits for while more pods run than its Deployment wants. What has not gone within
// surgePatience has a controller that does not work.
func (d *decider) surgeTooMany(s *surge) Blocker {
	w := s.deployment
	b := Blocker{Reason: SurgeStarting, Message: "the controller of " + w.Name + " is removing pods", Remedy: "wait"}
	patient := d.lastStep(w).Add(surgePatience)
	d.wake(patient)
	if s.running <= int(w.Replicas) || d.Now.Before(patient) {
		return b
	}
	b.Dead = true
	b.Message = fmt.Sprintf("%s run and %s wants %d: its controller has removed none in %s", text.Count(s.running, "pod"), w.Name, w.Replicas, short(surgePatience))
	b.Remedy = fmt.Sprintf("kubectl describe deployment -n %s %s, and look at kube-controller-manager; or %s", w.Namespace, w.Name, d.without(s))
	return b
}

// surgeUnready says how far the replacements are, and what keeps one of them.
func (d *decider) surgeUnready(s *surge, unready int) Blocker {
	record := s.deployment.Surge
	b := Blocker{Reason: SurgeStarting, Since: record.Since}
	patient := d.lastStep(s.deployment).Add(surgePatience)
	d.wake(patient)
	b.Dead = s.spare == 0 && !d.Now.Before(patient)
	if !d.verbose {
		return b
	}
	want := int(s.deployment.Replicas - record.Was)
	b.Message = fmt.Sprintf("%d of %d replacements of %s are ready", max(want-unready, 0), want, s.deployment.Name)
	b.Remedy = "wait, or " + d.without(s)
	if refused := s.deployment.PodsRefused; refused != "" && s.running < int(s.deployment.Replicas) {
		b.Message += "; its pods may not be created: " + text.Cut(refused, 300)
		b.Remedy = fmt.Sprintf("make room for them: kubectl describe deployment -n %s %s, and kubectl describe quota -n %[1]s; or %[3]s",
			s.deployment.Namespace, s.deployment.Name, d.without(s))
	} else if p := d.worstOf(s.deployment); p != nil {
		b.Message += fmt.Sprintf("; %s: %s", p.Name, p.NotReadyWhy)
		if p.Unschedulable {
			b.Reason, b.Remedy = ReplacementPending, d.makePlace(p)+", or "+d.without(s)
		}
	}
	if b.Dead {
		b.Message = fmt.Sprintf("no replacement got ready in %s; %s", short(surgePatience), b.Message)
	}
	return b
}

// without says how to go on without the replacements: by evictions, where the budgets may allow them with as many pods as there
// were before. Where they never do, a drain without a surge would only ask for one.
func (d *decider) without(s *surge) string {
	for _, p := range s.leaving {
		budgets := d.Cluster.BudgetsFor(p)
		if len(budgets) == 0 || !d.refusedBefore(p, s) {
			continue
		}
		edit := fmt.Sprintf("kubectl edit pdb -n %s %s, which never allows an eviction", p.Namespace, budgets[0].Name)
		if !d.heldByDeadBudget(p, s) {
			edit += " without replacements"
		}
		return edit
	}
	return "--surge=never to go without"
}

// makePlace says what would let a pod be scheduled, going by the scheduler's verdict on it: room is of no use where no
// node may run it.
func (d *decider) makePlace(p *snapshot.Pod) string {
	if strings.Contains(p.NotReadyWhy, "Insufficient ") || strings.Contains(p.NotReadyWhy, "Too many pods") {
		return "make room for it on another node"
	}
	if allCordoned(p.NotReadyWhy) {
		return "add a node, or uncordon one: all are cordoned"
	}
	return "let another node run it: " + d.describe(p)
}

// allCordoned reports whether every node is cordoned by the scheduler's verdict on a pod, which is all that a drain reads of most nodes.
func allCordoned(verdict string) bool {
	_, counts, _ := strings.Cut(verdict, "0/")
	var all, cordoned int
	_, err := fmt.Sscanf(counts, "%d nodes are available: %d "+snapshot.Cordoned, &all, &cordoned)
	return err == nil && all == cordoned
}

// describe is the command that shows where a pod may run. One that only a forecast has started cannot be looked at: its owner
// can.
func (d *decider) describe(p *snapshot.Pod) string {
	look := fmt.Sprintf("kubectl describe pod -n %s %s", p.Namespace, p.Name)
	if w := d.workloadOf(p); w != nil && d.simulated(p) {
		look = fmt.Sprintf("kubectl get -n %s %s/%s -o yaml", w.Namespace, strings.ToLower(w.Kind), w.Name)
	}
	return look + " shows its node selector, affinity and tolerations"
}

// simulated reports whether only a forecast has started the pod.
func (d *decider) simulated(p *snapshot.Pod) bool {
	return d.req.Forecast && !p.Created.Before(d.req.Started)
}

// worstOf returns the pod that best shows why a Deployment is not ready: one that
// fits no node, else the first that says why.
func (d *decider) worstOf(w *snapshot.Workload) *snapshot.Pod {
	var worst *snapshot.Pod
	for _, p := range d.podsOf(w) {
		if p.Ready || p.Terminating() || p.NotReadyWhy == "" {
			continue
		}
		if worst == nil || (p.Unschedulable && !worst.Unschedulable) {
			worst = p
		}
	}
	return worst
}
