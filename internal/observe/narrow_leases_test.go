package observe_test

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pgregory.net/rapid"

	"usher.sh/usher/internal/snapshot"
)

// drawLeases gives the other drains Leases: one that is renewed, and one of a killed drain, which may be gone, or dated into the future.
// There may be Leases of other clients.
func (w *world) drawLeases() {
	if w.leased = rapid.Bool().Draw(w.t, "leased"); !w.leased {
		return
	}
	w.putLease("live", time.Now())
	switch draw(w, "lease of the dead", "old", "future", "gone") {
	case "old":
		w.putLease("dead", time.Now().Add(-time.Hour))
	case "future":
		w.putLease("dead", time.Now().Add(24*time.Hour))
	}
	if w.once(2, "foreign lease") {
		w.put("leases", &coordinationv1.Lease{
			ObjectMeta: w.meta(snapshot.LeaseNamespace, "leader", map[string]string{snapshot.DrainLabel: "live"}),
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("x"), RenewTime: &metav1.MicroTime{Time: time.Now()}},
		})
	}
}

func (w *world) putLease(id string, renewed time.Time) {
	w.put("leases", &coordinationv1.Lease{
		ObjectMeta: w.meta(snapshot.LeaseNamespace, snapshot.LeaseName(id), map[string]string{snapshot.DrainLabel: id}),
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new(id + "@host/1"), AcquireTime: &metav1.MicroTime{Time: renewed.Add(-time.Hour)}, RenewTime: &metav1.MicroTime{Time: renewed},
		},
	})
}

// changeLease renews the Lease of the drain that lives, or takes a Lease away.
func (w *world) changeLease() {
	id := draw(w, "lease of", "live", "live", "live", "dead", "own")
	switch {
	case !w.leased:
	case id == "live":
		w.putLease(id, time.Now())
	default:
		w.remove("leases", snapshot.Key{Namespace: snapshot.LeaseNamespace, Name: snapshot.LeaseName(id)})
	}
}
