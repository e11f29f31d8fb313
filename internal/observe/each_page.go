package observe

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AtOnce is how many objects of a kind that tenants write are read at a time: each may have a megabyte and a half.
const AtOnce = 20

// EachPage reads a list, which is empty, in pages of AtOnce objects, and calls each with one after the other until that returns false. The error is the API's.
func EachPage[L client.ObjectList](ctx context.Context, from client.Reader, empty L, each func(L) (more bool), options ...client.ListOption) error {
	for next := ""; ; {
		page, _ := empty.DeepCopyObject().(L)
		at := append([]client.ListOption{client.Limit(AtOnce), client.Continue(next)}, options...)
		if err := from.List(ctx, page, at...); err != nil {
			return err
		}
		if next = page.GetContinue(); !each(page) || next == "" {
			return nil
		}
	}
}
