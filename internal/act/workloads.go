package act

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"usher.sh/usher/internal/snapshot"
)

// Workloads scales plain workloads of a namespace. Dynamic may impersonate a ServiceAccount; Client is the manager's own. It may be
// used by several goroutines at once.
type Workloads struct {
	Dynamic dynamic.Interface
	Client  kubernetes.Interface
	Mapper  meta.RESTMapper
	Now     func() time.Time
	// Holder names the process in its Lease.
	Holder string

	mu      sync.Mutex
	renewed time.Time
}

// Scale sets replicas by the subresource scale, and the record on the object itself: first where there is one, last where it goes. A process
// that ends between the two leaves a record beside other replicas than it names, which says that there is only the record to remove.
func (s *Workloads) Scale(ctx context.Context, w *snapshot.Workload, replicas int32, record *snapshot.SurgeRecord) error {
	resource, err := s.resource(w)
	if err != nil {
		return err
	}
	version := w.ResourceVersion
	if record != nil {
		marked, err := s.mark(ctx, resource, w, version, record)
		if err != nil {
			return err
		}
		version = marked.GetResourceVersion()
	}
	if replicas != w.Replicas {
		if version, err = s.scaleMarked(ctx, resource, w, version, replicas, record); err != nil {
			return err
		}
	}
	if record == nil {
		_, err = s.mark(ctx, resource, w, version, nil)
	}
	return err
}

// scaleTries is how often a workload is scaled whose record is written. Its controllers write its status at any moment, and a record without
// its replicas says that another client has set these.
const scaleTries = 4

// scaleMarked scales a workload whose record, if there is one, was written just before. What its controllers write in between is no conflict:
// the record is written once more, which shows the version that the workload has then, and whether its replicas are those from before.
func (s *Workloads) scaleMarked(ctx context.Context, to dynamic.ResourceInterface, w *snapshot.Workload, version string, replicas int32, record *snapshot.SurgeRecord) (string, error) {
	now, err := s.scaleTo(ctx, to, w, version, replicas)
	for tries := 1; record != nil && apierrors.IsConflict(err) && tries < scaleTries; tries++ {
		marked, markErr := s.mark(ctx, to, w, "", record)
		if markErr != nil {
			return "", markErr
		}
		if before, found, readErr := unstructured.NestedInt64(marked.Object, "spec", "replicas"); readErr != nil || !found || before != int64(w.Replicas) {
			return "", err
		}
		now, err = s.scaleTo(ctx, to, w, marked.GetResourceVersion(), replicas)
	}
	return now, err
}

// ScaleMin sets the minimum of an autoscaler and its record in one patch.
func (s *Workloads) ScaleMin(ctx context.Context, a *snapshot.Autoscaler, least int32, record *snapshot.SurgeRecord) error {
	meta, err := recorded(record)
	if err != nil {
		return err
	}
	meta.UID, meta.ResourceVersion = a.UID, a.ResourceVersion
	resource := s.Dynamic.Resource(schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}).Namespace(a.Namespace)
	if _, err := send(ctx, resource, a.Name, patch{Metadata: meta, Spec: &patchSpec{MinReplicas: &least}}); err != nil {
		return fmt.Errorf("setting minReplicas of autoscaler %s to %d: %w", a.Name, least, err)
	}
	return nil
}

func (s *Workloads) resource(w *snapshot.Workload) (dynamic.ResourceInterface, error) {
	if w.UID == "" || w.ResourceVersion == "" {
		return nil, fmt.Errorf("scaling %s %s: its UID or version is not known", w.Kind, w.Name)
	}
	mapping, err := s.Mapper.RESTMapping(schema.GroupKind{Group: w.APIGroup(), Kind: w.Kind})
	if err != nil {
		return nil, fmt.Errorf("scaling %s %s: %w", w.Kind, w.Name, err)
	}
	return s.Dynamic.Resource(mapping.Resource).Namespace(w.Namespace), nil
}

// mark writes the record on the object, or takes it off, at this version, or "" at any, and returns the object as it is then.
func (s *Workloads) mark(ctx context.Context, to dynamic.ResourceInterface, w *snapshot.Workload, version string, record *snapshot.SurgeRecord) (*unstructured.Unstructured, error) {
	meta, err := recorded(record)
	if err != nil {
		return nil, err
	}
	meta.UID, meta.ResourceVersion = w.UID, version
	now, err := send(ctx, to, w.Name, patch{Metadata: meta})
	if err != nil {
		return nil, fmt.Errorf("writing usher's record on %s %s: %w", w.Kind, w.Name, err)
	}
	return now, nil
}

// scaleTo insists on the version of the object, which its scale shares, and returns the one that it has then.
func (s *Workloads) scaleTo(ctx context.Context, to dynamic.ResourceInterface, w *snapshot.Workload, version string, replicas int32) (string, error) {
	now, err := send(ctx, to, w.Name, patch{Metadata: patchMeta{ResourceVersion: version}, Spec: &patchSpec{Replicas: &replicas}}, "scale")
	if err != nil {
		return "", fmt.Errorf("scaling %s %s to %d: %w", w.Kind, w.Name, replicas, err)
	}
	return now.GetResourceVersion(), nil
}

func send(ctx context.Context, to dynamic.ResourceInterface, name string, what patch, subresources ...string) (*unstructured.Unstructured, error) {
	body, err := json.Marshal(what)
	if err != nil {
		return nil, fmt.Errorf("writing a patch: %w", err)
	}
	return to.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: fieldManager}, subresources...)
}

// recorded sets the record and the label with its id, or removes both where there is none.
func recorded(record *snapshot.SurgeRecord) (patchMeta, error) {
	var annotation, label *string
	if record != nil {
		encoded, err := record.Encode()
		if err != nil {
			return patchMeta{}, err
		}
		annotation, label = &encoded, &record.ID
	}
	return patchMeta{
		Annotations: map[string]*string{snapshot.SurgeAnnotation: annotation}, Labels: map[string]*string{snapshot.SurgeLabel: label},
	}, nil
}

var errNoLease = errors.New("giving a sign of life")

// Renew renews the Lease of the manager's surges, once in BeatEvery at most. It is the manager's own, whoever is impersonated.
func (s *Workloads) Renew(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Now()
	if age := now.Sub(s.renewed); age >= 0 && age < snapshot.BeatEvery {
		return nil
	}
	if err := s.renew(ctx, now.Truncate(time.Microsecond)); err != nil {
		return fmt.Errorf("%w for surges in namespace %s: %w", errNoLease, snapshot.LeaseNamespace, err)
	}
	s.renewed = now
	return nil
}

func (s *Workloads) renew(ctx context.Context, now time.Time) error {
	leases := s.Client.CoordinationV1().Leases(snapshot.LeaseNamespace)
	next := &snapshot.Lease{ID: snapshot.ManagerID, Holder: s.Holder, Acquired: now, Renewed: now}
	lease, err := leases.Get(ctx, snapshot.LeaseName(next.ID), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, leaseOf(next), metav1.CreateOptions{FieldManager: fieldManager})
		return err
	}
	if err != nil {
		return err
	}
	lease.Spec = renewal(lease, leaseOf(next)).Spec
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{FieldManager: fieldManager})
	return err
}

// renewal keeps since when a lease has been in force that still is.
func renewal(old, next *coordinationv1.Lease) *coordinationv1.Lease {
	if old.Spec.AcquireTime != nil && old.Spec.RenewTime != nil && next.Spec.RenewTime.Sub(old.Spec.RenewTime.Time) < snapshot.LiveFor {
		next.Spec.AcquireTime = old.Spec.AcquireTime
	}
	return next
}
