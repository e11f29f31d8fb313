package act

import (
	"fmt"

	"k8s.io/client-go/rest"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// scale writes replicas and the record of them in one patch of the Deployment itself,
// not of its scale: a killed drain must never leave the one without the other.
func (w *Writer) scale(a drain.Action) (*rest.Request, error) {
	if a.Workload.Kind != "Deployment" {
		return nil, fmt.Errorf("scaling %s %s: only Deployments are surged", a.Workload.Kind, a.Workload.Key())
	}
	meta, err := surgeMeta(a)
	if err != nil {
		return nil, err
	}
	meta.UID, meta.ResourceVersion = a.Workload.UID, a.Workload.ResourceVersion
	to := target{client: w.Client.AppsV1().RESTClient(), resource: "deployments", namespace: a.Workload.Namespace, name: a.Workload.Name}
	return w.patch(to, patch{Metadata: meta, Spec: &patchSpec{Replicas: &a.Replicas}})
}

// scaleMin does the same to the lower limit of an autoscaler.
func (w *Writer) scaleMin(a drain.Action) (*rest.Request, error) {
	meta, err := surgeMeta(a)
	if err != nil {
		return nil, err
	}
	meta.UID, meta.ResourceVersion = a.Autoscaler.UID, a.Autoscaler.ResourceVersion
	to := target{client: w.Client.AutoscalingV2().RESTClient(), resource: "horizontalpodautoscalers", namespace: a.Autoscaler.Namespace, name: a.Autoscaler.Name}
	return w.patch(to, patch{Metadata: meta, Spec: &patchSpec{MinReplicas: &a.Replicas}})
}

// surgeMeta sets the record and the label with the drain's id, or removes both where
// there is no record.
func surgeMeta(a drain.Action) (patchMeta, error) {
	var record, label *string
	if a.Surge != nil {
		text, err := a.Surge.Encode()
		if err != nil {
			return patchMeta{}, err
		}
		record, label = &text, &a.Surge.ID
	}
	return patchMeta{
		Annotations: map[string]*string{snapshot.SurgeAnnotation: record},
		Labels:      map[string]*string{snapshot.SurgeLabel: label},
	}, nil
}
