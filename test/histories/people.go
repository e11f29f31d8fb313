package histories

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	api "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/snapshot"
)

// person is a client that wants pods gone. Each has dice of its own, since it draws when others run.
type person struct {
	world *world
	name  string
	dice  *rand.Rand
	asked []*api.EvictionRequest
}

// invite brings the people of a history.
func (w *world) invite() {
	members := slices.DeleteFunc(slices.Clone(w.site.members()), func(m planned) bool { return !w.theme.fits(m.role) })
	w.focus = members[w.dice.IntN(len(members))].role
	for n := range 2 + w.dice.IntN(4) {
		p := &person{world: w, dice: rand.New(rand.NewPCG(w.seed, uint64(100+n)))}
		trade := w.theme.trades[w.dice.IntN(len(w.theme.trades))]
		if trade.name == rolls.name && w.odds.excused == 0 {
			trade = drains
		}
		p.name = fmt.Sprintf("%s%d", trade.name, n)
		w.spawn(func() { trade.does(p) })
	}
}

// rest waits; false: there is nothing more to do.
func (p *person) rest(least, most int) bool {
	select {
	case <-time.After(time.Duration(least*1000+p.dice.IntN((most-least)*1000)) * time.Millisecond):
		return !p.world.leaving()
	case <-p.world.ctx.Done():
		return false
	}
}

func (p *person) some() string {
	all := p.world.site.members()
	if focus := p.world.focus; p.dice.IntN(3) > 0 {
		of := slices.DeleteFunc(slices.Clone(all), func(m planned) bool { return m.role != focus })
		if len(of) > 0 { // before a set has its members there are none of some roles
			all = of
		}
	}
	return all[p.dice.IntN(len(all))].pod
}

// try sends a removal until it is accepted, as long as patience lasts.
func (p *person) try(make func() *removal, tries int) {
	for range tries {
		ctx, cancel := context.WithTimeout(p.world.ctx, 34*time.Second)
		r := make()
		r.of = p.name
		err := p.world.remove(ctx, r)
		cancel()
		if err == nil || !p.rest(1, 8) {
			return
		}
	}
}

// kubectl drains: one pod after the other, each until it is let go, by name.
func (p *person) kubectl() {
	uid := p.dice.IntN(2) == 0
	for range 2 + p.dice.IntN(4) {
		name := p.some()
		p.try(func() *removal {
			r := &removal{user: p.name, pod: name, dryRun: p.dice.IntN(8) == 0, grace: p.force()}
			if pod := p.world.pod(name); uid && pod != nil {
				r.uid = pod.UID
			}
			return r
		}, 3+p.dice.IntN(20))
		if !p.rest(1, 20) {
			return
		}
	}
}

// deleter deletes, sometimes by force.
func (p *person) deleter() {
	for range 1 + p.dice.IntN(3) {
		name := p.some()
		grace := p.force()
		p.try(func() *removal { return &removal{user: p.name, pod: name, delete: true, grace: grace} }, 1+p.dice.IntN(6))
		if !p.rest(5, 30) {
			return
		}
	}
}

// force is the grace period that is asked for: none, or that of the pod.
func (p *person) force() *int64 {
	if p.dice.IntN(100) < p.world.odds.force {
		return new(int64(0))
	}
	return nil
}

// tainter is Kubernetes' controller that deletes the pods of a node with a taint.
func (p *person) tainter() {
	name := p.some()
	p.try(func() *removal {
		return &removal{user: "system:serviceaccount:kube-system:taint-eviction-controller", pod: name, delete: true}
	}, 5)
}

// asker only asks.
func (p *person) asker() {
	for range 10 {
		name := p.some()
		ask := []string{"evict", "replace", ""}[p.dice.IntN(3)]
		p.try(func() *removal { return &removal{user: p.name, pod: name, dryRun: true, ask: ask} }, 1)
		if !p.rest(3, 20) {
			return
		}
	}
}

