package policycache

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/rest"
)

const mib = 1 << 20

// tenant is a policy whose system answers what the path names.
func tenant(namespace, name, url, path string) *v1alpha1.EvictionPolicy {
	p := &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(namespace + name), Generation: 1,
	}}
	p.Spec.Evidence.Timeout.Duration, p.Spec.Evidence.MaxAge.Duration = 30*time.Second, time.Second
	p.Spec.System.HTTP = &v1alpha1.HTTP{
		Access: v1alpha1.Access{Endpoints: []string{url}}, Facts: []v1alpha1.Get{{Name: "all", URL: path}},
	}
	return p
}

// tenants is an Observer with so much memory, and where their systems answer.
func tenants(t *testing.T, memory int64) (*Observer, string) {
	t.Helper()
	objects := "[" + strings.TrimSuffix(strings.Repeat(`{"a":0},`, 60_000), ",") + "]"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/greedy":
			fmt.Fprint(w, objects)
		case "/mixed":
			fmt.Fprintf(w, `{"down":["a"],"rest":%s}`, objects)
		default:
			fmt.Fprint(w, `{"down":[]}`)
		}
	}))
	t.Cleanup(server.Close)
	k := NewObserver(ObserverConfig{
		Kind: func(*v1alpha1.System) (system.Kind, bool) { return rest.Kind(), true },
		Now:  time.Now, Loopback: true, Memory: memory, Log: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(k.closeAll)
	return k, server.URL
}

// However many policies a tenant writes whose systems answer a lot, what is kept stays within the memory for it, those beyond are
// refused by name, and another namespace's policy is observed.
func TestGreedyPoliciesAreRefusedOneByOne(t *testing.T) {
	const memory = 96 * mib
	k, url := tenants(t, memory)
	ask := func(p *v1alpha1.EvictionPolicy, epoch int64) *eviction.Evidence {
		p.Status.Epoch = epoch
		return k.Evidence(t.Context(), only(p, expression.Uses{"system"}), epoch, time.Hour)
	}
	const greedy = 8
	refused := 0
	for round := range int64(3) { // from the second on the former evidence is kept until the next is there
		for n := range greedy {
			said := ask(tenant("greedy", fmt.Sprint("p", n), url, "/greedy"), round)
			switch {
			case said.TooLarge:
				refused++
			case said.Error != "":
				t.Errorf("policy %d: %s", n, said.Error)
			}
			if k.budget.used > memory {
				t.Fatalf("%d MiB are taken", k.budget.used/mib)
			}
		}
		if said := ask(tenant("other", "db", url, "/small"), round); said.Error != "" {
			t.Errorf("another namespace: %s", said.Error)
		}
	}
	if refused == 0 || refused == 3*greedy {
		t.Errorf("%d of %d observations were refused", refused, 3*greedy)
	}
	runtime.GC()
	var heap runtime.MemStats
	runtime.ReadMemStats(&heap)
	if heap.HeapAlloc > memory {
		t.Errorf("the heap has %d MiB", heap.HeapAlloc/mib)
	}
	for _, e := range k.all() {
		k.Forget(e.newest().UID)
	}
	if k.budget.used != 0 || len(k.budget.meters) > 0 {
		t.Errorf("%d bytes are taken by no policy", k.budget.used)
	}
}

// only is the policy where its roles ask for these facts alone.
func only(p *v1alpha1.EvictionPolicy, uses expression.Uses) *Source {
	source := of(p)
	source.Uses = func() expression.Uses { return uses }
	return source
}

// What no expression names is not kept.
func TestOnlyWhatIsNamedIsKept(t *testing.T) {
	k, url := tenants(t, 0)
	said := k.Evidence(t.Context(), only(tenant("a", "db", url, "/mixed"), expression.Uses{"system.all.down"}), 0, time.Hour)
	all, _ := said.System["all"].(map[string]any)
	if said.Error != "" || len(all) != 1 || all["down"] == nil {
		t.Errorf("kept: %d facts, error %q", len(all), said.Error)
	}
	if k.budget.used > mib/100 {
		t.Errorf("%d bytes are taken", k.budget.used)
	}
}

// After a restore of the cluster's etcd a policy is older than it was, for good.
func TestPolicyFromBeforeARestoreCounts(t *testing.T) {
	e := &entry{source: of(tenant("a", "db", "", "")), shown: time.Now()}
	e.source.Generation, e.source.Epoch = 7, 40
	e.last = &eviction.Evidence{}
	restored := of(tenant("a", "db", "", ""))
	restored.Generation, restored.Epoch = 6, 38
	if e.show(restored); e.source == restored {
		t.Error("an older version counts at once: it may come from a cache that is behind")
	}
	e.shown = time.Now().Add(-showLife)
	if e.show(restored); e.source != restored || e.last != nil {
		t.Error("a version that is not shown any more counts for ever")
	}
}
