package maintenance

import (
	"cmp"
	"slices"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/text"
)

// mostWarned is how many pods a warning of an entry names.
const mostWarned = 10

// warningOrder are the reasons of warnings, what can still be helped first.
var warningOrder = []drain.Reason{
	drain.WillBeLost, drain.NotInTime, drain.GraceCut, drain.FitsNowhere, drain.UnreplicatedPod, drain.OrphanedDaemon, drain.LocalStorage,
}

// lostWithPod reports whether a warning is of what is lost with a pod that leaves: it is named also once the pod is gone.
func lostWithPod(reason string) bool {
	return slices.Contains([]drain.Reason{drain.UnreplicatedPod, drain.OrphanedDaemon, drain.LocalStorage}, drain.Reason(reason))
}

// warn enters what is to be said of the pods on a node, and nothing that is true no longer. What was lost by then stays: its pods are not on the node any more.
func warn(e *v1alpha1.MaintainedNode, warnings []drain.Warning, maintenance string) {
	found := byReason(warnings, maintenance)
	for i := range e.Warnings {
		if former := &e.Warnings[i]; lostWithPod(former.Reason) {
			found = addLost(found, former)
		}
	}
	slices.SortStableFunc(found, func(a, b v1alpha1.MaintenanceWarning) int {
		return cmp.Compare(slices.Index(warningOrder, drain.Reason(a.Reason)), slices.Index(warningOrder, drain.Reason(b.Reason)))
	})
	e.Warnings = found
}

// byReason puts what is said of single pods together.
func byReason(warnings []drain.Warning, maintenance string) []v1alpha1.MaintenanceWarning {
	var found []v1alpha1.MaintenanceWarning
	for i := range warnings {
		w := &warnings[i]
		at := slices.IndexFunc(found, func(f v1alpha1.MaintenanceWarning) bool { return f.Reason == string(w.Reason) })
		if at < 0 {
			at, found = len(found), append(found, v1alpha1.MaintenanceWarning{Reason: string(w.Reason)})
		}
		found[at].Count++
		if len(found[at].Pods) < mostWarned {
			remedy := remedyOf(&drain.Blocker{Reason: w.Cause, Pod: w.Pod, Node: w.Node, Remedy: w.Remedy}, maintenance)
			found[at].Pods = append(found[at].Pods, v1alpha1.WarnedPod{
				Name: w.Pod.String(), Message: cut(text.Line(w.Message), mostWarning), Remedy: cut(text.Line(remedy), mostWarning),
			})
		}
	}
	return found
}

// addLost adds pods that were named before, which come first, and were as many at least.
func addLost(found []v1alpha1.MaintenanceWarning, former *v1alpha1.MaintenanceWarning) []v1alpha1.MaintenanceWarning {
	at := slices.IndexFunc(found, func(f v1alpha1.MaintenanceWarning) bool { return f.Reason == former.Reason })
	if at < 0 {
		return append(found, *former)
	}
	pods := slices.Clone(former.Pods)
	for _, p := range found[at].Pods {
		if !slices.ContainsFunc(pods, func(other v1alpha1.WarnedPod) bool { return other.Name == p.Name }) {
			pods = append(pods, p)
		}
	}
	found[at].Count = max(found[at].Count, former.Count, int32(len(pods))) //nolint:gosec // twice mostWarned at most
	found[at].Pods = pods[:min(len(pods), mostWarned)]
	return found
}
