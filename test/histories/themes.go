package histories

import (
	"math/rand/v2"
	"slices"
	"strings"
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
	unseen     int // and how often that of pods does
	reorder    int // of a hundred deliveries, those that come twice or before their turn
	edits      int // how often policies are made to speak of something else
	failing    int // how often moves of data fail
	deletion   int // how often policies are deleted
	foreign    int // of a hundred pods, those that name another responder, which goes before Usher's
	silent     int // 1: that responder answers at the end only
	bare       int // how often a namespace loses its label
	machines   int // how often machines are lost
	replaced   int // how often they are destroyed; 0: members have no volumes of their own
	sets       int // how often a set is changed; 0: there is none
	gone       int // how often it is deleted
	mends      int // 1: it has its members repaired
	evicted    int // 1: it has those replaced whose eviction is asked for
	repaired   int // how often policies change their mind about repair; 0: nothing repairs
}

// theme is what a history is mostly about: what goes wrong rarely by itself hardly ever meets what else it takes.
type theme struct {
	name   string
	odds   func(o *odds, draw func(...int) int)
	sites  []func(*world) site
	steps  int      // that happen; 0: as many as mostly do
	focus  []string // roles that people are after, where there are such; none: any
	trades []trade
}

// trade is what a person does.
type trade struct {
	name string
	does func(*person)
}

var (
	drains   = trade{"kubectl", (*person).kubectl}
	asks     = trade{"requester", (*person).request}
	deletes  = trade{"deleter", (*person).deleter}
	taints   = trade{"tainter", (*person).tainter}
	leaves   = trade{"drain", (*person).drain}
	keeps    = trade{"keeper", (*person).keep}
	replaced = trade{"replacer", (*person).replace}
	wonders  = trade{"asker", (*person).asker}
	rolls    = trade{"roller", (*person).roller}
	shutdown = trade{"shutdown", (*person).shutdown}
	cancels  = trade{"canceller", (*person).cancel}
	soils    = trade{"tainting", (*person).taint}
	locking  = trade{"locker", (*person).lock}
	relabels = trade{"labeller", (*person).relabel}
	cordons  = trade{"cordoner", (*person).cordon}

	allTrades = []trade{drains, drains, asks, asks, leaves, keeps, deletes, taints, wonders, rolls}
	anySite   = []func(*world) site{newArango, newArango, newEtcd, newEtcd, newHTTPSite, newFloor, newStaying}
)

// replacements is the theme whose members have local volumes.
const replacements = "members that are replaced"

// repairs is the theme whose policy has members replaced that are unhealthy.
const repairs = "members that are repaired"

