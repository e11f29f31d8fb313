package histories

import (
	"encoding/json"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
)

// drain is `usher drain` of one node, as far as others see it: a record on the node with signs of life there or in a Lease, and requests
// under the drain's name. Most are killed at some moment, and withdraw nothing.
func (p *person) drain() {
	pod, record := p.begin()
	if record == nil {
		return
	}
	beats := p.dice.IntN(20)
	for range beats {
		if !p.rest(10, 20) || !p.beat(pod, record) {
			break
		}
	}
	if p.dice.IntN(3) > 0 {
		p.world.note("%s is killed", p.name)
		return
	}
	p.withdraw()
	record.State = "interrupted"
	p.beat(pod, record)
	if record.Lease {
		p.world.store.drop(leases, leaseKey(record.ID))
	}
}

// begin begins the drain of a member's node, and asks for what is there; the record is nil where another drain works on the node.
func (p *person) begin() (pod string, record *snapshot.DrainRecord) {
	pod = p.some()
	record = &snapshot.DrainRecord{Drainer: snapshot.Drainer{ID: p.name, By: p.name, Lease: p.dice.IntN(2) == 0}, State: "draining"}
	if !p.beat(pod, record) || !p.rest(0, 2) {
		return pod, nil
	}
	p.wants(pod)
	return pod, record
}

func leaseKey(id string) client.ObjectKey {
	return client.ObjectKey{Namespace: snapshot.LeaseNamespace, Name: snapshot.LeaseName(id)}
}

// beat gives a sign of life: in the Lease while that is in force, else by the drain's record on the node of a pod, unless another drain
// works on it.
func (p *person) beat(pod string, record *snapshot.DrainRecord) bool {
	if record.Lease && record.State == "draining" && p.world.leased(record.ID, time.Now()) {
		return p.renew(pod, record.ID)
	}
	record.Beat = time.Now()
	text, err := record.Encode()
	if err != nil {
		p.world.fail("SIMULATOR", "writing a record: %v", err)
		return false
	}
	ours := false
	p.surely("gives a sign of life", func() { ours = p.world.mark(p.world.nodeKey(pod), record, text) })
	return ours
}

// mark writes a record on a node. It returns false where the node is gone or carries the record of another drain that is alive.
func (w *world) mark(key client.ObjectKey, record *snapshot.DrainRecord, text string) bool {
	node, ok := w.store.get(nodes, key).(*corev1.Node)
	if !ok {
		return false
	}
	if before, now := observe.NodeFacts(node).Drain, time.Now(); before != nil && before.State == "draining" {
		switch live := w.signs(before, now); {
		case live && before.ID != record.ID:
			return false
		case !live && before.ID == record.ID:
			w.revived[record.ID] = now
		}
	}
	marked := duplicate(node)
	metav1.SetMetaDataAnnotation(&marked.ObjectMeta, snapshot.DrainAnnotation, text)
	w.store.put(marked)
	if record.Lease {
		w.putLease(record.ID)
	}
	return true
}

// renew renews the drain's Lease, as long as its record is on the node.
func (p *person) renew(pod, id string) bool {
	ours := false
	p.surely("renews its Lease", func() {
		if ours = p.world.nodeOf(pod, id) != nil && p.world.leased(id, time.Now()); ours {
			p.world.putLease(id)
		}
	})
	return ours
}

func (w *world) putLease(id string) {
	key := leaseKey(id)
	w.store.put(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: types.UID("lease-" + id)},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: time.Now()}},
	})
}

// leased reports whether the Lease of a drain is in force.
func (w *world) leased(id string, now time.Time) bool {
	lease, ok := w.store.get(leases, leaseKey(id)).(*coordinationv1.Lease)
	return ok && observe.LeaseFacts(lease).LiveAt(now)
}

// signs reports whether the drain of a record gives signs of life.
func (w *world) signs(record *snapshot.DrainRecord, now time.Time) bool {
	return record.LiveAt(now) || record.Lease && w.leased(record.ID, now)
}

// wants asks under the drain's name.
func (p *person) wants(name string) {
	pod := p.world.pod(name)
	if pod == nil {
		return
	}
	wanted := evictionrequest.NewRequest(evictionrequest.Ref{Namespace: namespace, Name: name, UID: pod.UID}, snapshot.RequesterOf(p.name))
	err := p.world.call(p.world.ctx, nil, p.name+" asks for the eviction of "+name, plain, func() error {
		return p.world.store.create(duplicate(wanted))
	})
	if err == nil || apierrors.IsAlreadyExists(err) {
		p.asked = append(p.asked, wanted)
	}
}

// checkExpiry: only a drain that shows no sign of life has its requests withdrawn, and not while the pod's node is left drained by it. One that has been silent for too long and
// then shows one may lose what it asked for to a replica that has read its node before: it asks anew. Replicas go by the
// apiserver's clock, but not where clocks jump here.
func (w *world) checkExpiry(key snapshot.Key, k kind, p part, body []byte) {
	var patch struct {
		Spec struct{ Intent api.EvictionRequestIntent }
	}
	if k != requests || p != whole || w.odds.jumps > 0 || json.Unmarshal(body, &patch) != nil || patch.Spec.Intent != api.EvictionRequestIntentWithdrawn {
		return
	}
	request, ok := w.store.get(requests, key).(*api.EvictionRequest)
	if !ok {
		return
	}
	who, drains := observe.RequestFacts(request).Drainer()
	ref, _ := evictionrequest.RequestRef(request)
	if pod := w.store.pod(ref.Name); pod == nil || pod.UID != ref.UID {
		return // it has what it asked for
	}
	switch {
	case drains && w.live(who, time.Now()) && time.Since(w.revived[who.ID]) > snapshot.LiveFor:
		w.fail("EXPIRY", "the request %s of %s is withdrawn, which gives signs of life", key.Name, who.ID)
	case drains && w.keeps(ref.Name, who.ID):
		w.fail("EXPIRY", "the request %s of %s is withdrawn, which has left the node of the pod drained", key.Name, who.ID)
	}
}

// unended are the requests of drains, which all have ended, that still ask for pods that are there.
func (w *world) unended() []string {
	var left []string
	for _, request := range list[*api.EvictionRequest](w.store, requests) {
		ref, _ := evictionrequest.RequestRef(request)
		pod := w.store.pod(ref.Name)
		if _, drains := observe.RequestFacts(request).Drainer(); drains && wanted(request) && pod != nil && pod.UID == ref.UID {
			left = append(left, "the request "+request.Name+" of "+request.Spec.Requester+", which has ended, stands for ever")
		}
	}
	return left
}

func wanted(r *api.EvictionRequest) bool {
	return r.DeletionTimestamp == nil && r.Spec.Intent == api.EvictionRequestIntentEviction
}

func (w *world) live(who snapshot.Drainer, now time.Time) bool {
	for _, node := range list[*corev1.Node](w.store, nodes) {
		record := observe.NodeFacts(node).Drain
		if record != nil && record.ID == who.ID && record.State == "draining" && w.signs(record, now) {
			return true
		}
	}
	return false
}
