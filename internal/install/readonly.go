package install

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// ReadOnly returns the cluster for a dry run on the client: what would be removed is read, so
// that what is not there is passed over, and nothing else is sent.
func (c Cluster) ReadOnly() Cluster {
	c.Client = interceptor.NewClient(c.Client, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, _ ...client.DeleteOption) error {
			return c.Get(ctx, client.ObjectKeyFromObject(object), object)
		},
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return nil
		},
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return nil
		},
	})
	return c
}
