package replacement

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// manyMembers is how many are decided about at once, and mostDeciding what that may take.
const (
	manyMembers  = 10_000
	mostDeciding = time.Second
)

// BenchmarkManyMembers decides about 10,000 members of one policy, of which one in a hundred is unhealthy: which of them get a successor, and what the
// next step is for each.
func BenchmarkManyMembers(b *testing.B) {
	in := repaired(tenThousand)
	steps := []StepInput{lost(), lost(permitted), removing(), joining()}
	for b.Loop() {
		if got := Repair(in); len(got.Unhealthy) != manyMembers/100 {
			b.Fatalf("%d members are unhealthy", len(got.Unhealthy))
		}
		for i := range manyMembers {
			if got := Step(steps[i%len(steps)]); len(got.Actions) == 0 {
				b.Fatal("nothing is done for a member that is lost")
			}
		}
	}
	each := b.Elapsed() / time.Duration(b.N)
	fmt.Printf("\n10,000 members decided in %d ms\n", each.Milliseconds())
	if each > mostDeciding {
		b.Errorf("more than %s", mostDeciding)
	}
}

// tenThousand has 10,000 members on a thousand nodes in ten zones. Every hundredth was seen unhealthy some time ago, and is.
func tenThousand(in *RepairInput) {
	in.Members = nil
	for n := range 1000 {
		name := "n" + strconv.Itoa(n)
		in.Nodes[name] = &snapshot.Node{Name: name, UID: types.UID(name), Zone: "z" + strconv.Itoa(n%10), Ready: true}
	}
	for i := range manyMembers {
		name := "db-" + strconv.Itoa(i)
		in.Members = append(in.Members, Seen{
			MemberRef: v1alpha1.MemberRef{Role: "replica", ID: name, PodName: name}, Judged: true,
			Pod: &snapshot.Pod{Namespace: "shop", Name: name, Node: "n" + strconv.Itoa(i%1000), Phase: corev1.PodRunning, Ready: i%100 != 0},
		})
	}
	in.Policy.Status.Unhealthy = Repair(*in).Unhealthy
	in.Now = in.Now.Add(time.Minute)
}
