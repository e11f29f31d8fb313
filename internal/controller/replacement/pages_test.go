package replacement

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/observe"
)

// paged is an apiserver that has many StatefulSets, and gives as many at a time as it is asked for.
type paged struct {
	client.Reader

	sets    int
	most    int
	answers int
}

func (p *paged) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	asked := client.ListOptions{}
	for _, o := range options {
		o.ApplyToList(&asked)
	}
	sets, is := list.(*appsv1.StatefulSetList)
	if !is {
		return fmt.Errorf("%T is not served", list)
	}
	first, _ := strconv.Atoi(asked.Continue)
	last := p.sets
	if asked.Limit > 0 {
		last = min(last, first+int(asked.Limit))
	}
	sets.Items, sets.Continue = nil, ""
	for i := first; i < last; i++ {
		sets.Items = append(sets.Items, *set(func(s *appsv1.StatefulSet) { s.Name = fmt.Sprint("set-", i) }))
	}
	if last < p.sets {
		sets.Continue = strconv.Itoa(last)
	}
	p.most = max(p.most, len(sets.Items))
	p.answers++
	return nil
}

// The StatefulSets of a namespace, each of which its owner may make as large as the apiserver takes it, are never read all at once, nor without an end.
func TestStatefulSetsAreReadInPages(t *testing.T) {
	for name, c := range map[string]struct {
		sets    int
		id      string
		want    string
		blocked bool
	}{
		"the first":              {sets: 3, id: "set-0-1", want: "set-0-1"},
		"of a later page":        {sets: 3 * observe.AtOnce, id: fmt.Sprintf("set-%d-2", 2*observe.AtOnce), want: fmt.Sprintf("set-%d-2", 2*observe.AtOnce)},
		"none":                   {sets: 2 * observe.AtOnce, id: "other-0"},
		"there are many":         {sets: mostSets, id: fmt.Sprintf("set-%d-0", mostSets-1), want: fmt.Sprintf("set-%d-0", mostSets-1)},
		"there are far too many": {sets: 100 * mostSets, id: "other-0", blocked: true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMember(t, func(m *member) {
				m.policy.Spec.Members[0].ID = "pod.name"
				m.request.Spec.Member.ID = c.id
				m.pod.Labels = nil
			})
			from := &paged{sets: c.sets}
			m.r.live = from
			l := m.r.newLook(m.request)
			l.policy = &v1alpha1.EvictionPolicy{}
			if err := m.store.Get(t.Context(), client.ObjectKeyFromObject(m.policy), l.policy); err != nil {
				t.Fatal(err)
			}
			got, err := m.r.named(t.Context(), l)
			if err != nil || got != c.want || len(l.in.Rules) > 0 != c.blocked {
				t.Errorf("%q, %v, %+v; want %q", got, err, l.in.Rules, c.want)
			}
			if from.most > observe.AtOnce || from.answers > mostSets/observe.AtOnce {
				t.Errorf("%d sets at once, in %d answers", from.most, from.answers)
			}
		})
	}
}
