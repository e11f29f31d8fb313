package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/share"
	"usher.sh/usher/internal/snapshot"
)

// floored is a world whose policy goes by which members are Ready. The cache shows db-1 Ready.
type floored struct {
	*world

	crashed bool  // db-1 has, since
	broken  error // of reads past the cache
	fresh   int   // how often the members were read past it
}

// Input implements Facts.
func (f *floored) Input(ctx context.Context, of policycache.Subject) (eviction.Input, error) {
	in, err := f.world.Input(ctx, of)
	policy := testPolicy()
	policy.Spec.Roles[0].Evict.MinReady = new(int32(1))
	in.Policies[0] = declare(policy)
	other := policycache.Facts(readyPod("db-1"))
	other.UID = "uid-2"
	if of.FreshMembers {
		f.fresh++
		other.Ready = !f.crashed
		err = errors.Join(err, f.broken)
	}
	in.Rosters = map[snapshot.Key]*eviction.Roster{in.Policies[0].Key: eviction.NewRoster(in.Policies[0], []*snapshot.Pod{in.Pod, other})}
	return in, err
}

func readyPod(name string) *corev1.Pod {
	pod := testPod(name)
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return pod
}

// TestReadyMembersAreReadLive: a member that goes because others are Ready goes by a read past the cache. Only what is let through by
// that is worth one.
func TestReadyMembersAreReadLive(t *testing.T) {
	green, red := func(f *floored) { f.green = true }, func(*floored) {}
	crashed := func(f *floored) { f.green, f.crashed = true, true }
	evict, remove := evictionOf("db-0", "", noMore), deletionOf(t, readyPod("db-0"), "db-0", "jane", "")
	terminates := readyPod("db-0")
	terminates.DeletionTimestamp = new(metav1.NewTime(clock))
	for name, c := range map[string]struct {
		body    string
		given   func(*floored)
		allowed bool
		fresh   int
	}{
		"the other is Ready":                      {evict, green, true, 1},
		"the other has crashed":                   {evict, crashed, false, 1},
		"the members cannot be read":              {evict, func(f *floored) { f.green, f.broken = true, errors.New("no answer") }, false, 1},
		"refused without a look":                  {evict, red, false, 0},
		"a dry run":                               {evictionOf("db-0", `"dryRun":true,`, noMore), crashed, true, 0},
		"another replica is faster":               {evict, func(f *floored) { f.green, f.conflict = true, 1 }, true, 2},
		"a DELETE, the other is Ready":            {remove, green, true, 1},
		"a DELETE, the other has crashed":         {remove, crashed, false, 1},
		"a DELETE of a pod that terminates":       {deletionOf(t, terminates, "db-0", "jane", ""), crashed, true, 0},
		"a DELETE, others' write comes before it": {remove, func(f *floored) { f.green, f.conflict = true, 1 }, true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.pods["db-0"] = readyPod("db-0")
			f := &floored{world: w}
			c.given(f)
			h := &disruptionHandler{Options: Options{
				Facts: f, Writer: w, Events: w, Log: slog.New(slog.DiscardHandler), Declare: declare,
				Reader: fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}).Build(),
			}, verdicts: share.New(verdictsEach)}
			var review admissionv1.AdmissionReview
			if err := json.Unmarshal([]byte(c.body), &review); err != nil {
				t.Fatal(err)
			}
			if got := h.Handle(t.Context(), admission.Request{AdmissionRequest: *review.Request}); got.Allowed != c.allowed || f.fresh != c.fresh {
				t.Errorf("allowed %t after %d reads past the cache, want %t after %d: %+v", got.Allowed, f.fresh, c.allowed, c.fresh, got.Result)
			}
		})
	}
}
