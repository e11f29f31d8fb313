package eviction

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
)

func TestSettlingMembers(t *testing.T) {
	known := func(permit, gone time.Duration) map[types.UID]KnownFor {
		return map[types.UID]KnownFor{leaves("s1", "store", noon).PodUID: {Permit: permit, Gone: gone}}
	}
	removed := func(l *v1alpha1.Leaving) { l.GoneTime, l.LingerSeconds = new(metav1.NewTime(noon)), 20 }
	seen := []Settling{{Pod: "s1", Within: defaultSettle, Until: noon.Add(defaultSettle + time.Second)}}
	gone := func(l *v1alpha1.Leaving) { l.GoneTime = new(metav1.NewTime(noon)) }
	for name, c := range map[string]struct {
		settle *metav1.Duration
		entry  func(*v1alpha1.Leaving)
		now    time.Duration // after noon
		known  map[types.UID]KnownFor
		want   []Settling
	}{
		"it was seen gone":          {entry: gone, want: seen},
		"this process saw it gone":  {entry: gone, now: 10 * time.Second, known: known(10*time.Second, 10*time.Second), want: seen},
		"this process saw it later": {entry: gone, now: 10 * time.Second, known: known(8*time.Second, 5*time.Second), want: []Settling{{Pod: "s1", Within: defaultSettle, Until: noon.Add(5*time.Second + defaultSettle)}}},
		"it does not know it yet":   {entry: gone, now: 20 * time.Second, known: known(0, 0), want: []Settling{{Pod: "s1", Within: defaultSettle, Until: noon.Add(20*time.Second + defaultSettle)}}},
		"it knows of its grace":     {entry: removed, now: 20 * time.Second, known: known(20*time.Second, 20*time.Second), want: []Settling{{Pod: "s1", Within: defaultSettle, Until: noon.Add(20*time.Second + defaultSettle)}}},
		"the clock was set forward": {entry: gone, now: time.Hour, known: known(10*time.Second, 10*time.Second), want: []Settling{{Pod: "s1", Within: defaultSettle, Until: noon.Add(time.Hour + defaultSettle - 10*time.Second)}}},
		"it was let go":             {want: []Settling{{Pod: "s1", Within: defaultSettle}}},
		"its role needs no time":    {settle: &metav1.Duration{}},
		"it was removed by force":   {settle: &metav1.Duration{}, entry: func(l *v1alpha1.Leaving) { l.LingerSeconds = 90 }, want: []Settling{{Pod: "s1", Within: 90 * time.Second}}},
		"by force, for centuries":   {settle: &metav1.Duration{}, entry: func(l *v1alpha1.Leaving) { l.LingerSeconds = 9_223_372_037 }, want: []Settling{{Pod: "s1", Within: 100 * 365 * 24 * time.Hour}}},
		"of a role that is no more": {entry: func(l *v1alpha1.Leaving) { l.Role = "former" }, want: []Settling{{Pod: "s1", Within: defaultSettle}}},
	} {
		t.Run(name, func(t *testing.T) {
			entry := leaves("s1", "store", noon)
			if c.entry != nil {
				c.entry(&entry)
			}
			policy := Declared{Policy: settling(t, c.settle), Status: &v1alpha1.EvictionPolicyStatus{Leaving: []v1alpha1.Leaving{entry}}}
			if diff := cmp.Diff(c.want, SettlingMembers(&policy, noon.Add(c.now), c.known)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if got := SettlingMembers(&Declared{Policy: settling(t, nil)}, noon, nil); got != nil {
		t.Errorf("without a status: %v", got)
	}
}
