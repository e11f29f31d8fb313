package histories

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/evictionrequest"
)

// epoch is when histories begin: the simulated systems date their jobs from here.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

var replicaNames = []string{"a", "b", "c"}

// steps is how many things happen before everything calms down.
const steps = 600

// Result is what has become of a history.
type Result struct {
	Seed     uint64
	Failures []string // a line each; none: all properties hold
	Trace    []string
}

// Run makes a history from a seed. It must be called in a testing/synctest bubble that has just begun.
func Run(seed uint64) Result { return RunWithout(seed) }

// RunLocks makes a history about locks on nodes.
func RunLocks(seed uint64) Result { return run(seed, func(w *world) { w.locked = true }, nil) }

// RunOpenStack makes a history about a region of OpenStack.
func RunOpenStack(seed uint64) Result { return run(seed, func(w *world) { w.ofOpenStack = true }, nil) }

// RunFoundationDB makes a history whose set, if the seed's is about one, is of FoundationDB.
func RunFoundationDB(seed uint64) Result {
	return run(seed, func(w *world) { w.foundationDB = true }, nil)
}

// RunWithout makes a history in which watches, named as by Watches, are missing.
func RunWithout(seed uint64, watches ...string) Result { return run(seed, func(*world) {}, watches) }

func run(seed uint64, about func(*world), watches []string) Result {
	time.Sleep(time.Until(epoch))
	ctx, cancel := context.WithCancel(context.Background())
	w := newWorld(ctx, seed)
	w.without = watches
	about(w)
	w.drawTheme(watches)
	if len(watches) > 0 {
		w.provoke(watches)
	}
	w.note("seed %d: %s: %+v", seed, w.theme.name, w.odds)
	if err := w.setUp(); err != nil {
		w.fail("SIMULATOR", "%v", err)
	}
	for range w.theme.length() {
		if w.failed() {
			break
		}
		w.step()
	}
	if !w.failed() {
		w.conclude()
	}
	w.close(cancel)
	return Result{seed, w.failures, w.trace}
}

// provoke has that happen more often which shows that a watch is missing: what rarely happens by itself mostly follows from another policy, or from another responder. The
// policy of a set is Usher's, which sets back what others make of it. A request makes a difference to a set where members are replaced that are evicted.
func (w *world) provoke(watches []string) {
	if w.odds.sets == 0 {
		w.odds.owners, w.odds.foreign, w.odds.silent = max(w.odds.owners, 2), max(w.odds.foreign, 50*w.dice.IntN(2)), w.dice.IntN(2)
	}
	w.odds.machines = max(w.odds.machines, 2*w.dice.IntN(2))
	for _, watch := range watches {
		if strings.Contains(watch, string(namespaces)) {
			w.odds.bare = max(w.odds.bare, 3)
		}
		if isOfSets(watch) && strings.Contains(watch, string(requests)) {
			w.odds.evicted = 1
		}
	}
}

func newWorld(ctx context.Context, seed uint64) *world {
	w := &world{
		ctx: ctx, seed: seed, dice: rand.New(rand.NewPCG(seed, 1)), begun: time.Now(), ticked: time.Now(),
		podLives: map[string]life{}, crashed: map[string]bool{}, ghosts: map[string]ghost{}, ends: map[types.UID]time.Time{}, revived: map[string]time.Time{}, kept: map[string]time.Time{}, machines: map[string]*machine{}, replacing: map[string]bool{}, awaits: map[string]awaited{}, erased: map[types.UID]bool{}, fresh: map[string]bool{}, health: map[string]*health{},
		regime: newRegime(), jobs: make(chan func()), safety: safety{needed: map[string]needed{}, missed: map[string]time.Time{}, let: map[string]letAway{}, crashes: map[string]time.Time{}},
	}
	w.store = newStore(time.Now)
	return w
}

func (w *world) setUp() error {
	w.site = w.theme.sites[w.dice.IntN(len(w.theme.sites))](w)
	if err := w.populate(); err != nil {
		return err
	}
	if err := w.deploy(2 + w.dice.IntN(2)); err != nil {
		return err
	}
	if s := w.setSite(); s != nil && w.dice.IntN(4) > 0 {
		s.settleFormed()
	}
	w.invite()
	return nil
}

