package histories

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/system"
)

// httpSite is a service that Usher has no driver for: keepers hold shards of its data, each on two of them, and routers lead to
// them. Its policy says all there is to know in roles of its own.
type httpSite struct {
	world   *world
	plan    []planned
	here    *shardStore
	staging *shardStore
	writing *rand.Rand
	faulty  map[string]int // answers that go wrong, by how
	routers int
	floor   bool // routers go by which pods are Ready, and not by what the store says
	stay    bool // keepers' pods stay, and their shards leave
	// bySteps: a keeper leaves the store's list of members before it is replaced, and its successor joins it.
	bySteps bool
}

// troubles are what may be wrong with an answer.
var troubles = []string{"401", "503", "garbage", "empty", "cut", "silence"}

func newHTTPSite(w *world) site {
	keepers := 3 + w.dice.IntN(3)
	return storeOf(w, keepers, 2+w.dice.IntN(2))
}

// storeOf is a store of so many keepers and routers.
func storeOf(w *world, keepers, routers int) *httpSite {
	d := &httpSite{world: w, routers: routers, faulty: map[string]int{}, writing: rand.New(rand.NewPCG(w.seed, 3))}
	for n := range keepers {
		d.plan = append(d.plan, planned{fmt.Sprintf("keeper-%d", n), "keeper", true})
	}
	for n := range routers {
		d.plan = append(d.plan, planned{fmt.Sprintf("router-%d", n), "router", false})
	}
	d.here, d.staging = newShardStore(d.plan, keepers), newShardStore(d.plan, keepers)
	return d
}

// newFloor is a store whose routers have a floor.
func newFloor(w *world) site {
	d, _ := newHTTPSite(w).(*httpSite)
	d.floor = true
	return d
}

// newOperated is a store whose keepers an operator replaces.
func newOperated(w *world) site {
	w.operator = w.newOperator("keeper")
	return newHTTPSite(w)
}

// newListing is a store whose policy says how keepers leave its list of members and join it.
func newListing(w *world) site {
	d, _ := newHTTPSite(w).(*httpSite)
	d.bySteps = true
	return d
}

// newStaying is a store whose keepers stay on their nodes, without shards.
func newStaying(w *world) site {
	d, _ := newHTTPSite(w).(*httpSite)
	d.stay = true
	return d
}

func (d *httpSite) members() []planned { return d.plan }

func (d *httpSite) spec(staging bool) v1alpha1.EvictionPolicySpec {
	endpoint := "http://store:80"
	if staging {
		endpoint = stagingURL
	}
	members := selectors(d.plan)
	provide(d.world, members)
	if d.stay {
		members[0].Leaves = v1alpha1.LeavesLoad
		if d.onCordon() {
			members[0].EmptyOn = v1alpha1.EmptyOnCordon
		}
	}
	serviceAccount := ""
	if d.world.operator != nil {
		serviceAccount = patcher
	}
	return v1alpha1.EvictionPolicySpec{
		System: v1alpha1.System{HTTP: &v1alpha1.HTTP{
			Access:      v1alpha1.Access{Endpoints: []string{endpoint}},
			Facts:       []v1alpha1.Get{{Name: "status", URL: "/status"}},
			MemberFacts: []v1alpha1.Get{{Name: "keeper", URL: "/keepers/{{member.id}}"}},
			Steps: []v1alpha1.Step{{
				Name: "Empty",
				Do:   v1alpha1.Call{Method: http.MethodPut, URL: "/closed/{{member.id}}"},
				Undo: &v1alpha1.Call{Method: http.MethodDelete, URL: "/closed/{{member.id}}"},
			}},
			Replace: d.replaceSteps(),
		}},
		Members: members, Roles: d.roles(), ServiceAccountName: serviceAccount,
	}
}

