package kubernetes

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
)

// simulated is a namespace with one workload, and what is written of it.
type simulated struct {
	now       time.Time
	top       snapshot.Workload
	scaler    *snapshot.Autoscaler
	budgets   []*snapshot.Budget
	pods      []*snapshot.Pod
	nodes     map[string]*snapshot.Node
	claims    []*snapshot.Claim
	writes    []string
	conflicts int // how many of the next writes meet another client's
	cut       bool
	renewed   int
}

var began = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// lone is a Deployment of n replicas, one on each node, the first of which is cordoned.
func lone(n int32) *simulated {
	s := &simulated{now: began, nodes: map[string]*snapshot.Node{}}
	s.top = snapshot.Workload{Kind: "Deployment", Namespace: "shop", Name: "web", UID: "web", ResourceVersion: "1", Replicas: n, Settled: true, Selector: "app=web"}
	for i := range n {
		name := string(rune('a' + i))
		s.nodes[name] = &snapshot.Node{Name: name, Ready: true, Unschedulable: i == 0}
		s.pods = append(s.pods, pod("web-"+name, name))
	}
	return s
}

// pod is a ready one on a node.
func pod(name, node string) *snapshot.Pod {
	return &snapshot.Pod{
		Namespace: "shop", Name: name, UID: types.UID(name), Node: node, Labels: map[string]string{"app": "web"}, Phase: corev1.PodRunning,
		Ready: true, ReadySince: began.Add(-time.Hour), Owner: snapshot.Owner{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1", UID: "web-1"},
	}
}

// pending is a replacement that no node takes.
func pending(name string) *snapshot.Pod {
	p := pod(name, "")
	p.Ready, p.ReadySince, p.Phase, p.Unschedulable, p.NotReadyWhy = false, time.Time{}, corev1.PodPending, true, "0/1 nodes are available: 1 node(s) were unschedulable"
	return p
}

func (s *simulated) with(change ...func(*simulated)) *simulated {
	for _, f := range change {
		f(s)
	}
	return s
}

func scaledTo(min, max int32) func(*simulated) {
	return func(s *simulated) {
		s.scaler = &snapshot.Autoscaler{Namespace: "shop", Name: "web", UID: "hpa", ResourceVersion: "1", TargetKind: "Deployment", TargetName: "web", Min: min, Max: max}
	}
}

// minAvailable is a budget as its controller would have it now.
func minAvailable(least string) func(*simulated) {
	return func(s *simulated) {
		amount := intstr.Parse(least)
		s.budgets = append(s.budgets, &snapshot.Budget{Namespace: "shop", Name: "web", Selector: labels.SelectorFromSet(labels.Set{"app": "web"}), MinAvailable: &amount, Observed: true})
	}
}

func maxUnavailable(most string) func(*simulated) {
	return func(s *simulated) {
		amount := intstr.Parse(most)
		s.budgets = append(s.budgets, &snapshot.Budget{Namespace: "shop", Name: "web", Selector: labels.SelectorFromSet(labels.Set{"app": "web"}), MaxUnavailable: &amount, Observed: true})
	}
}

// count does what the disruption controller does.
func (s *simulated) count(b *snapshot.Budget) *snapshot.Budget {
	counted := *b
	counted.Expected, counted.Current = s.top.Replicas, 0
	for _, p := range s.pods {
		if p.Ready {
			counted.Current++
		}
	}
	if b.MinAvailable != nil {
		least, _ := intstr.GetScaledValueFromIntOrPercent(b.MinAvailable, int(counted.Expected), true)
		counted.Desired = int32(least)
	} else {
		most, _ := intstr.GetScaledValueFromIntOrPercent(b.MaxUnavailable, int(counted.Expected), true)
		counted.Desired = max(counted.Expected-int32(most), 0)
	}
	counted.Allowed = max(counted.Current-counted.Desired, 0)
	return &counted
}

func (s *simulated) view() snapshot.View {
	c := snapshot.NewCluster()
	top := s.top
	c.SetWorkload(&top)
	set := snapshot.Workload{Kind: "ReplicaSet", Namespace: "shop", Name: "web-1", UID: "web-1", Owner: snapshot.Owner{APIVersion: "apps/v1", Kind: top.Kind, Name: top.Name, UID: top.UID}}
	if top.Group != "" {
		set.Owner.APIVersion = top.Group + "/v1"
	}
	c.SetWorkload(&set)
	for _, p := range s.pods {
		c.SetPod(p)
	}
	for _, n := range s.nodes {
		c.SetNode(n)
	}
	for _, b := range s.budgets {
		c.SetBudget(s.count(b))
	}
	for _, v := range s.claims {
		c.SetClaim(v)
	}
	if s.scaler != nil {
		a := *s.scaler
		c.SetAutoscaler(&a)
	}
	return snapshot.View{Now: s.now, Cluster: c}
}

// Read implements system.Workloads.
func (s *simulated) Read(context.Context, func(*snapshot.Pod) bool, ...system.Target) (snapshot.View, error) {
	return s.view(), nil
}

func (s *simulated) conflict() error {
	s.conflicts--
	return apierrors.NewConflict(schema.GroupResource{Resource: "deployments"}, "web", fmt.Errorf("another client has written it"))
}

// Scale implements system.Workloads.
func (s *simulated) Scale(_ context.Context, _ *snapshot.Workload, replicas int32, record *snapshot.SurgeRecord) error {
	if s.conflicts > 0 {
		return s.conflict()
	}
	s.writes = append(s.writes, fmt.Sprintf("scale to %d, %s", replicas, said(record)))
	s.top.Surge = record
	if s.cut { // the process ended between the record and the replicas
		return context.Canceled
	}
	s.top.Replicas = replicas
	return nil
}

// ScaleMin implements system.Workloads.
func (s *simulated) ScaleMin(_ context.Context, _ *snapshot.Autoscaler, least int32, record *snapshot.SurgeRecord) error {
	if s.conflicts > 0 {
		return s.conflict()
	}
	s.writes = append(s.writes, fmt.Sprintf("minimum %d, %s", least, said(record)))
	s.scaler.Min, s.scaler.Surge = least, record
	return nil
}

// Renew implements system.Workloads.
func (s *simulated) Renew(context.Context) error {
	s.renewed++
	return nil
}

func said(record *snapshot.SurgeRecord) string {
	if record == nil {
		return "no record"
	}
	return fmt.Sprintf("was %d for %d", record.Was, len(record.For))
}

func (s *simulated) system() *namespace {
	return &namespace{api: s, rules: limits{statefulSets: v1alpha1.StatefulSetsKeep}}
}

// step is the Surge of a pod.
func step(name string) eviction.Preparation {
	return eviction.Preparation{Name: Surge, Namespace: "shop", Member: v1alpha1.MemberRef{ID: name, PodName: name, PodUID: types.UID(name)}}
}

func (s *simulated) wrote(t *testing.T, want ...string) {
	t.Helper()
	if got := strings.Join(s.writes, "; "); got != strings.Join(want, "; ") {
		t.Errorf("written: %s\nwant:    %s", got, strings.Join(want, "; "))
	}
	s.writes = nil
}