// populate creates what the site's policy is about.
func (w *world) populate() error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{v1alpha1.GovernedLabel: "true"}}}
	if err := w.store.create(ns); err != nil {
		return err
	}
	if s := w.setSite(); s != nil {
		return s.populate()
	}
	w.createPolicy(firstPolicy)
	for _, p := range w.site.members() {
		if err := w.join(p.pod); err != nil {
			return err
		}
	}
	w.theyServe()
	if err := errors.Join(w.deploySets(), w.deployOperator()); err != nil {
		return err
	}
	for _, p := range w.site.members() {
		w.recreate(p)
		delete(w.podLives, p.pod)
		w.probe(p.pod)
	}
	return nil
}

// deploy starts that many replicas of Usher, of which one leads.
func (w *world) deploy(replicas int) error {
	for i := range replicas {
		r, err := w.start(replicaNames[i])
		if err != nil {
			return err
		}
		w.replicas = append(w.replicas, r)
	}
	spec := w.spec(w.regime)
	if problems := w.replicas[0].gatherer.Policies.Check(&spec); len(problems) > 0 {
		return fmt.Errorf("the policy has problems: %v", problems)
	}
	w.replicas[0].lead()
	w.safety.changed(w, accident, "it began so")
	return nil
}

// close ends everything that still runs.
func (w *world) close(cancel context.CancelFunc) {
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	cancel()
	for range 100 {
		synctest.Wait()
		waiters := w.waiters()
		if len(waiters) == 0 {
			break
		}
		for _, call := range waiters {
			w.open(call, killed)
		}
	}
	for _, r := range w.replicas {
		r.stop()
	}
	time.Sleep(mostPatience) // calls to systems that never answer outlive their callers
	synctest.Wait()
	close(w.jobs)
}

// mostPatience is the longest that a policy may wait for its system, and a moment more.
const mostPatience = v1alpha1.MaxTimeout + time.Second

// conclude lets everything calm down and checks what has become of all requests. Once something has failed nothing happens any more, and what would still have
// to happen is not judged.
func (w *world) conclude() {
	for _, stage := range []func(){w.makePeace, w.checkPeace, w.checkSettled, w.endWishes, w.checkQuiet} {
		if w.failed() {
			return
		}
		stage()
	}
}

func (w *world) makePeace() {
	w.note("---- nothing goes wrong any more ----")
	w.endTroubles()
	w.stayLost()
	w.answerAll()
	w.repair()
	w.replaceDestroyed()
	w.settle(2 * time.Minute)
}

func (w *world) checkPeace() {
	w.checkWishes()
	w.checkCordons()
	w.checkNodeLocks()
	if len(w.store.objects[replaces]) > 0 {
		w.settle(5 * time.Minute)
	}
}

func (w *world) checkSettled() {
	w.checkSet()
	w.checkReplacements()
	w.checkTakenBack()
	w.checkListed()
	w.checkRepairs()
	if time.Since(w.store.dropped[policies]) < labelsStay { // a policy that was held while its members settle
		w.settle(labelsStay)
	}
	w.checkLabels()
}

func (w *world) endWishes() {
	w.note("---- no removal is requested any more ----")
	w.mu.Lock()
	w.quiet = true
	w.mu.Unlock()
	w.theyServe()
	w.reform(func(r *regime) { r.staging, r.without = false, "" })
	w.editPolicy(func(spec *v1alpha1.EvictionPolicySpec) { spec.Suspend = false })
	w.deletePolicy(secondPolicy)
	w.settle(time.Minute)
	for range 25 { // what the controller of a pod asked for stands for 20 minutes
		if len(w.traces()) == 0 || w.failed() {
			break
		}
		w.settle(time.Minute)
	}
}

func (w *world) checkQuiet() {
	w.checkTraces()
	w.checkNodeLocks()
	if s := w.setSite(); s != nil && w.set() != nil && !w.failed() {
		s.checkQuiet()
	}
}

// endTroubles has everything that was broken work again, with one leader.
func (w *world) endTroubles() {
	w.calm, w.tight = true, false
	if w.operator != nil {
		w.operator.down = time.Time{}
	}
	w.site.heal()
	if w.openStack() == nil {
		w.answerAll()
	}
	if s := w.setSite(); s != nil {
		s.calm()
	}
	w.repair()
	w.safety.changed(w, accident, "repair")
	if w.repairing != nil {
		w.setRepair(v1alpha1.RepairAutomatic, false)
	}
	for i, r := range w.replicas {
		r.ahead = 0
		clear(r.cache.hung)
		if r.dead {
			w.rebirth(i)
		}
	}
	for len(slices.DeleteFunc(w.alive(), func(r *replica) bool { return !r.leads })) > 1 {
		w.elect()
		for i, r := range w.replicas {
			if r.dead {
				w.rebirth(i)
			}
		}
	}
}