// replaceSteps are those by which a keeper leaves the store's list of members, and joins it.
func (d *httpSite) replaceSteps() *v1alpha1.ReplaceSteps {
	if !d.bySteps {
		return nil
	}
	return &v1alpha1.ReplaceSteps{
		Leave: []v1alpha1.ReplaceStep{{
			Name: "Forget", Do: v1alpha1.Call{Method: http.MethodDelete, URL: "/members/{{member.id}}"}, Done: "!(member.id in system.status.members)",
		}},
		Join: []v1alpha1.ReplaceStep{{
			Name: "Add", Do: v1alpha1.Call{Method: http.MethodPut, URL: "/members/{{member.id}}"}, Done: "member.id in system.status.members",
		}},
	}
}

func (d *httpSite) roles() []v1alpha1.Role {
	roles := []v1alpha1.Role{
		{
			Name: "keeper", System: "http", State: v1alpha1.StatePersistent, Identity: v1alpha1.IdentityUnique,
			Replace: v1alpha1.Replace{Successor: v1alpha1.SuccessorSameIdentity, Rules: []v1alpha1.Rule{{
				Name: "copied", Reason: "SoleCopies", Expression: "member.keeper.sole == 0", Message: "no other serves {{member.keeper.sole}} shards of {{member.id}}",
			}}},
			Evict: v1alpha1.Evict{
				AtOnce: new(int32(1)),
				Rules: []v1alpha1.Rule{
					{Name: "others-up", Reason: "AnotherIsDown", Expression: "system.status.down.all(name, name == member.id)", Message: "down: {{system.status.down}}"},
					{Name: "closed", Reason: "StillOpen", Expression: "member.keeper.closed", Message: "shards may still be put on {{member.id}}"},
					{Name: "empty", Reason: "HoldsShards", Expression: "member.keeper.shards == 0", Message: "{{member.keeper.shards}} shards are on {{member.id}}"},
				},
				Prepare: []v1alpha1.Preparation{{
					Name: "Empty", When: "!member.keeper.closed && system.status.closed.size() == 0", Message: "closing {{member.id}}",
				}},
			},
		},
		{
			Name: "router", Replace: d.routerReplace(), System: "http", State: v1alpha1.StateNone, Identity: v1alpha1.IdentityNone,
			Evict: v1alpha1.Evict{Settle: &metav1.Duration{Duration: followerLag * time.Second}, Rules: []v1alpha1.Rule{{
				Name: "another-routes", Reason: "LastRouters",
				Expression: "system.status.routers - double(leaving.filter(id, id.startsWith('router')).size()) >= 2.0",
				Message:    "{{system.status.routers}} routers serve; leaving: {{leaving}}",
			}}},
		},
	}
	if d.floor {
		roles[1].Evict = v1alpha1.Evict{MinReady: new(int32(1))}
	}
	return roles
}

// routerReplace is what a router's role says of its successor: where a ReplicaSet makes it, any pod will do as long as another routes.
func (d *httpSite) routerReplace() v1alpha1.Replace {
	if d.world.odds.replaced == 0 {
		return v1alpha1.Replace{Successor: v1alpha1.SuccessorNewIdentity}
	}
	return v1alpha1.Replace{Successor: v1alpha1.SuccessorAnyPod, Rules: []v1alpha1.Rule{{
		Name: "another-routes", Reason: "LastRouter", Expression: "system.status.routing.exists(name, name != member.id && !(name in leaving))",
		Message: "these route: {{system.status.routing}}; leaving: {{leaving}}",
	}}}
}

func (d *httpSite) scaled() (role string, replicas int) {
	if d.world.odds.replaced == 0 {
		return "", 0
	}
	return "router", d.routers
}

func (d *httpSite) add(pod string) {
	d.plan = append(slices.Clone(d.plan), planned{pod, "router", false})
	d.here.add(pod)
}

func (d *httpSite) wouldMiss(pod string) string { return d.here.wouldMiss(pod) }

func (d *httpSite) drop(pod string) {
	d.plan = slices.DeleteFunc(slices.Clone(d.plan), func(p planned) bool { return p.pod == pod })
	d.here.drop(pod)
}

