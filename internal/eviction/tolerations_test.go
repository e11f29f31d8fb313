package eviction

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

const (
	notReady, unreachable = corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable

	keepOwn, override = v1alpha1.TolerationsKeepOwn, v1alpha1.TolerationsOverride
)

func always(key string) corev1.Toleration {
	return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
}

func during(key string, seconds int64) corev1.Toleration {
	t := always(key)
	t.TolerationSeconds = &seconds
	return t
}

func tolerations(n int64) v1alpha1.Tolerations {
	return v1alpha1.Tolerations{NotReady: &v1alpha1.Toleration{Seconds: new(n)}, Unreachable: &v1alpha1.Toleration{Seconds: new(n)}}
}

var (
	short   = tolerations(15)
	forever = v1alpha1.Tolerations{NotReady: &v1alpha1.Toleration{Forever: true}, Unreachable: &v1alpha1.Toleration{Forever: true}}

	cordon     = corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpExists}
	all        = corev1.Toleration{Operator: corev1.TolerationOpExists}
	anyEffect  = corev1.Toleration{Key: notReady, Operator: corev1.TolerationOpExists}
	noSchedule = corev1.Toleration{Key: notReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
	withValue  = corev1.Toleration{Key: notReady, Value: "x", Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(60))}
	noValue    = corev1.Toleration{Key: notReady, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(60))}
)

func list(all ...corev1.Toleration) []corev1.Toleration { return all }

func TestTolerationsOfNewPods(t *testing.T) {
	for name, c := range map[string]struct {
		role      v1alpha1.Tolerations
		mode      v1alpha1.TolerationMode
		record    string
		own, want []corev1.Toleration
	}{
		"none of both":                  {own: list(cordon), want: list(cordon)},
		"added":                         {role: short, own: list(cordon), want: list(cordon, during(notReady, 15), during(unreachable, 15))},
		"forever":                       {role: forever, want: list(always(notReady), always(unreachable))},
		"the author's":                  {role: short, own: list(during(notReady, 60)), want: list(during(notReady, 60), during(unreachable, 15))},
		"the author's, for ever":        {role: short, own: list(always(notReady), always(unreachable)), want: list(always(notReady), always(unreachable))},
		"any key":                       {role: short, own: list(always("")), want: list(always(""))},
		"any effect":                    {role: short, own: list(anyEffect), want: list(anyEffect, during(unreachable, 15))},
		"another effect":                {role: short, own: list(noSchedule), want: list(noSchedule, during(notReady, 15), during(unreachable, 15))},
		"the server's defaults":         {role: forever, own: list(cordon, during(notReady, 300), during(unreachable, 300)), want: list(cordon, always(notReady), always(unreachable))},
		"a default beside the author's": {role: short, own: list(during(notReady, 60), during(unreachable, 300)), want: list(during(notReady, 60), during(unreachable, 15))},
		"a default, and all":            {role: short, own: list(all, during(notReady, 300), during(unreachable, 300)), want: list(all, during(notReady, 300), during(unreachable, 300))},

		"Usher's own":                {role: forever, record: `{"notReady":{"seconds":60}}`, own: list(during(notReady, 60), during(unreachable, 60)), want: list(always(notReady), during(unreachable, 60))},
		"a record of something else": {role: forever, record: `{"notReady":{"seconds":61}}`, own: list(during(notReady, 60)), want: list(during(notReady, 60), always(unreachable))},
		"a record that is none":      {role: short, record: "7", own: list(during(notReady, 60)), want: list(during(notReady, 60), during(unreachable, 15))},

		"overridden":                       {role: short, mode: override, own: list(during(notReady, 60), always(unreachable)), want: list(during(notReady, 15), during(unreachable, 15))},
		"overridden, for ever":             {role: forever, mode: override, own: list(during(notReady, 60)), want: list(always(notReady), always(unreachable))},
		"overridden, what is for all":      {role: short, mode: override, own: list(cordon, all), want: list(cordon, during(notReady, 15), during(unreachable, 15), all)},
		"overridden, any effect":           {role: short, mode: override, own: list(anyEffect), want: list(during(notReady, 15), anyEffect, during(unreachable, 15))},
		"overridden, any value":            {role: short, mode: override, own: list(noValue), want: list(corev1.Toleration{Key: notReady, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(15))}, during(unreachable, 15))},
		"overridden, of a value":           {role: short, mode: override, own: list(withValue), want: list(during(notReady, 15), withValue, during(unreachable, 15))},
		"nothing to override":              {mode: override, own: list(during(notReady, 60)), want: list(during(notReady, 60))},
		"all for ever, and so is the role": {role: forever, mode: override, own: list(all), want: list(all)},
		"one taint alone":                  {role: v1alpha1.Tolerations{NotReady: short.NotReady}, mode: override, own: list(during(unreachable, 60)), want: list(during(unreachable, 60), during(notReady, 15))},
	} {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(c.own)
			mode := c.mode
			if mode == "" {
				mode = keepOwn
			}
			claim := &Claim{Role: &v1alpha1.Role{Tolerations: c.role}, Tolerations: mode}
			change := NewTolerations(claim, c.own, c.record)
			got := change.Apply(c.own)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if (change.Record == "") != (len(change.Edits) == 0) || len(change.Record) > mostRecord {
				t.Errorf("record %q of %d edits", change.Record, len(change.Edits))
			}
			if again := NewTolerations(claim, got, change.Record); len(again.Edits) > 0 {
				t.Errorf("once more: %+v", again)
			}
			if !cmp.Equal(before, c.own) {
				t.Errorf("the input was changed: %v", c.own)
			}
		})
	}
}

