package histories

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/test/arangosim"
	"usher.sh/usher/test/httpfault"
)

// arango is a cluster or an active failover deployment of ArangoDB.
type arango struct {
	world   *world
	sim     *arangosim.Cluster
	staging *arangosim.Cluster
	plan    []planned
	own     *v1alpha1.ArangoDB
	id      map[string]string // of the server that runs in a pod, or that ran there last
	empty   map[string]bool   // pods whose disks have nothing of that server any more
	down    map[string]bool   // pods whose process does not run
	shards  []string
	writing *rand.Rand
	agents  int
	failing bool   // the next moves of shards fail
	each    func() // looks at the deployment at each second, while it is written to; nil: as the history goes
}

const (
	arangoSecret  = "a secret of servers"
	stagingSecret = "staging"
)

func newArango(w *world) site { return newDeployment(w, w.dice.IntN(4) == 0) }

func newCluster(w *world) site { return newDeployment(w, false) }

func newDeployment(w *world, failover bool) site {
	config := arangosim.Config{Agents: []int{3, 3, 5}[w.dice.IntN(3)]}
	if failover {
		config.Singles = 2 + w.dice.IntN(2)
	} else {
		config.DBServers, config.Coordinators = 2+w.dice.IntN(3), 2
	}
	a := deploymentOf(w, config)
	if !failover {
		a.collections(w.dice, config.DBServers)
	}
	return a
}

// deploymentOf is a deployment of so many servers, without data.
func deploymentOf(w *world, config arangosim.Config) *arango {
	config.Secret, config.KeepJobs = arangoSecret, 600
	if w.odds.replaced > 0 {
		config.Host = setHost
	}
	a := arangoOver(w, arangosim.New(config))
	a.staging = arangosim.New(config)
	if config.Singles > 0 {
		a.shards = []string{""}
	}
	return a
}

// arangoRoles are the roles of servers by the kind in their ids, and setNames the StatefulSets in which these are.
var (
	arangoRoles = map[string]string{
		"AGNT": "arangodb-agent", "PRMR": "arangodb-dbserver", "CRDN": "arangodb-coordinator", "SNGL": "arangodb-single-active-failover",
	}
	setNames = map[string]string{"AGNT": "agent", "PRMR": "dbserver", "CRDN": "coordinator", "SNGL": "single"}
)

// setHost is where the n-th server of a kind listens that is a pod of a StatefulSet.
func setHost(kind string, n int) string {
	return fmt.Sprintf("%s-%d.%s.%s.svc:8529", setNames[kind], n, setNames[kind], namespace)
}

// arangoOver is a deployment whose servers run in pods that have the names of their hosts.
func arangoOver(w *world, sim *arangosim.Cluster) *arango {
	a := &arango{
		world: w, sim: sim, id: map[string]string{}, empty: map[string]bool{}, down: map[string]bool{}, writing: rand.New(rand.NewPCG(w.seed, 3)),
		own: &v1alpha1.ArangoDB{JWT: &v1alpha1.SecretKey{Name: "jwt", Key: "token"}},
	}
	for _, id := range sim.Members() {
		address := sim.Address(id)
		switch id[:4] {
		case "AGNT":
			a.agents++
			a.own.Agents = append(a.own.Agents, address)
		case "CRDN", "SNGL":
			a.own.Endpoints = append(a.own.Endpoints, address)
		}
		_, host, _ := strings.Cut(address, "://")
		pod, _, _ := strings.Cut(host, ".")
		a.id[pod] = id
		a.plan = append(a.plan, planned{pod, arangoRoles[id[:4]], id[:4] == "PRMR" && w.odds.replaced == 0})
	}
	return a
}

func (a *arango) collections(dice *rand.Rand, servers int) {
	for c := range 1 + dice.IntN(2) {
		copies := 1
		if dice.IntN(2) == 0 {
			copies += dice.IntN(min(servers, 3))
		}
		var shards [][]string
		for range 1 + dice.IntN(2) {
			var on []string
			for _, n := range dice.Perm(servers)[:copies] {
				on = append(on, arangosim.ID("PRMR", n))
			}
			shards = append(shards, on)
		}
		a.collection(fmt.Sprintf("c%d", c), copies, shards...)
	}
}