// themes are drawn with equal chances.
var themes = []theme{
	{name: "everything", odds: everything, sites: anySite, trades: allTrades},
	{name: "everything", odds: everything, sites: anySite, trades: allTrades},
	{name: "a rush", sites: anySite, trades: []trade{drains, drains, drains, asks}, odds: func(o *odds, draw func(...int) int) {
		o.delivery, o.accidents, o.budgets = draw(1, 8), draw(0, 1), draw(0, 0, 1)
	}},
	{name: "removals without admission", sites: anySite, trades: []trade{drains, drains, asks, shutdown, shutdown, rolls}, odds: func(o *odds, draw func(...int) int) {
		o.linger, o.excused, o.unlabelled, o.haste = draw(20, 60), 1, draw(0, 60), draw(0, 1)
	}},
	{name: "force", sites: anySite, trades: []trade{drains, drains, deletes, asks, rolls}, odds: func(o *odds, draw func(...int) int) {
		o.force, o.linger, o.abrupt, o.excused, o.accidents, o.haste = draw(20, 60), draw(0, 60), draw(0, 0, 1), draw(0, 1), draw(0, 1), draw(0, 1)
	}},
	{name: "other policies", sites: anySite, trades: []trade{drains, drains, asks, deletes}, odds: func(o *odds, draw func(...int) int) {
		o.edits, o.owners, o.hangs, o.linger, o.accidents, o.haste = draw(1, 2), draw(0, 1), draw(0, 1), draw(0, 60), draw(0, 1), draw(0, 1)
	}},
	{name: "policies that go", sites: anySite, trades: []trade{drains, drains, deletes, taints}, odds: func(o *odds, draw func(...int) int) {
		o.deletion, o.accidents, o.hangs, o.haste = draw(1, 2), draw(0, 1), draw(0, 0, 1), draw(0, 1, 3)
	}},
	{name: "clocks", sites: anySite, trades: []trade{drains, drains, asks}, odds: func(o *odds, draw func(...int) int) {
		o.jumps, o.accidents, o.haste = draw(2, 4), draw(1, 2), draw(1, 3)
	}},
	{name: "data", sites: []func(*world) site{newCluster, newCluster, newCluster, newHTTPSite}, trades: []trade{asks, asks, drains}, odds: func(o *odds, draw func(...int) int) {
		o.failing, o.wiped, o.accidents, o.haste, o.kills = draw(1, 3), draw(0, 100), draw(0, 1), draw(1, 3), draw(0, 0, 1)
	}, focus: []string{"arangodb-dbserver", "keeper"}},
	{name: "who is Ready", sites: []func(*world) site{newFloor}, trades: []trade{drains, drains, asks, deletes}, odds: func(o *odds, draw func(...int) int) {
		o.unseen, o.accidents, o.haste, o.linger = draw(2, 4), draw(1, 2), draw(1, 3), draw(0, 20)
	}, focus: []string{"router"}},
	{name: "what others do", sites: anySite, trades: []trade{drains, asks, deletes, shutdown}, odds: func(o *odds, draw func(...int) int) {
		o.foreign, o.bare, o.owners, o.linger, o.haste = draw(50, 100), draw(1, 3), draw(0, 1), draw(0, 60), draw(0, 1)
	}},
	{name: "crashes", sites: anySite, trades: []trade{drains, drains, asks, leaves, deletes}, odds: func(o *odds, draw func(...int) int) {
		o.accidents, o.haste, o.long, o.kills = draw(1, 3), draw(0, 1), draw(0, 4), draw(0, 0, 1)
	}},
	{name: "nodes that stay drained", sites: []func(*world) site{newStaying, newStaying, newEtcd}, trades: []trade{keeps, keeps, leaves, drains, asks, cordons, cordons}, odds: func(o *odds, draw func(...int) int) {
		o.accidents, o.haste, o.kills, o.failing = draw(0, 1), draw(1, 3), draw(0, 0, 1), draw(0, 1)
	}},
	{name: replacements, sites: []func(*world) site{newEtcd, newEtcd, newHTTPSite, newListing, newArangoSets, newArangoSets}, trades: []trade{replaced, replaced, replaced, drains, asks, leaves, deletes}, odds: func(o *odds, draw func(...int) int) {
		o.force = draw(0, 0, 50)
		o.machines, o.replaced, o.accidents, o.haste, o.linger, o.kills = draw(1, 2), draw(1, 2), draw(0, 0, 1), draw(1, 3), draw(0, 20), draw(0, 0, 1)
	}},
	{name: "members that other controllers replace", sites: []func(*world) site{newHTTPSite, newOperated, newOperated}, trades: []trade{replaced, replaced, replaced, drains, leaves, deletes}, odds: func(o *odds, draw func(...int) int) {
		o.machines, o.replaced, o.accidents, o.haste, o.linger, o.kills, o.force = draw(1, 3), 1, draw(1, 2, 3), draw(1, 3), draw(0, 20), draw(0, 0, 1), draw(0, 0, 50)
	}, focus: []string{"router", "keeper"}},
	{name: repairs, sites: []func(*world) site{newEtcd, newEtcd, newHTTPSite, newListing}, trades: []trade{soils, soils, cordons, cancels, replaced, drains, keeps}, odds: func(o *odds, draw func(...int) int) {
		o.repaired, o.force, o.reorder = draw(1, 1, 2), draw(0, 0, 50), draw(0, 0, 10)
		o.machines, o.replaced, o.accidents, o.haste, o.linger, o.kills = draw(1, 2), draw(1, 2), draw(0, 1, 1), draw(1, 3), draw(0, 20), draw(0, 1, 2)
	}},
	{name: "machines that are lost", sites: anySite, trades: []trade{drains, asks, leaves, taints, deletes}, odds: func(o *odds, draw func(...int) int) {
		o.machines, o.accidents, o.haste, o.linger, o.kills = draw(1, 3), draw(0, 0, 1), draw(0, 1, 3), draw(0, 20), draw(0, 0, 1)
	}},
}

