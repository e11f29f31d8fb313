package eviction

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestTaintEnd(t *testing.T) {
	unreachable := corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}
	custom := corev1.Taint{Key: "example.com/dead", Value: "disk", Effect: corev1.TaintEffectNoExecute}
	harmless := corev1.Taint{Key: "example.com/dead", Effect: corev1.TaintEffectNoSchedule}
	tolerates := func(key string, seconds ...int64) corev1.Toleration {
		toleration := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
		if len(seconds) > 0 {
			toleration.TolerationSeconds = &seconds[0]
		}
		return toleration
	}
	for name, c := range map[string]struct {
		taints      []corev1.Taint
		tolerations []corev1.Toleration
		age         time.Duration // of the pod; the taints are ten minutes old
		after       time.Duration // since noon
		ends        bool
	}{
		"no taint":                   {age: time.Hour},
		"a taint against new pods":   {taints: []corev1.Taint{harmless}, age: time.Hour},
		"not tolerated":              {taints: []corev1.Taint{unreachable}, age: time.Hour, after: -10 * time.Minute, ends: true},
		"tolerated for good":         {taints: []corev1.Taint{unreachable}, tolerations: []corev1.Toleration{tolerates(unreachable.Key)}, age: time.Hour},
		"for a while":                {taints: []corev1.Taint{unreachable}, tolerations: []corev1.Toleration{tolerates(unreachable.Key, 300)}, age: time.Hour, after: -5 * time.Minute, ends: true},
		"a pod that came later":      {taints: []corev1.Taint{unreachable}, tolerations: []corev1.Toleration{tolerates(unreachable.Key, 300)}, age: time.Minute, after: 4 * time.Minute, ends: true},
		"the first that matches":     {taints: []corev1.Taint{unreachable}, tolerations: []corev1.Toleration{tolerates(unreachable.Key, 900), tolerates("", 1)}, age: time.Hour, after: 5 * time.Minute, ends: true},
		"less than nothing":          {taints: []corev1.Taint{unreachable}, tolerations: []corev1.Toleration{tolerates(unreachable.Key, -5)}, age: time.Hour, after: -10 * time.Minute, ends: true},
		"for three centuries":        {taints: []corev1.Taint{unreachable}, tolerations: []corev1.Toleration{tolerates(unreachable.Key, 9_223_372_037)}, age: time.Hour, after: 100*365*24*time.Hour - 10*time.Minute, ends: true},
		"two, one for good":          {taints: []corev1.Taint{unreachable, custom}, tolerations: []corev1.Toleration{tolerates(unreachable.Key), tolerates(custom.Key, 60)}, age: time.Hour, after: -9 * time.Minute, ends: true},
		"two, one not tolerated":     {taints: []corev1.Taint{unreachable, custom}, tolerations: []corev1.Toleration{tolerates(unreachable.Key)}, age: time.Hour, after: -10 * time.Minute, ends: true},
		"two, all by one toleration": {taints: []corev1.Taint{unreachable, custom}, tolerations: []corev1.Toleration{tolerates("")}, age: time.Hour},
	} {
		end, ends := TaintEnd(c.taints, c.tolerations, noon.Add(-c.age), func(*corev1.Taint) time.Time { return noon.Add(-10 * time.Minute) })
		if ends != c.ends || ends && !end.Equal(noon.Add(c.after)) {
			t.Errorf("%s: %t, %s after noon", name, ends, end.Sub(noon))
		}
	}
}