// tolerant is a policy whose stores have these tolerations.
func tolerant(role v1alpha1.Tolerations, mode v1alpha1.TolerationMode, mutate ...func(*v1alpha1.EvictionPolicySpec)) Declared {
	spec := toySpec()
	spec.Roles = toyRoles()[:1]
	spec.Members[0].Tolerations, spec.Roles[0].Tolerations = mode, role
	for _, m := range mutate {
		m(spec)
	}
	policy, _ := Compile(spec, toyRoles(), toyDeclared)
	return Declared{Key: snapshot.Key{Namespace: "shop", Name: "db"}, Policy: policy}
}

func TestTolerationsOfLivePods(t *testing.T) {
	defaults := list(during(notReady, 300), during(unreachable, 300))
	authors := list(during(notReady, 60), always(unreachable))
	set := list(during(notReady, 15), during(unreachable, 15))
	const record = `{"notReady":{"seconds":15},"unreachable":{"seconds":15},"mode":"KeepOwn"}`
	one := []Declared{tolerant(short, "")}
	suspended := tolerant(short, "", func(s *v1alpha1.EvictionPolicySpec) { s.Suspend = true })
	broken := tolerant(short, "", func(s *v1alpha1.EvictionPolicySpec) { s.Roles[0].Evict.Rules[0].Expression = "(" })
	deleted := tolerant(short, "")
	deleted.Deleted = true
	second := tolerant(short, "")
	second.Key.Name = "other"
	for name, c := range map[string]struct {
		policies  []Declared
		record    string
		pod       func(*snapshot.Pod)
		own, want []corev1.Toleration
		says      string // a part of the record that is written
	}{
		"the server's defaults":       {policies: one, own: defaults, want: set, says: record},
		"none":                        {policies: one, want: set, says: record},
		"the author's":                {policies: one, own: authors, want: authors},
		"the author's, overridden":    {policies: []Declared{tolerant(short, override)}, own: authors, want: set, says: `"mode":"Override"`},
		"what was set":                {policies: one, record: record, own: set, want: set},
		"what was set, set back":      {policies: one, record: record, own: defaults, want: defaults},
		"the same, then overridden":   {policies: []Declared{tolerant(short, override)}, record: record, own: defaults, want: set, says: `"mode":"Override"`},
		"overridden, and set back":    {policies: []Declared{tolerant(short, override)}, record: strings.Replace(record, "KeepOwn", "Override", 1), own: authors, want: authors},
		"the role has changed":        {policies: []Declared{tolerant(tolerations(90), "")}, record: record, own: set, want: list(during(notReady, 90), during(unreachable, 90)), says: "90"},
		"the role is for ever":        {policies: []Declared{tolerant(forever, "")}, record: record, own: set, want: list(always(notReady), always(unreachable)), says: "forever"},
		"the role says nothing now":   {policies: []Declared{tolerant(v1alpha1.Tolerations{}, "")}, record: record, own: set, want: set},
		"set to another value":        {policies: []Declared{tolerant(tolerations(90), "")}, record: record, own: authors, want: authors},
		"a record that is none":       {policies: one, record: "{", own: defaults, want: defaults},
		"a record that is too long":   {policies: one, record: `{"mode":"` + strings.Repeat("x", mostRecord) + `"}`, own: defaults, want: defaults},
		"of two policies":             {policies: []Declared{tolerant(short, ""), second}, own: defaults, want: defaults},
		"of no policy":                {own: defaults, want: defaults},
		"of one that is suspended":    {policies: []Declared{suspended}, own: defaults, want: defaults},
		"of one that is being gone":   {policies: []Declared{deleted}, own: defaults, want: defaults},
		"of one that cannot be used":  {policies: []Declared{broken}, own: defaults, want: defaults},
		"a pod that is not a member":  {policies: one, pod: func(p *snapshot.Pod) { p.Labels = map[string]string{"role": "web"} }, own: defaults, want: defaults},
		"a pod that terminates":       {policies: one, pod: func(p *snapshot.Pod) { p.Deletion = time.Unix(1, 0) }, own: defaults, want: defaults},
		"a pod that has ended":        {policies: one, pod: func(p *snapshot.Pod) { p.Phase = corev1.PodFailed }, own: defaults, want: defaults},
		"a pod of the kubelet":        {policies: one, pod: func(p *snapshot.Pod) { p.Mirror = true }, own: defaults, want: defaults},
		"half of it is the author's":  {policies: one, own: list(during(notReady, 60), defaults[1]), want: list(during(notReady, 60), set[1]), says: `{"unreachable":{"seconds":15},"mode":"KeepOwn"}`},
		"the author's, half set back": {policies: one, record: `{"unreachable":{"seconds":15},"mode":"KeepOwn"}`, own: defaults, want: list(set[0], defaults[1]), says: record},
	} {
		t.Run(name, func(t *testing.T) {
			pod := toyPod("s0", "store")
			pod.Tolerations = c.own
			if c.record != "" {
				pod.Annotations = map[string]string{v1alpha1.TolerationsAnnotation: c.record}
			}
			if c.pod != nil {
				c.pod(pod)
			}
			change, _ := LiveTolerations(c.policies, pod)
			got := change.Apply(c.own)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if c.says == "" && change.Record != "" || !strings.Contains(change.Record, c.says) {
				t.Errorf("the record is %q, want %q in it", change.Record, c.says)
			}
			for _, own := range [][]corev1.Toleration{got, defaults, authors, nil} { // what another client has made of it then
				pod.Tolerations, pod.Annotations = own, map[string]string{v1alpha1.TolerationsAnnotation: change.Record}
				again, _ := LiveTolerations(c.policies, pod)
				if both := strings.Contains(change.Record, "notReady") && strings.Contains(change.Record, "unreachable"); both && len(again.Edits) > 0 {
					t.Errorf("%v once more: %+v", own, again)
				}
			}
		})
	}
}
