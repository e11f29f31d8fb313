package policy

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	source "k8s.io/client-go/tools/cache/testing"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecycleapi "usher.sh/usher/api/lifecycle"
	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/controller/wiring"
	"usher.sh/usher/internal/policycache"
)

// BenchmarkRequestsOfOthers times what the controller of policies does at an event but for writing and judging, in a namespace of 100 pods,
// with 10 EvictionRequests and with 1,000 that are for pods of no policy. It takes turns, so that what else the machine does makes no
// difference to the ratio.
func BenchmarkRequestsOfOthers(b *testing.B) {
	for name, policy := range busyPolicies() {
		b.Run(name, func(b *testing.B) {
			few, many := overCache(b, policy, 10), overCache(b, policy, 1000)
			var tookFew, tookMany time.Duration
			for b.Loop() {
				tookFew += timed(b, few, policy)
				tookMany += timed(b, many, policy)
			}
			b.ReportMetric(float64(tookFew.Nanoseconds())/float64(b.N), "ns/10")
			b.ReportMetric(float64(tookMany.Nanoseconds())/float64(b.N), "ns/1000")
			b.ReportMetric(float64(tookMany)/float64(tookFew), "ratio")
		})
	}
}

func timed(b *testing.B, s *reconciler, policy *v1alpha1.EvictionPolicy) time.Duration {
	b.Helper()
	began := time.Now()
	f, err := s.gather(b.Context(), client.ObjectKeyFromObject(policy))
	if err != nil {
		b.Fatal(err)
	}
	if _, err = s.plan(b.Context(), f); err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

// readOnly is a client of a cache that writes nothing.
type readOnly struct {
	client.Client
	from cache.Cache
}

func (r readOnly) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	return r.from.Get(ctx, key, o, options...)
}

func (r readOnly) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return r.from.List(ctx, list, options...)
}

// overCache is the controller over a cache like the manager's.
func overCache(b *testing.B, policy *v1alpha1.EvictionPolicy, requests int) *reconciler {
	b.Helper()
	objects := append(requestsOfOthers(requests), policy.DeepCopy(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "prod"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	for i := range 100 {
		pod := newMember(fmt.Sprint("db-", i), "db")
		pod.Spec.NodeName = "n1"
		objects = append(objects, pod)
	}
	reads := readOnly{from: filled(b, objects)}
	options := newOptions(reads, reads)
	return newReconciler(options, reads, reads, events.NewFakeRecorder(1))
}

// filled is a cache that holds the objects, with the indexes that the controller reads by.
func filled(b *testing.B, objects []client.Object) cache.Cache {
	b.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			b.Fatal(err)
		}
	}
	lifecycleapi.AddToScheme(scheme, lifecycleapi.Usher)
	mapper := meta.NewDefaultRESTMapper(nil)
	for kind := range scheme.AllKnownTypes() {
		scope := meta.RESTScopeNamespace
		if kind.Kind == "Node" || kind.Kind == "Namespace" {
			scope = meta.RESTScopeRoot
		}
		mapper.Add(kind, scope)
	}
	all, err := cache.New(&rest.Config{}, cache.Options{
		Scheme: scheme, Mapper: mapper,
		NewInformer: func(_ toolscache.ListerWatcher, of runtime.Object, _ time.Duration, by toolscache.Indexers) toolscache.SharedIndexInformer {
			from := source.NewFakeControllerSource()
			for _, o := range objects {
				if reflect.TypeOf(o) == reflect.TypeOf(of) {
					from.Add(o)
				}
			}
			return toolscache.NewSharedIndexInformer(from, of, 0, by)
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := policycache.SetupIndex(b.Context(), all); err != nil {
		b.Fatal(err)
	}
	for _, index := range wiring.TargetPodIndexes() {
		if err := all.IndexField(b.Context(), index.Object, index.Field, index.Values); err != nil {
			b.Fatal(err)
		}
	}
	go all.Start(b.Context()) //nolint:errcheck // it ends with the benchmark
	for _, o := range objects {
		if _, err := all.GetInformer(b.Context(), o); err != nil {
			b.Fatal(err)
		}
	}
	all.WaitForCacheSync(b.Context())
	return all
}
