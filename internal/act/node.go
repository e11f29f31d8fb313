package act

import (
	"k8s.io/client-go/rest"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// cordon sets the cordon and the record of it in one write, so that neither can be
// there without the other.
func (w *Writer) cordon(a drain.Action) (*rest.Request, error) {
	return w.patchNode(a.Node, a.Node.ResourceVersion, a.Record, new(true))
}

// mark insists on the UID only: a sign of life must not fail because the kubelet wrote
// in between. After a long time without one it insists on the resource version: another
// drain may have written its own record.
func (w *Writer) mark(a drain.Action) (*rest.Request, error) {
	version := ""
	if a.Lapsed {
		version = a.Node.ResourceVersion
	}
	return w.patchNode(a.Node, version, a.Record, nil)
}

func (w *Writer) uncordon(a drain.Action) (*rest.Request, error) {
	return w.patchNode(a.Node, a.Node.ResourceVersion, nil, new(false))
}

func (w *Writer) unmark(a drain.Action) (*rest.Request, error) {
	return w.patchNode(a.Node, a.Node.ResourceVersion, nil, nil)
}

// patchNode writes the record and the label by which other drains find it, or removes both where record is nil, and the cordon
// where unschedulable says so.
func (w *Writer) patchNode(node *snapshot.Node, version string, record *snapshot.DrainRecord, unschedulable *bool) (*rest.Request, error) {
	var text, id *string
	if record != nil {
		encoded, err := record.Encode()
		if err != nil {
			return nil, err
		}
		text, id = &encoded, &record.ID
	}
	what := patch{Metadata: patchMeta{
		UID:             node.UID,
		ResourceVersion: version,
		Labels:          map[string]*string{snapshot.DrainLabel: id},
		Annotations:     map[string]*string{snapshot.DrainAnnotation: text},
	}}
	if unschedulable != nil {
		what.Spec = &patchSpec{Unschedulable: unschedulable}
	}
	return w.patch(target{client: w.Client.CoreV1().RESTClient(), resource: "nodes", name: node.Name}, what)
}