// setThemes are those of a system whose members a MemberSet runs. Whether a history has one of them is drawn apart, so that the others are what they are without.
var setThemes = []theme{
	{name: "sets", sites: setSites, steps: setSteps, trades: []trade{replaced, replaced, drains, asks, cancels, leaves}, odds: func(o *odds, draw func(...int) int) {
		o.sets, o.machines, o.accidents, o.haste, o.linger, o.kills, o.leaders = draw(1, 2), draw(0, 1), draw(0, 0, 1), draw(1, 3), draw(0, 20), draw(0, 1, 2), draw(0, 0, 1)
	}},
	{name: "sets that lose members", sites: setSites, steps: setSteps, trades: []trade{replaced, replaced, soils, cordons, deletes, taints, shutdown}, odds: func(o *odds, draw func(...int) int) {
		o.sets, o.machines, o.accidents, o.haste, o.linger, o.kills = 1, draw(1, 2, 3), draw(0, 1, 2), draw(1, 3), draw(0, 20), draw(0, 0, 1)
		o.mends, o.force, o.hangs = draw(0, 1, 1), draw(0, 0, 50), draw(0, 0, 1)
	}},
	{name: "sets and slow answers", sites: setSites, steps: setSteps, trades: []trade{replaced, replaced, drains, cancels}, odds: func(o *odds, draw func(...int) int) {
		o.sets, o.haste, o.kills, o.leaders, o.hangs = draw(1, 2, 3), draw(0, 1), draw(1, 2, 3), draw(0, 1), draw(0, 0, 1)
		o.slow, o.lost, o.late, o.reorder = draw(50, 200), draw(10, 50), draw(10, 50), draw(0, 10)
	}},
	{name: "sets that go", sites: setSites, steps: setSteps, trades: []trade{replaced, drains, deletes, keeps}, odds: func(o *odds, draw func(...int) int) {
		o.sets, o.gone, o.haste, o.kills, o.linger, o.machines = draw(1, 2), draw(1, 2), draw(1, 3), draw(0, 1), draw(0, 20), draw(0, 0, 1)
	}},
}

// lockTheme is the theme whose policy has a nodeLock. Whether a history has it is drawn apart as well.
var lockTheme = theme{
	name: "nodes that are locked", sites: []func(*world) site{newLockSite}, steps: lockSteps,
	trades: []trade{locking, locking, locking, relabels, asks, asks, asks, drains, drains, leaves, keeps, deletes},
	odds: func(o *odds, draw func(...int) int) {
		o.accidents, o.haste, o.linger, o.kills, o.leaders = draw(0, 0, 1), draw(1, 3), draw(0, 20), draw(0, 0, 1, 2), draw(0, 0, 1)
		o.hangs, o.owners, o.edits, o.deletion, o.force = draw(0, 0, 1), draw(0, 0, 1), draw(0, 0, 1), draw(0, 0, 0, 1), draw(0, 0, 20)
		o.machines, o.excused, o.reorder, o.unlabelled = draw(0, 0, 1), draw(0, 0, 1), draw(0, 0, 10), draw(0, 0, 0, 30)
	},
	focus: []string{agentRole, "router"},
}

// openStackTheme is the theme of a region of OpenStack, drawn apart as well.
var openStackTheme = theme{
	name: "hosts of OpenStack", sites: []func(*world) site{newOpenStack}, steps: openStackSteps,
	trades: []trade{asks, asks, asks, drains, leaves, keeps, keeps, cordons, deletes, taints},
	odds: func(o *odds, draw func(...int) int) {
		o.accidents, o.failing, o.haste, o.linger, o.kills, o.leaders = draw(0, 1, 1, 2), draw(0, 1, 2), draw(0, 0, 1), draw(0, 20), draw(0, 0, 1, 2), draw(0, 0, 1)
		o.machines, o.hangs, o.owners, o.edits, o.deletion = draw(0, 2, 2, 4), draw(0, 0, 1), draw(0, 0, 0, 1), draw(0, 0, 0, 0, 1), draw(0, 0, 0, 1)
		o.slow, o.lost, o.late, o.reorder, o.excused, o.force = draw(0, 10, 50), draw(0, 5, 20), draw(0, 0, 10), draw(0, 0, 10), draw(0, 0, 0, 1), draw(0, 0, 20)
	},
}

// setSites are those of most histories about sets, fdbSites those of one in oneInFDB. Which it is is drawn apart, so that the others are what they are without.
var (
	setSites = []func(*world) site{newEtcdSet, newEtcdSet, newEtcdSet, newPlainSet}
	fdbSites = []func(*world) site{newFDBSet}
)

const (
	// oneInSets is of how many histories one is about a set.
	oneInSets = 8
	// oneInFDB is of how many of those one is about a set of FoundationDB.
	oneInFDB = 8
	// oneInLocks is of how many of the others one is about locks on nodes.
	oneInLocks = 12
	// oneInOpenStack is of how many of the others one is about a region of OpenStack.
	oneInOpenStack = 12
	// openStackSteps are more than other histories have: hosts are emptied server by server, and each look takes several calls.
	openStackSteps = 1500
	// lockSteps are more than other histories have: what waits for locks takes several turns.
	lockSteps = 900
	// setSteps are more than other histories have: a set makes its members first.
	setSteps = 1000
)

