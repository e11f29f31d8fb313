package memberset

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
)

// manySets have manyMembers in all. mostDeciding is what a decision about each of them may take together. What a manager weighs that has them is
// measured by lab/benchsets.
const (
	manySets     = 500
	manyMembers  = 10_000
	mostDeciding = time.Second
)

// BenchmarkManySets decides about 500 sets with 10,000 members in all, of which one in a hundred is marked.
func BenchmarkManySets(b *testing.B) {
	var all []Input
	for i := range manySets {
		all = append(all, settled(fmt.Sprintf("kv%d", i), manyMembers/manySets))
	}
	for b.Loop() {
		for i := range all {
			if got := Decide(all[i]); len(got.Status.Members) != manyMembers/manySets {
				b.Fatalf("%d members", len(got.Status.Members))
			}
		}
	}
	each := b.Elapsed() / time.Duration(b.N)
	fmt.Printf("\n500 sets, 10,000 members: decided in %d ms\n", each.Milliseconds())
	if each > mostDeciding {
		b.Errorf("more than %s", mostDeciding)
	}
}

// BenchmarkLargeSets shows how the time of a decision grows with the members of one set.
func BenchmarkLargeSets(b *testing.B) {
	for _, members := range []int{50, 100, 250, 500} {
		b.Run(fmt.Sprint(members), func(b *testing.B) {
			in := settled("kv", members)
			for b.Loop() {
				Decide(in)
			}
		})
	}
}

// settled is a set whose members are all there, with its policy, in three zones. Every hundredth is marked.
func settled(name string, members int) Input {
	replicas := int32(members)
	w := newWorld(plain, replicas, func(format string, args ...any) { panic(fmt.Sprintf(format, args...)) })
	in := w.in
	in.Set.Name, in.Set.UID, in.Now = name, types.UID(name), noon
	in.Set.Status.Formed = &v1alpha1.MemberSetFormed{}
	in.Policy = &Policy{UID: "policy", Ours: true, Spec: PolicyOf(in.Set, &in.Kind).Spec}
	groups, _ := groupsOf(in.Set, &in.Kind)
	shape := (&decision{Input: &in}).shapeOf(&groups[0])
	for i := range members {
		id := fmt.Sprintf("%s-member-%d", name, i+1)
		m := v1alpha1.SetMember{ID: id, Group: "member", State: v1alpha1.MemberWhole, Node: fmt.Sprintf("n%d", i), Zone: fmt.Sprintf("z%d", i%3), Shape: shape}
		of := Object{Name: id, UID: types.UID(id), Member: id, Ours: true}
		in.Pods = append(in.Pods, Pod{Object: of, Node: m.Node, Zone: m.Zone, Ready: true})
		of.Name = "data-" + id
		in.Claims = append(in.Claims, Claim{Object: of, Volume: "pv-" + id})
		if i%100 == 99 {
			in.Requests = append(in.Requests, Request{Name: "anna-" + id, UID: types.UID("q-" + id), Role: "etcd-member", Member: id})
		}
		in.Set.Status.Members = append(in.Set.Status.Members, m)
	}
	return in
}
