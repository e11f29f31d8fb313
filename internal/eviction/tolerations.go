package eviction

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// defaultSeconds is what the apiserver's DefaultTolerationSeconds plugin gives to pods without a toleration.
const defaultSeconds = 300

// mostRecord is how long the record of what was set on a pod may be, in bytes. Usher writes less.
const mostRecord = 256

// TolerationEdit is one change of a list of tolerations: Toleration is inserted before the one at At, or differs from that in its seconds alone.
// The apiserver allows no other change of a pod that exists.
type TolerationEdit struct {
	At         int
	Insert     bool
	Toleration corev1.Toleration
}

// TolerationChange is how a pod comes to tolerate what its role says.
type TolerationChange struct {
	// Edits are carried out one after the other. None: nothing is to be changed.
	Edits []TolerationEdit
	// Record is the value of v1alpha1.TolerationsAnnotation that is written with them.
	Record string
}

// Apply returns the tolerations own with the edits carried out. It does not change own.
func (c TolerationChange) Apply(own []corev1.Toleration) []corev1.Toleration {
	own = slices.Clone(own)
	for _, edit := range c.Edits {
		own = edit.apply(own)
	}
	return own
}

// setTolerations is what Usher has set on a pod for roles, and in which mode: the record.
type setTolerations struct {
	v1alpha1.Tolerations `json:",inline"`

	Mode v1alpha1.TolerationMode `json:"mode,omitempty"`
}

// NewTolerations returns how a pod that is being created with the tolerations own gets those of its role. With KeepOwn what its author set for a
// taint stays, wildcards included, and the role's are added for the others. The apiserver's own defaults are there already when a webhook is
// asked, so what looks exactly like one of them is taken for it and replaced, as is what record says that Usher has set; an author
// who wants those 300 s says so in the role. With Override the role's apply in any case.
func NewTolerations(claim *Claim, own []corev1.Toleration, record string) TolerationChange {
	set, _ := readRecord(record)
	return changeOf(claim, own, set, false)
}

// LiveTolerations returns the same of a pod that exists, where one policy alone claims it, which can be used and is neither suspended nor being
// deleted. What was set once for a taint in a mode is not set again, whatever the pod has instead: a client that sets it back has the
// last word. Where the record cannot be read nothing is changed. Wanted identifies what the role has set on its pods, "" where there is no such role.
func LiveTolerations(policies []Declared, pod *snapshot.Pod) (change TolerationChange, wanted string) {
	found := claimants(policies, pod)
	if len(found) != 1 || pod.Terminating() || pod.Finished() || pod.Mirror {
		return TolerationChange{}, ""
	}
	policy, entry := found[0].policy, found[0].entry
	if policy.Deleted || policy.Policy.suspended || len(policy.Policy.problems) > 0 || entry.role == nil {
		return TolerationChange{}, ""
	}
	claim := entry.claim(pod)
	set, readable := readRecord(pod.Annotations[v1alpha1.TolerationsAnnotation])
	if !readable {
		return TolerationChange{}, ""
	}
	return changeOf(&claim, pod.Tolerations, set, true), writeRecord(setTolerations{claim.Role.Tolerations, claim.Tolerations})
}

func changeOf(claim *Claim, own []corev1.Toleration, set setTolerations, once bool) TolerationChange {
	own, mode := slices.Clone(own), set.Mode
	var change TolerationChange
	for _, each := range []struct {
		taint  string
		wanted *v1alpha1.Toleration
		set    **v1alpha1.Toleration
	}{
		{corev1.TaintNodeNotReady, claim.Role.Tolerations.NotReady, &set.NotReady},
		{corev1.TaintNodeUnreachable, claim.Role.Tolerations.Unreachable, &set.Unreachable},
	} {
		if each.wanted == nil || once && mode == claim.Tolerations && equality.Semantic.DeepEqual(*each.set, each.wanted) {
			continue
		}
		edit, needed := tolerate(own, each.taint, secondsOf(each.wanted), isSet(each.taint, *each.set), claim.Tolerations)
		if !needed {
			continue
		}
		own = edit.apply(own)
		change.Edits = append(change.Edits, edit)
		*each.set, set.Mode = each.wanted, claim.Tolerations
	}
	if len(change.Edits) > 0 {
		change.Record = writeRecord(set)
	}
	return change
}

// tolerate returns what has the first toleration for the taint be one for so many seconds, nil for ever. Kubernetes goes by the first one.
func tolerate(own []corev1.Toleration, taint string, seconds *int64, set func(*corev1.Toleration) bool, mode v1alpha1.TolerationMode) (edit TolerationEdit, needed bool) {
	role := corev1.Toleration{Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: seconds}
	authors := func(t corev1.Toleration) bool { return covers(&t, taint) && !set(&t) }
	if mode != v1alpha1.TolerationsOverride && slices.ContainsFunc(own, authors) {
		return TolerationEdit{}, false
	}
	at := slices.IndexFunc(own, func(t corev1.Toleration) bool { return covers(&t, taint) })
	switch {
	case at < 0:
		return TolerationEdit{At: len(own), Insert: true, Toleration: role}, true
	case tolerates(&own[at], taint) && equality.Semantic.DeepEqual(own[at].TolerationSeconds, seconds):
		return TolerationEdit{}, false
	case own[at].Key != taint || own[at].Effect == "" || !tolerates(&own[at], taint): // its seconds are for other taints as well, or it is for none
		return TolerationEdit{At: at, Insert: true, Toleration: role}, true
	}
	edited := own[at]
	edited.TolerationSeconds = seconds
	return TolerationEdit{At: at, Toleration: edited}, true
}

// apply may change own.
func (e TolerationEdit) apply(own []corev1.Toleration) []corev1.Toleration {
	if e.Insert {
		return slices.Insert(own, e.At, e.Toleration)
	}
	own[e.At] = e.Toleration
	return own
}

// covers is how the plugin sees it: an empty key or effect stands for all.
func covers(t *corev1.Toleration, taint string) bool {
	return (t.Key == taint || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "")
}

// tolerates is how Kubernetes sees it when it evicts.
func tolerates(t *corev1.Toleration, taint string) bool {
	return snapshot.Tolerates(t, &corev1.Taint{Key: taint, Effect: corev1.TaintEffectNoExecute})
}

// isSet recognizes the tolerations for a taint that the plugin sets, and what Usher has set, if it has.
func isSet(taint string, set *v1alpha1.Toleration) func(*corev1.Toleration) bool {
	return func(t *corev1.Toleration) bool {
		if t.Key != taint || t.Operator != corev1.TolerationOpExists || t.Effect != corev1.TaintEffectNoExecute {
			return false
		}
		return t.TolerationSeconds != nil && *t.TolerationSeconds == defaultSeconds ||
			set != nil && equality.Semantic.DeepEqual(t.TolerationSeconds, secondsOf(set))
	}
}

func secondsOf(t *v1alpha1.Toleration) *int64 {
	if t.Forever {
		return nil
	}
	return t.Seconds
}

// readRecord is for what anyone can write who may change the pod. Without a record nothing was set.
func readRecord(record string) (set setTolerations, readable bool) {
	if record == "" {
		return setTolerations{}, true
	}
	if len(record) > mostRecord || json.Unmarshal([]byte(record), &set) != nil {
		return setTolerations{}, false
	}
	return set, true
}

func writeRecord(set setTolerations) string {
	text, err := json.Marshal(set)
	if err != nil {
		return "" // numbers and words alone: it does not happen
	}
	return string(text)
}