// roller is the StatefulSet controller, which replaces one pod after the other, and tries each again for a while.
func (p *person) roller() {
	for _, member := range p.world.site.members() {
		p.try(func() *removal {
			return &removal{
				user: "system:serviceaccount:kube-system:statefulset-controller", pod: member.pod, delete: true,
				excuse: p.world.neverGoes(member.role),
			}
		}, 1+p.dice.IntN(4))
		if !p.rest(10, 60) {
			return
		}
	}
}

// neverGoes says why no verdict ever lets a member of the role go, "" where one may: its own controller need not wait for it.
func (w *world) neverGoes(role string) string {
	voters := 0
	for _, member := range w.site.members() {
		if member.role == "etcd-member" {
			voters++
		}
	}
	if role == "etcd-member" && voters == 2 {
		return "its own controller deletes it, and of two none ever goes"
	}
	return ""
}

// shutdown is a machine that goes down with its kubelet's word, or one that runs short of memory: admission is not asked about either. Nothing of that
// happens once nothing is to go wrong any more: members that are replaced as soon as they are unhealthy would never all be well.
func (p *person) shutdown() {
	for p.rest(5, 60) && !p.world.calm {
		name := p.some()
		if p.dice.IntN(3) == 0 {
			p.short(name)
			continue
		}
		if !p.world.lost(name) {
			p.try(func() *removal { return &removal{user: kubelet + name, pod: name, delete: true} }, 1)
		}
	}
}

func (p *person) short(name string) {
	_ = p.world.call(p.world.ctx, nil, p.name+" is short of memory", plain, func() error {
		p.world.relieve(name)
		return nil
	})
}

// request asks by EvictionRequests, and may change its mind.
func (p *person) request() {
	for range 1 + p.dice.IntN(3) {
		if name := p.some(); p.world.pod(name) != nil {
			p.ask(name)
		}
		if !p.rest(1, 60) {
			break
		}
		if p.dice.IntN(3) == 0 {
			p.withdraw()
		}
	}
	for p.rest(20, 40) {
	}
	p.withdraw()
}

func (p *person) ask(name string) {
	pod := p.world.pod(name)
	wanted := evictionrequest.NewRequest(evictionrequest.Ref{Namespace: namespace, Name: name, UID: pod.UID}, "drain.example/"+p.name)
	if p.world.odds.foreign > 0 && p.dice.IntN(2) == 0 {
		wanted.OwnerReferences = nil // not every client's request goes with its pod
	}
	err := p.world.call(p.world.ctx, nil, p.name+" requests the eviction of "+name, plain, func() error {
		return p.world.store.create(duplicate(wanted))
	})
	if err == nil || apierrors.IsAlreadyExists(err) || errors.Is(err, errLost) { // the name is its own
		p.asked = append(p.asked, wanted)
	}
}

// withdraw takes back all requests, in one of two ways.
func (p *person) withdraw() {
	for _, wanted := range p.asked {
		key := client.ObjectKeyFromObject(wanted)
		if p.dice.IntN(2) == 0 {
			p.change("deletes its request for "+wanted.Spec.Target.Pod.Name, key, p.world.store.remove)
			continue
		}
		p.change("withdraws its request for "+wanted.Spec.Target.Pod.Name, key, func(object client.Object) {
			if request, ok := duplicate(object).(*api.EvictionRequest); ok {
				request.Spec.Intent = api.EvictionRequestIntentWithdrawn
				request.Generation++
				request.ManagedFields = intentOf(p.name)
				p.world.store.put(request)
			}
		})
	}
	p.asked = nil
}

func (p *person) change(what string, key snapshot.Key, how func(client.Object)) {
	p.surely(what, func() {
		if object := p.world.store.get(requests, key); object != nil {
			how(object)
		}
	})
}

// surely does something at the apiserver, as often as it takes to arrive.
func (p *person) surely(what string, effect func()) bool {
	for range 20 {
		err := p.world.call(p.world.ctx, nil, p.name+" "+what, plain, func() error { effect(); return nil })
		if err == nil {
			return true
		}
	}
	return false
}
