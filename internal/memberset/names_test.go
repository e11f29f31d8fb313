package memberset

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
)

func TestNumberOf(t *testing.T) {
	for id, want := range map[string]int64{
		"kv-member-7": 7, "kv-member-07": 0, "kv-member--7": 0, "kv-other-7": 0, "kv-member-99999999": highestNumber, "kv-member-100000000": 0,
		"kv-member-9223372036854775807": 0,
	} {
		if got := numberOf("kv", "member", id); got != want {
			t.Errorf("%s has the number %d, want %d", id, got, want)
		}
	}
}

// Whoever names an object with any number leaves a set enough of them: it grows and shrinks on, gives none twice, and none that is longer than an id may be.
func TestNumbersThatOthersName(t *testing.T) {
	for _, number := range []int64{highestOfOthers - 1, highestOfOthers, highestOfOthers + 1, highestNumber - 1, highestNumber, highestNumber + 1, 1 << 30, 1 << 40} {
		id := fmt.Sprintf("kv-member-%d", number)
		for name, given := range map[string]func(in *Input){
			"a pod":     func(in *Input) { in.Pods = append(in.Pods, Pod{Object: Object{Name: id, UID: "x"}}) },
			"a Service": func(in *Input) { in.Services = append(in.Services, Service{Object: Object{Name: id, UID: "x"}}) },
			"a claim":   func(in *Input) { in.Claims = append(in.Claims, Claim{Object: Object{Name: "data-" + id, UID: "x"}}) },
			"a claim that says that it is the set's": func(in *Input) {
				in.Claims = append(in.Claims, Claim{Object: Object{Name: "of", UID: "x", Ours: true, Member: id}})
			},
			"a request": func(in *Input) { in.Requests = append(in.Requests, Request{Member: id, UID: "x", Over: true}) },
		} {
			t.Run(fmt.Sprintf("%s of number %d", name, number), func(t *testing.T) {
				w := formed(t, plain, 2)
				given(&w.in)
				for _, replicas := range []int32{4, 1, 3} {
					w.group().Replicas = &replicas
					for range 40 {
						w.pass()
						w.permit()
						w.step(-1)
					}
				}
				ids := w.ids()
				if len(ids) != 3 || slices.Contains(ids, id) || slices.ContainsFunc(w.in.Set.Status.Members, func(m v1alpha1.SetMember) bool { return !whole(&m) }) {
					t.Errorf("in the end there are %+v: %+v", w.in.Set.Status.Members, w.in.Set.Status.Blockers)
				}
			})
		}
	}
}

// A number that is named above those that are counted on from is passed over.
func TestNumbersThatArePassedOver(t *testing.T) {
	var all numbers
	for _, number := range []int64{7, highestOfOthers, highestOfOthers + 1, highestOfOthers + 3, highestNumber} {
		all.note(number)
	}
	var next []int64
	for range 3 {
		next = append(next, all.next()-highestOfOthers)
	}
	if diff := cmp.Diff([]int64{2, 4, 5}, next); diff != "" {
		t.Error(diff)
	}
}

func TestTheLongestID(t *testing.T) {
	set := &v1alpha1.MemberSet{}
	set.Name, set.Spec.IDPrefix = strings.Repeat("s", 24), strings.Repeat("p", 12)
	d := decision{Input: &Input{Set: set}}
	if id := d.idOf(strings.Repeat("g", 16), highestNumber); len(id) != 63 {
		t.Errorf("%s has %d characters", id, len(id))
	}
}

// An id that a request names is not given, and was no member's by that.
func TestARequestMakesNoMember(t *testing.T) {
	w := formed(t, listing, 3)
	w.mark("kv-member-9")
	w.step(-1)
	if Had(w.in.Set, "kv-member-9") {
		t.Errorf("the set had it: %+v", w.in.Set.Status.Groups)
	}
	*w.in.Set.Spec.Groups[0].Replicas = 4
	if r := w.step(0); len(r.Status.Members) != 4 || !slices.Contains(w.ids(), "kv-member-10") || !Had(w.in.Set, "kv-member-10") {
		t.Errorf("there are %v of %+v", w.ids(), w.in.Set.Status.Groups)
	}
}
