package histories

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/memberset"
	"usher.sh/usher/test/fdbsim"
)

// TestAdvised checks which exclusions people take back: those alone of which Usher says so.
func TestAdvised(t *testing.T) {
	const entry, address = "locality_instance_id:p-log-2", "10.1.0.2:4500"
	blocked := func(remedy string) []v1alpha1.ReplacementBlocker {
		return []v1alpha1.ReplacementBlocker{{Reason: string(memberset.MemberExcluded), Message: "member p-log-2 is excluded from the system", Remedy: remedy}}
	}
	for name, test := range map[string]struct {
		entry    string
		left     []string
		blockers []v1alpha1.ReplacementBlocker
		want     bool
	}{
		"nothing is said":                  {entry: entry},
		"Usher leaves it":                  {entry: entry, left: []string{"unless another client wants that: fdbcli --exec 'include " + entry + "'"}, want: true},
		"Usher leaves another":             {entry: entry, left: []string{"unless another client wants that: fdbcli --exec 'include " + entry + "1'"}},
		"its set waits for it":             {entry: entry, blockers: blocked("take the exclusion back in the system; or have the member replaced"), want: true},
		"its set waits for its address":    {entry: address, blockers: blocked("take the exclusion back in the system; or have the member replaced"), want: true},
		"its set waits for another":        {entry: entry + "1", blockers: blocked("take the exclusion back in the system; or have the member replaced")},
		"it is excluded for its eviction":  {entry: entry, blockers: blocked("wait; see what the eviction waits for: usher why p-log-2 -n db")},
		"an address that no process is at": {entry: "10.1.0.9:4500", blockers: blocked("take the exclusion back in the system; or have the member replaced")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t.Context(), 1)
			s := newSet(w)
			w.site, w.left, s.fdb = s, test.left, fdbsim.Empty(fdbCopies)
			s.fdb.Join(fdbsim.Process{ID: "p-log-2", Address: address}, "")
			set := &v1alpha1.MemberSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: firstPolicy}}
			set.Status.Blockers = test.blockers
			if err := w.store.create(set); err != nil {
				t.Fatal(err)
			}
			if got := s.advised(test.entry); got != test.want {
				t.Errorf("advised: %t, want %t", got, test.want)
			}
		})
	}
}
