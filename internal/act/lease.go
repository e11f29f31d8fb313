package act

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

const leases = "leases"

// renewLease writes the sign of life of a drain. It creates the Lease where none was seen, which fails where there is one; else it insists
// on the resource version: another process of the drain may have taken it.
func (w *Writer) renewLease(a drain.Action) (*rest.Request, error) {
	if a.Lease.UID == "" {
		options := &metav1.CreateOptions{DryRun: w.dryRun(), FieldManager: fieldManager}
		return w.Client.CoordinationV1().RESTClient().Post().Namespace(snapshot.LeaseNamespace).Resource(leases).
			VersionedParams(options, scheme.ParameterCodec).Body(leaseOf(a.Lease)), nil
	}
	spec := leaseOf(a.Lease).Spec
	what := patch{Metadata: patchMeta{UID: a.Lease.UID, ResourceVersion: a.Lease.ResourceVersion}, Spec: &patchSpec{
		HolderIdentity: spec.HolderIdentity, LeaseDurationSeconds: spec.LeaseDurationSeconds, AcquireTime: spec.AcquireTime, RenewTime: spec.RenewTime,
	}}
	return w.patch(target{
		client: w.Client.CoordinationV1().RESTClient(), resource: leases, namespace: snapshot.LeaseNamespace, name: snapshot.LeaseName(a.Lease.ID),
	}, what)
}

func leaseOf(l *snapshot.Lease) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		TypeMeta: metav1.TypeMeta{APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: snapshot.LeaseNamespace, Name: snapshot.LeaseName(l.ID), Labels: map[string]string{snapshot.DrainLabel: l.ID},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &l.Holder, LeaseDurationSeconds: new(int32(snapshot.LiveFor / time.Second)),
			AcquireTime: &metav1.MicroTime{Time: l.Acquired}, RenewTime: &metav1.MicroTime{Time: l.Renewed},
		},
	}
}

// deleteLease insists on the resource version: a drain that renews its Lease keeps it.
func (w *Writer) deleteLease(a drain.Action) *rest.Request {
	uid, version := a.Lease.UID, a.Lease.ResourceVersion
	return w.Client.CoordinationV1().RESTClient().Delete().
		Namespace(snapshot.LeaseNamespace).Resource(leases).Name(snapshot.LeaseName(a.Lease.ID)).
		Body(&metav1.DeleteOptions{
			TypeMeta:      metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
			Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
			DryRun:        w.dryRun(),
		})
}
