package eviction

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

func TestSettlingMembers(t *testing.T) {
	gone := func(l *v1alpha1.Leaving) { l.GoneTime = new(metav1.NewTime(noon)) }
	for name, c := range map[string]struct {
		settle *metav1.Duration
		entry  func(*v1alpha1.Leaving)
		want   []Settling
	}{
		"it was seen gone":          {entry: gone, want: []Settling{{Pod: "s1", Within: defaultSettle, Until: noon.Add(defaultSettle + time.Second)}}},
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
			if diff := cmp.Diff(c.want, SettlingMembers(&policy)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if got := SettlingMembers(&Declared{Policy: settling(t, nil)}); got != nil {
		t.Errorf("without a status: %v", got)
	}
}
