package memberset

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/text"
)

const mostWords = 1024 // characters of a message, and of a remedy

// conclude counts, and says what is waited for.
func (d *decision) conclude() {
	slices.SortFunc(d.status.Members, func(a, b v1alpha1.SetMember) int { return strings.Compare(a.ID, b.ID) })
	d.status.MemberCount = int32(len(d.status.Members))
	var counts []v1alpha1.MemberGroupStatus
	complete := d.status.Formed != nil
	for i := range d.Set.Spec.Groups {
		c := d.count(&d.Set.Spec.Groups[i])
		complete = complete && c.MemberCount == c.Replicas && c.ReadyCount == c.Replicas && c.JoiningCount == 0 && c.MarkedCount == 0
		if g := d.group(c.Name); g == nil || d.strategy(g) != v1alpha1.UpdateOnDelete {
			complete = complete && c.UpdatedCount == c.Replicas
		}
		counts = append(counts, c)
	}
	d.status.Groups = counts
	d.status.Blockers = Written(d.blockers)
	d.setConditions(complete)
}

func (d *decision) count(g *v1alpha1.MemberGroup) v1alpha1.MemberGroupStatus {
	c := v1alpha1.MemberGroupStatus{Name: g.Name, Replicas: d.wanted(g)}
	if read := d.group(g.Name); read != nil {
		c.LastNumber = d.numbersHad(read).last
	}
	for i := range d.Set.Status.Groups {
		if s := &d.Set.Status.Groups[i]; s.Name == g.Name {
			c.LastNumber = max(c.LastNumber, s.LastNumber)
		}
	}
	for i := range d.status.Members {
		if m := &d.status.Members[i]; m.Group == g.Name {
			d.countMember(&c, m)
		}
	}
	return c
}

func (d *decision) countMember(c *v1alpha1.MemberGroupStatus, m *v1alpha1.SetMember) {
	c.MemberCount++
	if joining(m) {
		c.JoiningCount++
	}
	if m.Removal != nil {
		c.MarkedCount++
	}
	if g := d.group(m.Group); g != nil && d.updated(g, m) {
		c.UpdatedCount++
	}
	if p := d.pod(m.ID); p != nil && p.Ready && !p.Terminating {
		c.ReadyCount++
	}
}

// Written returns blockers as a status has them.
func Written(all []Blocker) []v1alpha1.ReplacementBlocker {
	var written []v1alpha1.ReplacementBlocker
	for i := range all[:min(len(all), mostBlockers)] {
		b := &all[i]
		written = append(written, v1alpha1.ReplacementBlocker{
			Reason: string(b.Reason), Message: text.Cut(b.Message, mostWords), Remedy: text.Cut(b.Remedy, mostWords),
		})
	}
	return written
}

// setConditions sets what kstatus reads, all three with the same words.
func (d *decision) setConditions(complete bool) {
	ready, reconciling, stalled := metav1.ConditionFalse, metav1.ConditionTrue, metav1.ConditionFalse
	reason, message := "Reconciling", "members join or leave, or their pods are not Ready"
	never := slices.IndexFunc(d.blockers, func(b Blocker) bool { return b.Never })
	switch {
	case never >= 0:
		reconciling, stalled = metav1.ConditionFalse, metav1.ConditionTrue
		reason, message = string(d.blockers[never].Reason), d.blockers[never].Message
	case d.Set.Spec.Suspend:
		reconciling, reason, message = metav1.ConditionFalse, "Suspended", "spec.suspend is set, and nothing is done"
	case len(d.blockers) > 0:
		reason, message = string(d.blockers[0].Reason), d.blockers[0].Message
	case complete:
		ready, reconciling = metav1.ConditionTrue, metav1.ConditionFalse
		reason, message = "Complete", text.Count(len(d.status.Members), "member")+", as many as there are to be"
	}
	for _, c := range []struct {
		kind   string
		status metav1.ConditionStatus
	}{{v1alpha1.ConditionReady, ready}, {v1alpha1.ConditionReconciling, reconciling}, {v1alpha1.ConditionStalled, stalled}} {
		meta.SetStatusCondition(&d.status.Conditions, metav1.Condition{
			Type: c.kind, Status: c.status, Reason: reason, Message: text.Cut(text.Line(message), mostWords), ObservedGeneration: d.Set.Generation,
			LastTransitionTime: d.stamp(),
		})
	}
}

// Rests reports whether a status says that nothing is under way. What stalls a set need not stop the members that join or leave.
func Rests(status *v1alpha1.MemberSetStatus) bool {
	changes := slices.ContainsFunc(status.Groups, func(g v1alpha1.MemberGroupStatus) bool { return g.JoiningCount > 0 || g.MarkedCount > 0 })
	return meta.IsStatusConditionFalse(status.Conditions, v1alpha1.ConditionReconciling) &&
		(!changes || !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionStalled))
}
