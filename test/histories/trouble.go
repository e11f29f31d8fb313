package histories

import (
	"slices"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// rarely divides the weight of what happens seldom.
const rarely = 12

// trouble is what may go wrong next. Its weight is spread so that most steps are Usher's.
func (w *world) trouble() []option {
	if w.dice.IntN(rarely) > 0 {
		return nil
	}
	all := []option{{3 + 20*min(1, len(w.without)), w.checkWoken}}
	add := func(weight int, happen func()) {
		if weight > 0 {
			all = append(all, option{weight, happen})
		}
	}
	add(4*w.odds.accidents, w.crash)
	add(6*w.odds.accidents, w.repair)
	add(4*w.odds.accidents, func() { w.note("system: %s", w.site.strike(w.dice)); w.safety.changed(w, accident, "trouble") })
	add(2*w.odds.accidents, func() { w.site.heal(); w.note("system: all is well"); w.safety.changed(w, accident, "repair") })
	add(4*w.odds.machines, w.lose)
	add(8*w.odds.machines, w.fence)
	add(w.odds.machines*w.boots(), w.boot)
	add(4*w.odds.replaced, w.destroy)
	add(2*w.odds.repaired, w.amendRepair)
	if w.operator != nil {
		add(6*w.odds.replaced, w.disturbOperator)
	}
	if s := w.setSite(); s != nil {
		s.trouble(add)
	}
	add(2*w.odds.kills, w.kill)
	add(4*w.odds.kills, w.restart)
	add(3*w.odds.leaders, w.elect)
	add(3*w.odds.jumps, w.jump)
	add(4*w.odds.owners, w.own)
	add(4*w.odds.edits, w.edit)
	add(2*w.odds.deletion, func() { w.note("owner: deletes %s", firstPolicy); w.deletePolicy(firstPolicy) })
	add(w.odds.deletion, func() { w.note("owner: creates %s", firstPolicy); w.createPolicy(firstPolicy) })
	add(2*w.odds.excused, w.breakGlass)
	add(2*w.odds.owners, w.forgeLabel)
	add(2*w.odds.excused, w.disown)
	add(2*w.odds.bare, w.stripNamespace)
	add(4*w.odds.budgets, w.tighten)
	add(3*w.odds.hangs, func() { w.hang([]kind{pods, policies, policies, requests, evictions}[w.dice.IntN(5)]) })
	add(3*w.odds.unseen, func() { w.hang(pods) })
	if w.locks != nil {
		add(3*w.odds.hangs, func() { w.hang(nodes) })
	}
	add(4*w.odds.failing, func() {
		if what := w.site.fail(w.dice); what != "" {
			w.note("system: %s", what)
			w.safety.changed(w, accident, what)
		}
	})
	return all
}

// boots is how often a lost machine comes back: seldom where what was on it takes its time to be brought back elsewhere.
func (w *world) boots() int {
	if w.openStack() != nil {
		return 1
	}
	return 2
}

func (w *world) somePod() planned {
	all := w.site.members()
	return all[w.dice.IntN(len(all))]
}

// crash ends a process: mostly one that can be missed, so that the others cannot be.
func (w *world) crash() {
	p := w.somePod()
	if p.role != w.focus && w.dice.IntN(2) == 0 || w.wouldLose(p.pod) != "" && w.dice.IntN(4) > 0 || w.store.pod(p.pod) == nil {
		return
	}
	w.halt(p.pod)
}

// halt ends the process of a pod, if one runs.
func (w *world) halt(pod string) {
	if w.podLives[pod] != runs || w.crashed[pod] {
		return
	}
	w.note("machine: the process of %s crashes", pod)
	w.safety.excused = w.safety.excused || w.wouldLose(pod) != "" || w.site.unreplicated(pod)
	w.site.stop(pod)
	w.crashed[pod], w.safety.crashes[w.roleOf(pod)] = true, time.Now()
	w.probe(pod)
	w.safety.changed(w, accident, pod+" has crashed")
}

// repair starts crashed processes again.
func (w *world) repair() {
	for _, p := range w.site.members() {
		w.revive(p.pod)
	}
}

// revive starts the crashed process of a pod again, if its machine runs.
func (w *world) revive(pod string) {
	if !w.crashed[pod] || w.podLives[pod] != runs || w.lost(pod) || w.expelled(pod) {
		return
	}
	w.note("machine: the process of %s starts again", pod)
	w.site.start(pod, false)
	delete(w.crashed, pod)
	w.probe(pod)
	w.safety.changed(w, accident, pod+" is started again")
}

// kill ends a replica at whatever step it is.
func (w *world) kill() {
	alive := w.alive()
	if len(alive) == 0 {
		return
	}
	w.end(alive[w.dice.IntN(len(alive))])
}

func (w *world) alive() []*replica {
	return slices.DeleteFunc(slices.Clone(w.replicas), func(r *replica) bool { return r.dead })
}

func (w *world) isDead(r *replica) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return r.dead
}