func (d *httpSite) kind(r *replica, real system.Kind) system.Kind {
	open := real.Open
	real.Open = func(spec *v1alpha1.System, access system.Access) (system.System, error) {
		access.Transport = &line{replica: r, next: httpHandler{d}}
		return open(spec, access)
	}
	return real
}

func (d *httpSite) tick() {
	d.here.tick()
	if d.world.regime.staging {
		d.staging.tick()
	}
}

func (d *httpSite) start(pod string, wiped bool) {
	if wiped {
		d.here.wipe(pod)
	}
	d.here.up[pod] = true
}

func (d *httpSite) wipe(pod string) { d.here.wipe(pod) }

func (d *httpSite) wouldLoseDisk(pod string) string { return d.here.wouldLoseDisk(pod) }

func (*httpSite) expelled(string) bool { return false }

func (*httpSite) sets() map[string]bool { return map[string]bool{"keeper": true} }

func (*httpSite) container(string) corev1.Container { return corev1.Container{Name: "keeper"} }

func (d *httpSite) stop(pod string) { delete(d.here.up, pod) }

// wouldLose of routers that have a floor goes by what clients reach: a pod whose node does not report is not Ready.
func (d *httpSite) wouldLose(pod string, away []string) string {
	if d.floor && strings.HasPrefix(pod, "router") {
		if d.world.lost(pod) {
			return ""
		}
		for _, p := range d.plan {
			if p.role == "router" && d.world.lost(p.pod) {
				away = append(away, p.pod)
			}
		}
	}
	return d.here.wouldLose(pod, away)
}

func (d *httpSite) lag(role string) time.Duration {
	if d.floor && role == "router" {
		return 0 // a kubelet reports at once that its pod is not Ready
	}
	return followerLag * time.Second
}

func (d *httpSite) strike(dice *rand.Rand) string {
	how := troubles[dice.IntN(len(troubles))]
	d.faulty[how] += 1 + dice.IntN(4)
	return "answers go wrong: " + how
}

// fail lets shards come back to a keeper that was emptied, as a script does that opens it again.
func (d *httpSite) fail(dice *rand.Rand) string {
	for _, p := range d.plan {
		if d.here.closed[p.pod] && dice.IntN(4) == 0 {
			delete(d.here.closed, p.pod)
			return p.pod + " was opened again by another client"
		}
	}
	return ""
}

func (d *httpSite) heal() { clear(d.faulty) }

func (d *httpSite) lost() []string { return d.here.lost() }

func (*httpSite) leads(string) bool { return false }

func (*httpSite) unreplicated(string) bool { return false }

func (d *httpSite) leftovers() []string {
	var left []string
	for _, p := range d.plan {
		if d.here.closed[p.pod] {
			left = append(left, p.pod+" is still closed")
		}
	}
	return left
}

// strikes takes the next fault of a kind.
func (d *httpSite) next() string {
	for _, how := range troubles {
		if d.faulty[how] > 0 {
			d.faulty[how]--
			return how
		}
	}
	return ""
}

// httpHandler answers for both stores.
type httpHandler struct{ site *httpSite }

// RoundTrip implements http.RoundTripper.
func (c httpHandler) RoundTrip(request *http.Request) (*http.Response, error) {
	store := c.site.here
	if request.URL.Host == strings.TrimPrefix(stagingURL, "http://") {
		store = c.site.staging
	} else if how := c.site.next(); how != "" {
		answer, err := wrong(request, how)
		if err == nil && answer.StatusCode == http.StatusOK && request.Method != http.MethodGet {
			c.answer(store, request) // what was answered with 200 was done
		}
		return answer, err
	}
	return c.answer(store, request), nil
}

// answer has a store do what it is asked for, and looks whether it may be asked for that.
func (c httpHandler) answer(store *shardStore, request *http.Request) *http.Response {
	if member, is := strings.CutPrefix(request.URL.Path, "/members/"); is && store == c.site.here {
		looked := lookedSince(request.Context())
		if request.Method == http.MethodDelete {
			c.site.world.checkLeaves(member, looked)
		} else {
			c.site.world.checkJoins(member, looked)
		}
	}
	return store.answer(request)
}
