package governed

import (
	"slices"
	"time"
)

// odds are drawn once for a history, so that some are quiet in a respect and others are not.
type odds struct {
	haste      int // how much time passes compared with what happens
	long       int // of pauses that are long, in a hundred
	delivery   int // how fast watches are
	slow       int // of a thousand calls: answers that are late
	lost       int // and such as are lost
	late       int
	accidents  int // how often people and machines break something
	kills      int // how often replicas die
	leaders    int // how often the lead changes
	jumps      int // how often clocks jump
	owners     int // how often policies are edited
	excused    int // how often pods are deleted that Usher does not keep
	unlabelled int // of a hundred pods that come back, those that the webhook has missed
	wiped      int // of a hundred disposable members, those whose disk stays behind
	linger     int // seconds that a process may take to end
	abrupt     int // 1: pods are given no time to end
	force      int // of a hundred removals, those with a grace period of 0
	budgets    int // how often a budget refuses what Usher let through
	hangs      int // how often watches hang, for minutes
	reorder    int // of a hundred deliveries, those that come twice or before their turn
	edits      int // how often policies are made to speak of something else
	failing    int // how often moves of data fail
}

func (w *world) drawOdds() {
	draw := func(values ...int) int { return values[w.dice.IntN(len(values))] }
	w.odds = odds{
		haste: draw(0, 0, 1, 3), long: draw(0, 1, 4), delivery: draw(1, 3, 8),
		slow: draw(0, 50, 200, 400), lost: draw(0, 0, 10, 50), late: draw(0, 0, 10, 30),
		accidents: draw(0, 0, 1, 1, 3), kills: draw(0, 0, 1, 2), leaders: draw(0, 0, 1), jumps: draw(0, 0, 0, 1),
		owners: draw(0, 0, 0, 1), excused: draw(0, 0, 1), unlabelled: draw(0, 0, 0, 30), wiped: draw(0, 30, 100),
		linger: draw(0, 0, 20, 60), abrupt: draw(0, 0, 0, 0, 0, 0, 0, 1), force: draw(0, 0, 20, 60), budgets: draw(0, 0, 0, 1, 2),
		hangs: draw(0, 0, 0, 1), reorder: draw(0, 0, 10), edits: draw(0, 0, 0, 1, 2), failing: draw(0, 0, 1, 3),
	}
}

// rarely divides the weight of what happens seldom.
const rarely = 12

// trouble is what may go wrong next. Its weight is spread so that most steps are Usher's.
func (w *world) trouble() []option {
	if w.dice.IntN(rarely) > 0 {
		return nil
	}
	var all []option
	add := func(weight int, happen func()) {
		if weight > 0 {
			all = append(all, option{weight, happen})
		}
	}
	add(4*w.odds.accidents, w.crash)
	add(6*w.odds.accidents, w.repair)
	add(4*w.odds.accidents, func() { w.note("system: %s", w.site.strike(w.dice)); w.safety.changed(w, accident, "trouble") })
	add(2*w.odds.accidents, func() { w.site.heal(); w.note("system: all is well"); w.safety.changed(w, accident, "repair") })
	add(2*w.odds.kills, w.kill)
	add(4*w.odds.kills, w.restart)
	add(3*w.odds.leaders, w.elect)
	add(3*w.odds.jumps, w.jump)
	add(4*w.odds.owners, w.own)
	add(4*w.odds.edits, w.edit)
	add(2*w.odds.excused, w.breakGlass)
	add(4*w.odds.budgets, w.tighten)
	add(3*w.odds.hangs, w.hang)
	add(4*w.odds.failing, func() {
		if what := w.site.fail(w.dice); what != "" {
			w.note("system: %s", what)
			w.safety.changed(w, accident, what)
		}
	})
	return all
}

func (w *world) somePod() planned {
	all := w.site.members()
	return all[w.dice.IntN(len(all))]
}

// crash ends a process. Most of the time one that is down already keeps others from following.
func (w *world) crash() {
	p := w.somePod()
	if len(w.crashed) > 0 && w.dice.IntN(4) > 0 || w.lives_[p.pod] != runs || w.store.pod(p.pod) == nil {
		return
	}
	w.note("machine: the process of %s crashes", p.pod)
	w.safety.excused = w.safety.excused || w.wouldLose(p.pod) != ""
	w.site.stop(p.pod)
	w.crashed[p.pod] = true
	w.safety.changed(w, accident, p.pod+" has crashed")
}

// repair starts crashed processes again.
func (w *world) repair() {
	for _, p := range w.site.members() {
		if !w.crashed[p.pod] || w.lives_[p.pod] != runs {
			continue
		}
		w.note("machine: the process of %s starts again", p.pod)
		w.site.start(p.pod, false)
		delete(w.crashed, p.pod)
		w.safety.changed(w, accident, p.pod+" is started again")
	}
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

// restart begins a new life for a dead replica, and has it lead where nobody does.
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

// elect has another replica lead. The one that led may not have heard of it; then it leads on until it dies.
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
	by := []time.Duration{0, time.Second, 8 * time.Second, time.Minute, 5 * time.Minute, -time.Second, -8 * time.Second, -time.Minute, -5 * time.Minute}
	r.ahead = by[w.dice.IntN(len(by))]
	w.note("the clock of %s is %s ahead", r.name, r.ahead)
}

// tighten has a budget allow no disruption, or some again.
func (w *world) tighten() {
	w.tight = !w.tight
	w.note("budget: no pod may be evicted: %v", w.tight)
}

// hang stops one watch of a replica for a while, as a connection does whose end nobody has noticed.
func (w *world) hang() {
	alive := w.alive()
	if len(alive) == 0 {
		return
	}
	r, k := alive[w.dice.IntN(len(alive))], []kind{pods, policies, policies, requests, evictions}[w.dice.IntN(5)]
	until := time.Now().Add(time.Duration(20+w.dice.IntN(280)) * time.Second)
	r.cache.hang(k, until)
	w.note("%s sees no %s before %.0f", r.name, k, until.Sub(w.begun).Seconds())
}