// setDice are those by which it is drawn what a history has to do with sets.
func setDice(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

// aboutLocks reports whether the history of a seed is about locks on nodes, if it is not about a set.
func aboutLocks(seed uint64) bool { return rand.New(rand.NewPCG(seed, 9)).IntN(oneInLocks) == 0 }

// aboutOpenStack reports whether the history of a seed is about a region of OpenStack, if it is about neither locks nor a set.
func aboutOpenStack(seed uint64) bool {
	return rand.New(rand.NewPCG(seed, 11)).IntN(oneInOpenStack) == 0
}

// isOfLocks reports whether a watch is one by the controller of locks on nodes, or of what waits for locks.
func isOfLocks(watch string) bool {
	return strings.HasPrefix(watch, "nodelock") || watch == "responder watches "+string(nodes)
}

// isOfOpenStack reports whether a watch is one of what nodes that are proven off have a policy do.
func isOfOpenStack(watch string) bool {
	return strings.HasPrefix(watch, "policy watches "+string(fences))
}

// aboutSet reports whether the history of a seed is about a set.
func aboutSet(seed uint64) bool { return setDice(seed).IntN(oneInSets) == 0 }

// length is how many things happen before everything calms down.
func (t *theme) length() int { return max(t.steps, steps) }

// isOfSets reports whether a watch is one by the controller of MemberSets, or of MemberSets.
func isOfSets(watch string) bool {
	return strings.HasPrefix(watch, setController) || strings.Contains(watch, " watches "+string(memberSets))
}

// drawTheme draws what a history is about. Without a watch of the controllers of replacements, of repair, or about MemberSets, it is about those, of which others
// know nothing.
func (w *world) drawTheme(without []string) {
	draw := func(values ...int) int { return values[w.dice.IntN(len(values))] }
	w.theme = themes[w.dice.IntN(len(themes))]
	ofSets := w.drawApart(without)
	for name, prefix := range map[string]string{replacements: "replac", repairs: repairController} {
		if ofSets {
			break
		}
		if slices.ContainsFunc(without, func(watch string) bool { return strings.HasPrefix(watch, prefix) }) {
			w.theme = themes[slices.IndexFunc(themes, func(t theme) bool { return t.name == name })]
		}
	}
	w.odds = odds{delivery: draw(1, 3, 8), slow: draw(0, 0, 50), lost: draw(0, 0, 10), late: draw(0, 0, 10)}
	w.theme.odds(&w.odds, draw)
	if w.odds.repaired > 0 {
		w.repairing = drawRepair(w.dice)
	}
}

// drawApart has a history be about OpenStack, locks or a set where that is drawn, or a watch is missing that is about it. It reports whether such a watch is one of sets.
func (w *world) drawApart(without []string) (ofSets bool) {
	ofSets, ofLocks := slices.ContainsFunc(without, isOfSets), slices.ContainsFunc(without, isOfLocks)
	ofOpenStack := w.ofOpenStack || slices.ContainsFunc(without, isOfOpenStack)
	if ofOpenStack || aboutOpenStack(w.seed) {
		w.theme = openStackTheme
	}
	if !ofOpenStack && (w.locked || ofLocks || aboutLocks(w.seed)) {
		w.theme = lockTheme
	}
	if sets := setDice(w.seed); sets.IntN(oneInSets) == 0 && !w.locked && !ofLocks && !ofOpenStack || ofSets {
		w.theme = setThemes[sets.IntN(len(setThemes))]
		if sets.IntN(oneInFDB) == 0 || w.foundationDB {
			w.theme.sites = fdbSites
		}
	}
	return ofSets
}

func everything(o *odds, draw func(...int) int) {
	*o = odds{
		haste: draw(0, 0, 1, 3), long: draw(0, 1, 4), delivery: draw(1, 3, 8),
		slow: draw(0, 50, 200, 400), lost: draw(0, 0, 10, 50), late: draw(0, 0, 10, 30),
		accidents: draw(0, 0, 1, 1, 3), kills: draw(0, 0, 1, 2), leaders: draw(0, 0, 1), jumps: draw(0, 0, 0, 1),
		owners: draw(0, 0, 0, 1), excused: draw(0, 0, 1), unlabelled: draw(0, 0, 0, 30), wiped: draw(0, 30, 100),
		linger: draw(0, 0, 20, 60), force: draw(0, 0, 20), budgets: draw(0, 0, 0, 1, 2),
		hangs: draw(0, 0, 1), reorder: draw(0, 0, 10), edits: draw(0, 0, 0, 1), failing: draw(0, 0, 1, 3),
		foreign: draw(0, 0, 0, 50), bare: draw(0, 0, 0, 1), machines: draw(0, 0, 0, 1),
	}
}

// fits reports whether people are after a role.
func (t *theme) fits(role string) bool { return len(t.focus) == 0 || slices.Contains(t.focus, role) }