func (a *arango) collection(name string, copies int, shards ...[]string) {
	a.sim.AddCollection(name, copies, shards...)
	for i := range shards {
		a.shards = append(a.shards, fmt.Sprintf("_system/%s/s%s%d", name, name, i))
	}
}

func (a *arango) members() []planned { return a.plan }

func (a *arango) spec(staging bool) v1alpha1.EvictionPolicySpec {
	own := a.own.DeepCopy()
	if staging {
		own.JWT.Name = stagingSecret // of this simulator, both have the same addresses
	}
	return v1alpha1.EvictionPolicySpec{System: v1alpha1.System{ArangoDB: own}, Members: provide(a.world, selectors(a.plan))}
}

// selectors has an entry for each role.
func selectors(plan []planned) []v1alpha1.MemberSelector {
	var all []v1alpha1.MemberSelector
	for _, p := range plan {
		if slices.ContainsFunc(all, func(m v1alpha1.MemberSelector) bool { return m.Role == p.role }) {
			continue
		}
		all = append(all, v1alpha1.MemberSelector{
			Role: p.role, ID: "pod.name", Deletes: v1alpha1.DeleteGuard,
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"role": p.role}},
		})
	}
	return all
}

func (a *arango) kind(r *replica, real system.Kind) system.Kind {
	open := real.Open
	real.Open = func(spec *v1alpha1.System, access system.Access) (system.System, error) {
		access.Secrets = map[v1alpha1.SecretKey][]byte{*spec.ArangoDB.JWT: []byte(arangoSecret)}
		if access.Transport = (&line{replica: r, next: a.sim.Transport(), before: a.watch}); spec.ArangoDB.JWT.Name == stagingSecret {
			access.Transport = &line{replica: r, next: a.staging.Transport()}
		}
		return open(spec, access)
	}
	return real
}

// watch looks at what is asked of the system: a clean-out must not be begun where one runs.
func (a *arango) watch(request *http.Request, body string) {
	if strings.HasSuffix(request.URL.Path, "/removeServer") || strings.HasSuffix(request.URL.Path, "/agency/write") {
		a.checkRemoved(body)
	}
	if request.URL.Path != "/_admin/cluster/cleanOutServer" {
		return
	}
	for server, running := range a.sim.CleanOuts() {
		if running && strings.Contains(body, `"`+server+`"`) {
			a.world.fail("ONCE", "a clean-out of %s is asked for while one is under way or done", server)
		}
	}
}

func (a *arango) tick() {
	a.sim.Tick()
	if a.failing && a.sim.FailMoves() {
		a.failing = false
		a.world.note("system: the moves of shards under way fail")
	}
	if a.world.regime.staging {
		a.staging.Tick()
	}
	if a.each != nil {
		a.each()
	}
	if (!a.world.calm || a.each != nil) && a.writing.IntN(3) == 0 && len(a.shards) > 0 {
		a.sim.Write(a.shards[a.writing.IntN(len(a.shards))])
	}
}

func (a *arango) start(pod string, wiped bool) {
	if wiped {
		a.wipe(pod)
	}
	if a.empty[pod] {
		a.id[pod] = a.sim.Renew(a.id[pod])
		a.world.note("the process of %s begins with an empty disk as %s", pod, a.id[pod])
	} else {
		a.sim.Restart(a.id[pod])
	}
	delete(a.down, pod)
	delete(a.empty, pod)
}

func (a *arango) stop(pod string) {
	a.sim.Kill(a.id[pod])
	a.down[pod] = true
}

func (a *arango) wouldLose(pod string, away []string) string {
	var gone []string
	for _, other := range away {
		gone = append(gone, a.id[other])
	}
	if lose, why := a.sim.WouldLose(a.id[pod], gone...); lose {
		return why
	}
	return ""
}

func (*arango) lag(string) time.Duration { return 0 } // its roles ask nothing that lags

