package observe

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"usher.sh/usher/internal/snapshot"
)

// drainedSince is a node with the record of a drain, written that long ago.
func drainedSince(t *testing.T, ago time.Duration, state string, lease bool) *corev1.Node {
	t.Helper()
	text, err := (&snapshot.DrainRecord{Drainer: snapshot.Drainer{ID: "x", Beat: time.Now().Add(-ago), Lease: lease}, State: state}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "a", UID: "a", Labels: map[string]string{snapshot.DrainLabel: "x"}, Annotations: map[string]string{snapshot.DrainAnnotation: text},
	}}
}

func leaseNow(id string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: snapshot.LeaseNamespace, Name: snapshot.LeaseName(id), UID: "lease", Labels: map[string]string{snapshot.DrainLabel: id}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("me"), RenewTime: &metav1.MicroTime{Time: time.Now()}},
	}
}

func TestLeaseFacts(t *testing.T) {
	at := time.Now().Truncate(time.Microsecond)
	lease := leaseNow("x")
	lease.Spec.AcquireTime, lease.Spec.RenewTime = &metav1.MicroTime{Time: at.Add(-time.Hour)}, &metav1.MicroTime{Time: at}
	if got, want := *LeaseFacts(lease), (snapshot.Lease{ID: "x", UID: "lease", Holder: "me", Acquired: at.Add(-time.Hour), Renewed: at}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	foreign := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "leader"}}
	if got := LeaseFacts(foreign); got.ID != "" || !got.Renewed.IsZero() {
		t.Errorf("of another client: %+v", got)
	}
}

// Beside single nodes, the Lease of the drain that works on one is read by its name, and those of many drains with one request.
func TestLeasesOfNodes(t *testing.T) {
	many := make([]runtime.Object, maxNamed+1)
	for i := range many {
		node := drainedSince(t, 0, "draining", true)
		node.Name, node.UID = fmt.Sprintf("n-%d", i), types.UID(strconv.Itoa(i))
		node.Annotations[snapshot.DrainAnnotation] = strings.Replace(node.Annotations[snapshot.DrainAnnotation], `"x"`, fmt.Sprintf(`"x%d"`, i), 1)
		many[i] = node
	}
	for name, c := range map[string]struct {
		nodes   []runtime.Object
		refused bool
		want    []string
		known   bool
	}{
		"no drain":                {nodes: []runtime.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a"}}}},
		"a drain with a Lease":    {nodes: []runtime.Object{drainedSince(t, time.Hour, "draining", true)}, want: []string{"metadata.name=usher-drain-x"}, known: true},
		"… that has ended":        {nodes: []runtime.Object{drainedSince(t, time.Hour, "drained", true)}},
		"a drain without one":     {nodes: []runtime.Object{drainedSince(t, time.Hour, "draining", false)}},
		"a drain of a moment ago": {nodes: []runtime.Object{drainedSince(t, 0, "draining", true)}, want: []string{"metadata.name=usher-drain-x"}, known: true},
		"they may not be read":    {nodes: []runtime.Object{drainedSince(t, 0, "draining", true)}, refused: true, want: []string{"metadata.name=usher-drain-x"}},
		"many drains":             {nodes: many, want: []string{snapshot.DrainLabel}, known: true},
	} {
		t.Run(name, func(t *testing.T) {
			client := serving(append(slices.Clone(c.nodes), leaseNow("x"))...)
			if c.refused {
				refuse(client, "leases", forbidden("bob", "leases"))
			}
			look := NewLook(client, &Clock{})
			if err := errors.Join(look.Nodes(t.Context(), labels.Everything()), look.LeasesOfNodes(t.Context())); err != nil {
				t.Fatal(err)
			}
			var asked []string
			for _, action := range client.Actions() {
				if list, ok := action.(clienttesting.ListActionImpl); ok && list.Resource.Resource == "leases" {
					asked = append(asked, list.ListRestrictions.Fields.String()+list.ListRestrictions.Labels.String())
				}
			}
			if diff := cmp.Diff(c.want, asked); diff != "" {
				t.Error(diff)
			}
			lease, known := look.View().Cluster.LeaseOf("x")
			_, gap := look.View().Cluster.Gap("leases")
			if known != c.known || (lease != nil) != c.known || gap != c.refused {
				t.Errorf("known %v, lease %+v, gap %v", known, lease, gap)
			}
		})
	}
}

// What a broken watch has brought is kept, and is not what is so now.
func TestLeasesOfABrokenWatch(t *testing.T) {
	o, err := Start(t.Context(), serving(leaseNow("x")), Options{Nodes: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Stop()
	feed := o.feeds[leasesOfDrains()]
	for _, broken := range []error{nil, errors.New("connection refused"), nil} {
		o.recordEnd(t.Context(), feed, "watch", broken)
		o.Read(func(v snapshot.View) {
			lease, known := v.Cluster.LeaseOf("x")
			_, absent := v.Cluster.LeaseOf("y")
			if lease == nil || known != (broken == nil) || absent != (broken == nil) {
				t.Errorf("%v: lease %v, known %v, known to be absent %v", broken, lease, known, absent)
			}
		})
	}
}

// A look reads Leases with one request, and only where a record alone does not say whether its drain runs.
func TestLooksReadLeases(t *testing.T) {
	for name, c := range map[string]struct {
		objects []runtime.Object
		refused bool
		reads   int
		known   bool
	}{
		"no drain":        {nil, false, 0, false},
		"an old record":   {[]runtime.Object{drainedSince(t, time.Hour, "draining", true), leaseNow("x")}, false, 1, true},
		"a young one":     {[]runtime.Object{drainedSince(t, 0, "draining", true), leaseNow("x")}, false, 0, false},
		"without a Lease": {[]runtime.Object{drainedSince(t, time.Hour, "draining", false)}, false, 0, false},
		"they may not be": {[]runtime.Object{drainedSince(t, time.Hour, "draining", true)}, true, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			client := serving(c.objects...)
			if c.refused {
				refuse(client, "leases", forbidden("bob", "leases"))
			}
			look := NewLook(client, &Clock{})
			if err := look.All(t.Context(), nil, func(int) {}); err != nil {
				t.Fatal(err)
			}
			reads := 0
			for _, r := range requested(client) {
				if strings.Contains(r, "leases") {
					reads++
				}
			}
			lease, known := look.View().Cluster.LeaseOf("x")
			_, gap := look.View().Cluster.Gap("leases")
			if reads != c.reads || known != c.known || (lease != nil) != c.known || gap != c.refused {
				t.Errorf("%d requests, known %v, lease %+v, gap %v", reads, known, lease, gap)
			}
		})
	}
}
