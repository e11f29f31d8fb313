package policy

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/snapshot"
)

// The deletion of a policy waits until what its nodeLock has written is taken back, and not for ever. One that stands keeps the finalizer.
func TestDeletedPolicyWaitsForItsLocks(t *testing.T) {
	key := snapshot.Key{Namespace: "prod", Name: "db"}
	locked := func(owner snapshot.Key) client.Object {
		lock := "lock.example.com/" + snapshot.NodeLockName(owner, "node")
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{lock: ""}}}
	}
	asked := evictionrequest.NewRequest(evictionrequest.Ref{Namespace: "prod", Name: "db-0", UID: types.UID("db-0")}, evictionrequest.NodeLockRequester("db"))
	for name, c := range map[string]struct {
		left     client.Object
		says     string
		unseen   bool // the cache does not show it
		comes    bool // what is left was on its way, and is there a moment after the deletion
		released bool // what is left is taken back after a minute
		gone     time.Duration
	}{
		"a lock that is taken off":            {left: locked(key), says: "n1", released: true, gone: 2 * time.Minute},
		"a lock on its way":                   {left: locked(key), comes: true, says: "n1", released: true, gone: 2 * time.Minute},
		"a lock that the cache does not show": {left: locked(key), unseen: true, says: "to see on all nodes that none has a lock of it", released: true, gone: 2 * time.Minute},
		"a lock that stays":                   {left: locked(key), says: "n1", gone: undoPatience + 10*time.Second},
		"a member that is asked":              {left: asked, says: "request " + asked.Name, released: true, gone: 2 * time.Minute},
		"a lock of another policy":            {left: locked(snapshot.Key{Namespace: "prod", Name: "other"}), gone: time.Second},
		"nothing that it has locked":          {left: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, gone: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				policy := newPolicy("db", func(p *v1alpha1.EvictionPolicy) {
					p.Finalizers = []string{v1alpha1.UndoFinalizer}
					p.Spec.NodeLock = &v1alpha1.NodeLock{StateLabel: "example.com/state", LockPrefix: "lock.example.com", Holders: []string{"node"}}
				})
				left, ok := c.left.DeepCopyObject().(client.Object)
				if !ok {
					t.Fatal("no object")
				}
				there := []client.Object{policy, newMember("db-0", "db")}
				if !c.comes {
					there = append(there, left)
				}
				r := newRig(t, interceptor.Funcs{List: func(ctx context.Context, store client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					var o client.ListOptions
					o.ApplyOptions(options)
					if _, ok := list.(*corev1.NodeList); ok && c.unseen && o.FieldSelector != nil { // as only a cache is asked
						return nil
					}
					return store.List(ctx, list, options...)
				}}, there...)
				if r.settled(t, 3*releaseAfter); !slices.Contains(r.stored(t).Finalizers, v1alpha1.UndoFinalizer) {
					t.Fatal("the policy is let go although it may lock nodes")
				}
				if err := r.Delete(t.Context(), r.stored(t)); err != nil {
					t.Fatal(err)
				}
				if c.comes {
					r.settled(t, lockGrace-time.Second)
					if err := r.Create(t.Context(), left); err != nil {
						t.Fatal(err)
					}
				}
				r.settled(t, time.Minute)
				stored := r.stored(t)
				if (stored != nil) != (c.says != "") {
					t.Fatalf("the policy is there: %t", stored != nil)
				}
				if stored != nil {
					ready := meta.FindStatusCondition(stored.Status.Conditions, v1alpha1.ConditionReady)
					if ready == nil || !strings.Contains(ready.Message, c.says) {
						t.Errorf("the condition is %+v", ready)
					}
				}
				if c.released {
					if err := r.Delete(t.Context(), left); err != nil {
						t.Fatal(err)
					}
				}
				if r.settled(t, c.gone); r.stored(t) != nil {
					t.Errorf("it is there %s later", c.gone)
				}
			})
		})
	}
}

// A policy that is deleted while a look goes on, by which it is not, waits for its locks all the same: that look has not read which are there.
func TestPolicyThatIsDeletedDuringALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := newPolicy("db", func(p *v1alpha1.EvictionPolicy) {
			p.Finalizers = []string{v1alpha1.UndoFinalizer}
			p.Spec.NodeLock = &v1alpha1.NodeLock{StateLabel: "example.com/state", LockPrefix: "lock.example.com", Holders: []string{"node"}}
		})
		lock := "lock.example.com/" + snapshot.NodeLockName(snapshot.Key{Namespace: "prod", Name: "db"}, "node")
		locked := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{lock: ""}}}
		deletes := false
		r := newRig(t, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, ok := list.(*corev1.PodList); ok && deletes {
				deletes = false
				if err := c.Delete(ctx, policy.DeepCopy()); err != nil {
					return err
				}
			}
			return c.List(ctx, list, options...)
		}}, policy, newMember("db-0", "db"), locked)
		r.settled(t, time.Minute)
		deletes = true
		if r.settled(t, time.Minute); deletes || r.stored(t) == nil {
			t.Errorf("it is still to be deleted: %t; it is there: %t", deletes, r.stored(t) != nil)
		}
	})
}