// answerAll has all machines answer again that are not gone for good.
func (w *world) answerAll() {
	for _, p := range w.site.members() {
		if w.lost(p.pod) && !w.machines[p.pod].destroyed {
			w.answers(p.pod)
		}
	}
}

// labelsStay is longer than labels stay once their policy is gone.
const labelsStay = time.Minute

// mostSteps is how much may happen until peace is made.
const mostSteps = 5000

// settle lets everything happen at once that can, for some time.
func (w *world) settle(d time.Duration) {
	end := time.Now().Add(d)
	did := 0
	for time.Now().Before(end) && !w.failed() {
		synctest.Wait()
		if w.settleOne() || w.answerNext() {
			if did++; did > max(mostSteps, mostSteps*w.theme.steps/100) {
				w.fail("HOT", "%d things happened in %s of peace", did, d-time.Until(end))
			}
			w.sleep(time.Millisecond)
			continue
		}
		at := time.Now().Add(min(10*time.Second, time.Until(end)))
		for _, r := range w.replicas {
			if r.leads {
				at = r.soonest(at)
			}
		}
		w.sleep(max(time.Until(at), 100*time.Millisecond))
	}
}

// settleOne does one thing that can be done now; false: there is none. What another responder does takes its time.
func (w *world) settleOne() bool {
	if waiters := w.waiters(); len(waiters) > 0 {
		w.open(waiters[0], arrives)
		return true
	}
	if len(w.belated) > 0 {
		w.catchUp()
		return true
	}
	for _, r := range w.alive() {
		r.spread()
		for _, k := range kinds {
			for r.cache.backlog(k) > 0 {
				r.deliver(k)
			}
		}
		if due := r.due(); r.leads && len(due) > 0 {
			r.reconcile(due[0])
			return true
		}
	}
	for _, p := range w.site.members() {
		if next := w.progress(p); next != nil {
			next()
			return true
		}
	}
	if next := w.made(); len(next) > 0 {
		next[0]()
		return true
	}
	return w.store.collect() > 0
}

// checkWishes: every request has ended in eviction or cancel, or says what it waits for, once there was time to take it up.
func (w *world) checkWishes() {
	if w.policy(firstPolicy) == nil {
		return
	}
	for _, request := range list[*api.EvictionRequest](w.store, requests) {
		ref, _ := evictionrequest.RequestRef(request)
		pod := w.store.pod(ref.Name)
		if request.Spec.Intent != api.EvictionRequestIntentEviction || request.DeletionTimestamp != nil || pod == nil || pod.UID != ref.UID {
			continue
		}
		if time.Since(request.CreationTimestamp.Time) < drain.TakenUpWithin {
			continue
		}
		if pod.DeletionTimestamp == nil && w.blocker(ref) == "" {
			w.fail("LIVENESS", "request %s for %s has neither ended nor a blocker with a message", request.Name, ref.Name)
		}
	}
}

// blocker is what the evictions of a pod say that they wait for.
func (w *world) blocker(ref evictionrequest.Ref) string {
	var said []string
	for _, e := range list[*api.Eviction](w.store, evictions) {
		if target, _ := evictionrequest.EvictionRef(e); target != ref {
			continue
		}
		for _, entry := range e.Status.Responders {
			if entry.Message != nil {
				said = append(said, *entry.Message)
			}
		}
	}
	return strings.Join(said, "; ")
}

// checkTraces: nothing is left of what was wanted.
func (w *world) checkTraces() {
	for _, trace := range w.traces() {
		w.fail("UNDO", "%s", trace)
	}
	if lost := w.site.lost(); len(lost) > 0 && !w.safety.excused {
		w.fail("DATA", "lost: %s", strings.Join(lost, ", "))
	}
}

// traces is what is left of requests: permits, preparations, and what these have made of the system.
func (w *world) traces() []string {
	var left []string
	if policy := w.policy(firstPolicy); policy != nil {
		for _, entry := range policy.Status.Leaving {
			left = append(left, fmt.Sprintf("the permit of %s (%s) since %s stands for ever", entry.PodName, entry.PodUID, entry.StartTime.UTC().Format(time.TimeOnly)))
		}
		for i := range policy.Status.Preparations {
			entry := &policy.Status.Preparations[i]
			if w.beyondUndo(entry) {
				continue
			}
			left = append(left, fmt.Sprintf("%s of %s (%s) is still %s: %s", entry.Name, entry.ID, entry.PodUID, entry.State, entry.Message))
		}
	}
	if !w.givenUp {
		left = append(left, w.site.leftovers()...)
	}
	return append(left, w.unended()...)
}
