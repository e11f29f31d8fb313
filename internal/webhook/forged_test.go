package webhook

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

// What a DELETE says of its pod may be forged by whatever reaches the port: nothing is written on account of it alone. A read of the
// apiserver confirms it, one for a request however often its write is tried, and none where nothing would be written; where that cannot be
// had, the cache does.
func TestDeleteIsConfirmedBeforeAWrite(t *testing.T) {
	pod, forged, terminating := testPod("db-0"), testPod("db-0"), testPod("db-0")
	forged.Annotations = map[string]string{v1alpha1.BreakGlassAnnotation: "forged"}
	terminating.DeletionTimestamp = new(metav1.NewTime(clock))
	other := testPod("db-0")
	other.UID = "uid-2"
	ungoverned := testPod("db-0")
	ungoverned.Labels = nil

	unread := func(w *world) { w.green, w.hidden = true, true }
	shows := func(pod *corev1.Pod, hidden bool) func(*world) { // where the cache has it
		return func(w *world) { w.pods["db-0"], w.fresh, w.hidden = pod, map[string]*corev1.Pod{}, hidden }
	}
	there := func(pod *corev1.Pod) func(*world) {
		return func(w *world) { w.fresh = map[string]*corev1.Pod{"db-0": pod} }
	}
	for name, c := range map[string]struct {
		pod      *corev1.Pod
		user     string
		options  string
		hurried  bool // the request leaves no time
		given    func(*world)
		allowed  bool
		answered string
		did      []string
		looks    int
	}{
		"it is there, and may go":               {pod: pod, given: green, allowed: true, answered: "LetThrough", did: []string{"permit"}, looks: 1},
		"it is there, and may not":              {pod: pod, answered: "Refused", did: []string{"request"}, looks: 1},
		"there is none":                         {pod: forged, options: `,"gracePeriodSeconds":0`, given: there(nil), allowed: true, answered: "NoSuchPod", looks: 1},
		"there is none that may not":            {pod: pod, given: there(nil), allowed: true, answered: "NoSuchPod", looks: 1},
		"another has the name":                  {pod: forged, given: there(other), allowed: true, answered: "NotGoverned", looks: 1},
		"its glass is not broken":               {pod: forged, given: there(pod), answered: "Refused", did: []string{"request"}, looks: 1},
		"its glass is broken":                   {pod: forged, given: there(forged), allowed: true, answered: "BrokenGlass", did: []string{"permit"}, looks: 1},
		"others' writes come before it":         {pod: pod, given: func(w *world) { w.green, w.conflict = true, 2 }, allowed: true, answered: "LetThrough", did: []string{"conflict", "refresh", "conflict", "refresh", "permit"}, looks: 3},
		"it cannot be read":                     {pod: pod, given: unread, answered: "Refused", did: []string{"request"}, looks: 1},
		"it cannot be read, broken glass":       {pod: forged, given: func(w *world) { w.hidden = true }, allowed: true, answered: "BrokenGlass", did: []string{"permit"}, looks: 1},
		"it cannot be read, its own controller": {pod: pod, user: "operator", given: unread, allowed: true, answered: "ByOwner", did: []string{"permit"}, looks: 1},
		"it cannot be read, nor is it cached":   {pod: pod, given: shows(nil, true), answered: "Refused", looks: 1},
		"the same, broken glass":                {pod: forged, given: shows(nil, true), allowed: true, answered: "BrokenGlass", looks: 1},
		"there is no time":                      {pod: pod, hurried: true, answered: "Refused", did: []string{"request"}},
		"there is no time, nor such a pod":      {pod: pod, hurried: true, given: shows(nil, false), answered: "Refused"},
		"there is no time, and another":         {pod: pod, hurried: true, given: shows(other, false), answered: "Refused"},
		"there is no time, nothing governs it":  {pod: pod, hurried: true, given: shows(ungoverned, false), answered: "Refused"},
		"there is no time, it terminates":       {pod: pod, hurried: true, given: shows(terminating, false), answered: "Refused"},
		"a dry run writes nothing":              {pod: pod, options: `,"dryRun":["All"]`, given: green, allowed: true, answered: "LetThrough"},
		"it terminates, so nothing is written":  {pod: terminating, allowed: true, answered: "AlreadyLeaving"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if c.given != nil {
				c.given(w)
			}
			user := c.user
			if user == "" {
				user = "jane"
			}
			path := PathLeave
			if c.hurried {
				path += "?timeout=1ns"
			}
			got := w.post(path, deletionOf(t, c.pod, "db-0", user, c.options))
			if got.Allowed != c.allowed || got.AuditAnnotations["answer"] != c.answered || w.looks != c.looks {
				t.Errorf("allowed %t, %v, after %d reads past the cache; want %t, %s, after %d", got.Allowed, got.AuditAnnotations, w.looks, c.allowed, c.answered, c.looks)
			}
			if diff := cmp.Diff(c.did, w.did); diff != "" {
				t.Errorf("done (-want +got):\n%s", diff)
			}
			if known := w.pods["db-0"]; (c.answered == "NoSuchPod" || known == nil || known.UID != c.pod.UID) && len(w.events) > 0 {
				t.Errorf("events %q about a pod that is not there", w.events)
			}
		})
	}
}
