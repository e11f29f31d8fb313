package policycache

import (
	"context"
	"testing"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestNewsWakeTheControllersThatRun(t *testing.T) {
	var news PolicyEvents
	own := func(_ context.Context, policy client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(policy)}}
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	source := news.Source(own)
	news.Notify(newPolicy("early", "db")) // no source is started yet
	ctx, cancel := context.WithCancel(t.Context())
	if err := source.Start(ctx, queue); err != nil {
		t.Fatal(err)
	}
	news.Notify(newPolicy("a", "db"))
	news.Notify(newPolicy("a", "db"))
	news.Notify(newPolicy("b", "db"))
	cancel()
	news.Notify(newPolicy("late", "db"))
	var woken []string
	for queue.Len() > 0 {
		key, _ := queue.Get()
		woken = append(woken, key.Name)
	}
	if len(woken) != 2 || woken[0] != "a" || woken[1] != "b" {
		t.Errorf("woken for %v", woken)
	}
}