func (w *world) end(r *replica) {
	w.note("%s is killed", r.name)
	w.mu.Lock()
	r.dead = true
	w.mu.Unlock()
	for _, call := range w.waiters() {
		if call.replica == r {
			w.open(call, killed)
		}
	}
	r.stop()
}

// restart begins a new life for a dead replica, and has it lead where none does.
func (w *world) restart() {
	for i, r := range w.replicas {
		if r.dead {
			w.rebirth(i)
			return
		}
	}
}

func (w *world) rebirth(i int) {
	r, err := w.start(replicaNames[i])
	if err != nil {
		w.fail("SIMULATOR", "starting a replica: %v", err)
		return
	}
	w.note("%s starts", r.name)
	w.replicas[i] = r
	if !slices.ContainsFunc(w.alive(), func(r *replica) bool { return r.leads }) {
		w.elect()
	}
}

// elect has another replica lead. The one that led may not have observed that; then it leads on until it dies.
func (w *world) elect() {
	var others, leaders []*replica
	for _, r := range w.alive() {
		if r.leads {
			leaders = append(leaders, r)
		} else {
			others = append(others, r)
		}
	}
	if len(leaders) > 1 {
		w.end(leaders[w.dice.IntN(2)])
		return
	}
	if len(others) == 0 {
		return
	}
	heir := others[w.dice.IntN(len(others))]
	w.note("%s leads", heir.name)
	heir.lead()
	if len(leaders) == 1 && (w.calm || w.dice.IntN(2) == 0) {
		w.end(leaders[0])
	}
}

// jump moves a replica's clock by up to some minutes.
func (w *world) jump() {
	alive := w.alive()
	if len(alive) == 0 {
		return
	}
	r := alive[w.dice.IntN(len(alive))]
	by := []time.Duration{-r.ahead, time.Second, 8 * time.Second, time.Minute, 5 * time.Minute, -time.Second, -8 * time.Second, -8 * time.Second, -8 * time.Second, -time.Minute, -5 * time.Minute}
	r.ahead += by[w.dice.IntN(len(by))]
	w.note("the clock of %s is %s ahead", r.name, r.ahead)
}

// stripNamespace takes the label off by which admission finds the namespace.
func (w *world) stripNamespace() {
	w.note("owner: takes the label off the namespace")
	key := snapshot.Key{Name: namespace}
	if _, err := w.store.patch(namespaces, key, whole, []byte(`{"metadata":{"labels":{"`+v1alpha1.GovernedLabel+`":null}}}`)); err != nil {
		w.fail("SIMULATOR", "taking the label off the namespace: %v", err)
	}
}

// tighten has a budget allow no disruption, or some again.
func (w *world) tighten() {
	w.tight = !w.tight
	w.note("budget: no pod may be evicted: %v", w.tight)
}

// hang stops one watch of a replica for a while, as a connection does whose end was not noticed.
func (w *world) hang(k kind) {
	alive := w.alive()
	if len(alive) == 0 {
		return
	}
	r := alive[w.dice.IntN(len(alive))]
	until := time.Now().Add(time.Duration(20+w.dice.IntN(280)) * time.Second)
	r.cache.hang(k, until)
	w.note("%s sees no %s before %.0f", r.name, k, until.Sub(w.begun).Seconds())
}