func (a *arango) strike(dice *rand.Rand) string {
	member := a.plan[dice.IntN(len(a.plan))]
	id := a.id[member.pod]
	switch dice.IntN(9) {
	case 0:
		a.sim.Inject(httpfault.Fault{Server: id, Times: 1 + dice.IntN(4), Status: http.StatusUnauthorized, Body: `{"error":true}`})
		return id + " answers 401"
	case 1:
		a.sim.Inject(httpfault.Fault{Server: id, Times: 1 + dice.IntN(4), Status: http.StatusServiceUnavailable})
		return id + " answers 503"
	case 2:
		a.sim.Inject(httpfault.Fault{Server: id, Times: 1, Status: http.StatusTemporaryRedirect, Header: map[string]string{"Location": "http://elsewhere:8529/_api/agency/read"}})
		return id + " redirects elsewhere"
	case 3:
		a.sim.Inject(httpfault.Fault{Server: id, Times: 1, Silent: true})
		return id + " is silent"
	case 4:
		a.sim.Inject(httpfault.Fault{Server: id, Times: 1, Cut: 20 + dice.IntN(200)})
		return id + " breaks off"
	}
	return a.trouble(dice)
}

// trouble is what is wrong with the deployment rather than with an answer.
func (a *arango) trouble(dice *rand.Rand) string {
	agent := arangosim.ID("AGNT", dice.IntN(a.agents))
	switch dice.IntN(7) {
	case 5, 6:
		a.sim.SetForgetful(true)
		return "failed moves are forgotten"
	case 0:
		on := dice.IntN(2) == 0
		a.sim.Isolate(agent, on)
		return fmt.Sprintf("agent %s is isolated: %v", agent, on)
	case 1:
		on := dice.IntN(2) == 0
		a.sim.Stall(agent, on)
		return fmt.Sprintf("agent %s is stalled: %v", agent, on)
	case 2:
		a.sim.ForgetJobs()
		return "the supervision forgets the jobs that have ended"
	case 3:
		a.sim.LoseJobs()
		return "all jobs are lost"
	}
	on := dice.IntN(3) == 0
	a.sim.SetMaintenance(on)
	return fmt.Sprintf("the supervision is in maintenance: %v", on)
}

// fail lets the moves of the next clean-out fail, or of one that is under way.
func (a *arango) fail(dice *rand.Rand) string {
	forgotten := dice.IntN(2) == 0
	a.failing = true
	a.sim.SetForgetful(forgotten)
	return fmt.Sprintf("moves of shards will fail (and are forgotten: %v)", forgotten)
}

func (a *arango) heal() {
	a.sim.Heal()
	a.sim.SetMaintenance(false)
	a.sim.SetForgetful(false)
	a.failing = false
	for n := range a.agents {
		a.sim.Isolate(arangosim.ID("AGNT", n), false)
		a.sim.Stall(arangosim.ID("AGNT", n), false)
	}
}

func (a *arango) leftovers() []string {
	var left []string
	for server := range a.sim.CleanOuts() {
		for _, current := range a.id {
			if current == server && !a.saidLeft(server) {
				left = append(left, "the clean-out of "+server)
			}
		}
	}
	slices.Sort(left)
	return left
}

// saidLeft reports whether Usher said that it leaves a clean-out, since it may be another client's.
func (a *arango) saidLeft(server string) bool {
	return slices.ContainsFunc(a.world.left, func(note string) bool { return strings.Contains(note, server) })
}

// line carries HTTP through the gate.
type line struct {
	replica *replica
	next    http.RoundTripper
	before  func(request *http.Request, body string)
}

// RoundTrip implements http.RoundTripper.
func (l *line) RoundTrip(request *http.Request) (response *http.Response, err error) {
	body, err := bodyOf(request)
	if err != nil {
		return nil, err
	}
	w := l.replica.world
	label := l.replica.name + " " + request.Method + " " + request.URL.Host + request.URL.Path + " " + short(body)
	err = w.call(request.Context(), l.replica, label, plain, func() error {
		if l.before != nil {
			l.before(request, body)
		}
		request.Body = http.NoBody
		if body != "" {
			request.Body = reader(body)
		}
		response, err = l.next.RoundTrip(request)
		return err
	})
	if err != nil {
		return nil, err
	}
	return response, nil
}

func (a *arango) lost() []string { return a.sim.Lost() }

func (a *arango) leads(pod string) bool { return a.sim.LeadsSingles(a.id[pod]) }

func (a *arango) unreplicated(pod string) bool { return a.sim.Unreplicated(a.id[pod]) }
